"""The store of a classic group: a commit log with records as RocketMQ writes them.

`store` is the log's one writer: `group_commit` is how a master writes, `raw_session` how a slave
does. `opening` makes a store of what a stop or a crash left, by what `recovery` finds; `set_aside`
is for a slave whose log is not its master's. `epoch_store` keeps which epoch each byte is of, in
auto-switch groups. `pull_service` answers readers, and holds those who wait for news.
"""
