"""The actors that derive consume queues and index from a commit log while it is written, and mend
them.

`dispatcher` owns the derived files: it writes them, and answers lookups. `dispatcher_messages` has
its messages; `dispatch_checks` decides from which bytes it may derive. `derived_scrubber` walks
through the log and compares records with their units and entries (`queue_scrub`, `index_scrub`);
the dispatcher mends those that are damaged. Open `dispatcher` first.
"""
