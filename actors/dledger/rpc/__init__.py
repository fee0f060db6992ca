"""A member's connections: `server` takes them for all groups of a node, `peer` makes one to each
other member; what they carry is in `rpc_messages`.
"""
