"""What derives from a commit log: consume queues and index files, as RocketMQ has them.

`derived_files` keeps them in step, with `dispatch_state` for how far they surely reach. The queues
are `consume_queue`, with what a start reads of their files in `queue_files`, `queue_ends` and
`queue_heads`; the index is `index_files`. `record_proof` asks the log whether they are right. Plain
files: `dispatch/` has the actors.
"""
