"""The files that are derived from a commit log: consume queues and index files, in RocketMQ's
formats.

Open `derived_files` first: it keeps them in step. `dispatch_state` records how far they surely
reach. The queues are in `consume_queue`; what a start reads of them is in `queue_files`,
`queue_ends` and `queue_heads`. The index is in `index_files`. `record_proof` compares a unit with
the record in the log. There are no actors here: those are in `dispatch/`.
"""
