"""Audits: claims about what the nodes did, each judged by what they wrote.

An audit has a name, a claim in one sentence, a severity, and a query whose rows are findings. It
says what it looked at, so that "no finding" cannot mean "nothing there". Clocks of two nodes are
never compared: order within a node is by (boot, seq), between nodes by terms, numbers and offsets.

`audit` has what an audit is made of, `judging` all of them, and runs them.
"""
