"""The checks of any simulated history: `failures` says which errors a fault excuses, `liveness`
checks that nothing stands still, and `linear` what clients may see. Each mode has further judges of
its own.
"""
