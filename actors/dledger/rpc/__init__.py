"""A member's connections.

`server` takes them for all groups of a node, and `peer` makes one to each other member. What they
carry is in `rpc_messages`.
"""
