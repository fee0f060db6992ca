"""A broker's tables beside its log: topics, offsets, groups, and what timers need.

`core/tables` has them as one value and decides, without I/O, what a slave does with its master's
answers. `keeper` owns and publishes them, and `config_folder` reads and writes their files.
`slave_sync` copies the tables of a Java master, and `master_watch` those of a Python master, whose
side is `watches`. `answers` serves them to others, and `administration` changes them for operators.
Read `core/tables` first.

Upstream: apache/rocketmq, broker/.../slave/SlaveSynchronize.java and common/.../ConfigManager.java,
5.3.3 and 4.9.7; classic-ha.md 5.
"""
