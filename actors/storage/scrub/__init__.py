"""Finds bytes of a log that differ from what was written, and mends them.

`scrubber` compares the log with its digests (`log_check`) before bytes are sent or count, and
`approval` says for how long that holds. `mending` gives good ranges to other members and takes
theirs for damaged ones. What is derived from the log is scrubbed in `dispatch/`. Open `scrubber`
first.
"""
