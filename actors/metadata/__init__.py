"""A broker's tables beside its log: topics, offsets, groups, and what timers need.

`core/tables` has them as one value and says what a slave does with its master's answers, pure;
`config_folder` reads and writes the files that hold them. Open `core/tables` first.

Upstream: apache/rocketmq, broker/.../slave/SlaveSynchronize.java and common/.../ConfigManager.java,
5.3.3 and 4.9.7; classic-ha.md 5.
"""
