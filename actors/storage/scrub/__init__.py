"""Finds bytes of a log that are not what was written any more, and mends them.

`scrubber` compares the log with its digests (`log_check`) before bytes are sent or count, and
`approval` says for how long that holds. `mending` gives good ranges to other members and takes
theirs for damaged ones. What is derived from the log is scrubbed in `dispatch/`. Open `scrubber`
first.
"""
