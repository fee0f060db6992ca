"""A running node: what it is in each of its groups, and what it answers for them.

`node.Node` hands every call to a group's part, of which there is one kind for each kind of group:
`classic` and `ledger`.
"""
