"""What has to hold in any simulated history: `failures` says which errors a fault excuses,
`liveness` that nothing stands still, `linear` what clients may see. Each mode has its own judges.
"""
