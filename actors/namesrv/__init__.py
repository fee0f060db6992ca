"""A RocketMQ name server: brokers register, clients and operators ask for routes.

`core/` makes the decisions. `routes` is the actor that owns the tables and saves what has to
survive a restart; `tree` puts it behind a port, and `command_line` is `triolog namesrv`. A cluster
file's `[name_servers]` puts the same tree into nodes.
"""
