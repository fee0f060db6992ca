"""The tools for the stores of classic groups. `tools` lists them.

`check` reads a log once and compares what derives from it: with the queues (`check_queues`), the
index (`check_index`), the digests; where records do not go on it asks recovery what a start would
do. `truncate` cuts an end off by hand, `backup` copies a log, and makes a store again.
"""
