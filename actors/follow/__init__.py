"""A live copy of a stock broker's commit log, without a cluster file: `triolog follow`.

`copy` runs one copy as the tree of a group's slave, and reports its status. `folder` takes the
copy's folder, which is laid out as a broker's store root. `arguments`, `command_line` and `lines`
are the command.
"""
