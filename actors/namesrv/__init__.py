"""A RocketMQ name server: brokers register, clients and operators ask for routes.

`core/` decides; `routes` is the actor that owns the tables and saves what is to survive a restart;
`tree` has it behind a port; `command_line` is `triolog namesrv`. A cluster file's `[name_servers]`
puts the same tree into nodes.
"""
