"""Linearizability: could what clients saw have come from one object that does one thing at a time?

`operations` describes what clients did and saw, `search` finds an order, `registers` has objects to
search for, `log` judges a replicated log without a search, and `judge` finds the shortest part of a
history that has no order. All of it is pure.
"""
