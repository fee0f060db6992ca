"""RocketMQ's store formats. `commit_log` has a table of the modules that know a part."""
