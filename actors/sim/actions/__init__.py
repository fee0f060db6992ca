"""What a script does to simulated nodes, whatever their mode: `script` is its text, `action` one
kind of line, `runner` carries them out; `process`, `disk` and `network` are what happens to any
node.
"""
