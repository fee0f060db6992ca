"""What has to hold in DLedger groups: `checkers` at each observation, `validations` once the
members have stopped, `machine` both for state machines.
"""
