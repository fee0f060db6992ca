"""The decisions of a name server, without Trio, clock or files.

`tables` has the registered brokers and their topics, and `settings` what operators may change.
`name_server` answers requests from both. Each input returns one value, its effects.
"""
