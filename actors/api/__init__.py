"""The API socket of a node: its clients use the same `NodeHandle` as a program that embeds a node.

`handle` says what a node must offer; `server` puts it behind WebSocket. What nodes ask each other
over it is in `actors.control`.
"""
