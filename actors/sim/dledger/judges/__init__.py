"""The checks of DLedger groups: `checkers` at each observation, `validations` once the members have
stopped, and `machine` both, for state machines.
"""
