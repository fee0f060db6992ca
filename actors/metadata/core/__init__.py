"""The tables and their changes, without Trio, clock or I/O.

`tables` is a slave's side, and `changes` a master's. Each function takes the tables and returns the
next ones. A table that did not change is the same object in both, and is therefore not written.
"""
