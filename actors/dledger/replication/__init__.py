"""The leader's log and its way to the others: `quorum_ack_checker` takes appends,
`entry_dispatcher` sends them to one peer each, `entry_handler` takes them there.
"""
