"""A broker's tables beside its log: topics, offsets, groups, and what timers need.

`core/tables` has them as one value and says what a slave does with its master's answers, pure;
`keeper` owns and publishes them, and `config_folder` is their files. `slave_sync` copies those of a
master, `answers` is what others are told, and `administration` what operators change. Open
`core/tables` first.

Upstream: apache/rocketmq, broker/.../slave/SlaveSynchronize.java and common/.../ConfigManager.java,
5.3.3 and 4.9.7; classic-ha.md 5.
"""
