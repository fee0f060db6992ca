"""`python -m actors.sim`: `command_line` reads the words, `sweep` runs many seeds, `shrink` cuts a
failing run down, `script_file` writes one as a file.
"""
