"""How a leader's log gets to the other members.

`quorum_ack_checker` takes appends, an `entry_dispatcher` for each peer sends them there, and the
peer's `entry_handler` takes them.
"""
