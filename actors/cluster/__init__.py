"""The command that runs a whole cluster: `python -m actors.cluster FILE`.

It stays outside of the nodes: everything that it knows of them comes through their API sockets,
whichever of three ways it runs them. Open `command_line` first, then `run`.
"""
