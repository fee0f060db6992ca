"""The tools for the stores of DLedger members. Open `tools` first, which lists them.

`check` reads entries, index and checksums once, and term, vote, checkpoint and snapshots. Where the
entries end it asks recovery what a start would do. `files` opens a store only to be read. `backup`
copies a member. There is no truncation and no seeding for this mode.
"""
