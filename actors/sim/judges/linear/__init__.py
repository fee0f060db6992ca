"""Linearizability: could what clients saw have come from one object that does one thing at a time?

`operations` is what clients did and saw, `search` looks for an order, `registers` are objects to
search for, `log` judges a replicated log without a search, `judge` names the shortest part of a
history that has no order. All of it is pure.
"""
