"""The tools for the stores of DLedger members. `tools` lists them.

`check` reads entries, index and checksums once, and term, vote, checkpoint and snapshots; where
entries do not go on it asks recovery what a start would do. `files` opens a store to
be read from alone. `backup` copies a member; nobody cuts or seeds one by hand.
"""
