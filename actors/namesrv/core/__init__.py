"""The decisions of a name server, without Trio, clock or files.

`tables` says which broker has which topics, and who lives; `settings` what operators may change;
`name_server` answers requests from both. Each input gives one value, its effects.
"""
