"""A running node: its part in each of its groups, and the calls that it answers for them.

`node.Node` hands every call to the group's part. There is one class of parts for each mode, in
`classic` and in `ledger`.
"""
