"""Bytes of RocketMQ's HA protocols."""
