"""The tools for the stores of classic groups. Open `tools` first, which lists them.

`check` reads a log once and compares it with the queues (`check_queues`), the index (`check_index`)
and the digests (`check_digests`). Where the records end it asks recovery what a start would do.
`pending` finds the delayed and half messages with which a broker goes on. `truncate` cuts off a
log's end. `backup` copies a log, and makes a store of a copy.
"""
