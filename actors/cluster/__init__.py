"""The command that runs a whole cluster: `python -m actors.cluster FILE`.

It stands outside the nodes: what it knows of them it asks through their API sockets, in all three
ways of running them.
"""
