"""Simulated histories of DLedger groups: `plan` draws and stages them, `members` is what runs,
`runner` carries their scripts out, `actions/` is what happens to such groups alone, `judges/` what
has to hold in them.
"""
