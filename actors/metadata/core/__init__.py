"""The tables and what becomes of them, without Trio, clock or I/O.

`tables` is a slave's side, `changes` a master's. Every function takes the tables and returns the
next ones; where nothing changed these are the same object, so that nobody writes them.
"""
