"""What a script does to simulated nodes of any mode. `script` is its text, `action` one kind of
line, and `runner` carries lines out; `process`, `disk` and `network` have what can happen to any
node.
"""
