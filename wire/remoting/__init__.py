"""RocketMQ's remoting: `frame` around a `header` in either encoding, and JSON as Java reads it."""
