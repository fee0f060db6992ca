"""Single files, and what a disk may do to them.

`room` says what is done where a disk has none; `side_file` keeps a few numbers through a torn
write, `whole_files` makes and reads files as a whole, and `replacing` does so on a full disk.
`stepping` lets long work of plain code be interrupted. Nothing here knows of logs. Open `side_file`
first.
"""
