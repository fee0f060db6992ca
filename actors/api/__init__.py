"""The API socket of a node: who asks over it reaches the same `NodeHandle` as a program that embeds
the node.

`handle` says what a node must offer; `server` puts it behind WebSocket; `member_link` is a slave's
own connection to its master's API socket.
"""
