"""Simulated histories of a classic group: `plan` draws and stages them, `runner` carries their
scripts out, `actions/` is what happens to such a group alone, `judges/` what has to hold in it.
"""
