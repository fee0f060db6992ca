"""The decisions of DLedger's protocol without Trio, clock or I/O: one input, one value that says
what to do.

The actors of `actors.dledger` carry the effects out in the order of their fields: what is to be
remembered is on the disk before anything is sent.
"""
