"""Simulated histories of a classic group. `plan` draws and stages them, `runner` carries their
scripts out, `actions/` has what can happen only to such a group, `judges/` what has to hold in it.
"""
