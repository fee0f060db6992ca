"""The decisions of DLedger's protocol, without Trio, clock or I/O.

Each class takes one input at a time and returns one value, its effects. The actors of
`actors.dledger` carry the effects out in the order of their fields: what has to be remembered is on
the disk before anything is sent.
"""
