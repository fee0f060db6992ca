"""Classic master/slave replication (RocketMQ's HAService) as actors.

The decisions are in `core`, which is pure.
"""
