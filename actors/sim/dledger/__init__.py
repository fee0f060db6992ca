"""Simulated histories of DLedger groups: `plan` draws and stages them, `members` runs the groups,
`runner` executes their scripts, `actions/` has the faults that only such groups know, and `judges/`
the checks.
"""
