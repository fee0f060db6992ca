"""What `python -m actors.storage` does with the files of a store: check, dump, pending, truncate,
backup, seed.

Open `command_line` first. `target` finds out what a folder is. Each mode has its `StoreTools`
(`kind`), made in `commitlog/` and `ledger/`. The tools are plain generators over the `Disk`
protocol, without actors. They yield a `Step` at least every 4 MiB, at which a caller can show
progress, let other tasks run, or end them.
"""
