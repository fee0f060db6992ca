"""What `python -m actors.storage` does with the files of a store: check, dump, truncate, backup,
seed.

Open `command_line` first. `target` finds out what a folder is; each mode has its `StoreTools`
(`kind`), made in `commitlog/` and `ledger/`. Plain generators over the `Disk` protocol, without
actors: they yield a `Step` at least every 4 MiB, so that a caller can show progress, checkpoint, or
end them at any of these positions.
"""
