"""The decisions of classic HA without Trio, clock or I/O: one input, one value that says what to
do.

The actors of `actors.ha` carry the effects out in the order: hand to the store, report, emit,
close.
"""
