"""The decisions of classic HA, without Trio, clock or I/O.

Each class takes one input at a time and returns one value, its effects. The actors of `actors.ha`
carry them out in this order: hand to the store, report, emit, close.
"""
