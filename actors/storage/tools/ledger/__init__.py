"""The tools for the stores of DLedger members. `tools` lists them.

`check` reads entries, index and checksums once; `end` asks recovery what a start would do where
they do not go on, `small` looks at term, vote, checkpoint and snapshots. `files` opens a store to
be read from alone. `backup` copies a member; nobody cuts or seeds one by hand.
"""
