"""Whether a log still has what was written, and what is done where it has not.

`scrubber` compares the log with its digests (`log_check`) before bytes leave or count, and
`approval` says for how long that holds. `mending` gives good ranges to other members and takes
theirs for damaged ones. What derives from the log is scrubbed in `dispatch/`. Open `scrubber`
first.
"""
