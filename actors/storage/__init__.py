"""The files of a node, the actors that own them, and the tools for them.

| Room | What is in it; open first |
|---|---|
| `files/` | single files, on a full disk too: `side_file` |
| `log/` | what every log on disk has, of either mode: `commit_log` |
| `derived/` | consume queues and index, which follow from a commit log: `derived_files` |
| `commitlog/` | the store of a classic group, whose one writer is an actor: `store` |
| `scrub/` | whether a log still has what was written, and mending it: `scrubber` |
| `dispatch/` | the actors that write queues and index, and mend them: `dispatcher` |
| `ledger/` | the store of a DLedger member: `store` |
| `node/` | what a node keeps beside its groups' stores: `identity` |
| `tools/` | `python -m actors.storage`: `command_line` |

`kinds` is the table of modes: where the files of each lie (`layout`), what a start
asks of its folders (`group_kind`), and its tools. Plain classes work on the `Disk` protocol and
never yield; actors are their only owners.
"""
