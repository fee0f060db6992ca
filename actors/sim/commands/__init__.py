"""`python -m actors.sim`: `command_line` reads the arguments, `sweep` runs many seeds, `shrink`
reduces a failing run, and `script_file` writes a run as a file.
"""
