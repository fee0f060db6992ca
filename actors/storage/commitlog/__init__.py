"""The store of a classic group: a commit log with records as RocketMQ writes them.

`store` is the log's one writer: `append_batch` and `group_commit` are how a master writes,
`raw_session` and `page_seal` how a slave does. `opening` makes a store of what a stop or a crash
left, by what `recovery` finds; `set_aside` is for a slave whose log is not its master's.
"""
