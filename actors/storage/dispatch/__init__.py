"""The actors that derive queues and index from the log behind its writer, and keep them right.

`dispatcher` writes them and looks into them, `dispatcher_messages` are what it takes;
`dispatch_checks` say from which bytes it may derive.
`derived_scrubber` walks through the log and compares (`queue_scrub`, `index_scrub`); what differs
the dispatcher mends. Open `dispatcher` first.
"""
