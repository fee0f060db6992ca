"""The API socket of a node: who asks over it reaches the same `NodeHandle` as a program that embeds
the node.

`handle` says what a node must offer; `server` puts it behind WebSocket. What nodes ask each other
over it is in `actors.control`.
"""
