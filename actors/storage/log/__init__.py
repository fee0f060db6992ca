"""What every log on disk has, whatever its records are.

`commit_log` is a run of bytes in files of one size, with one writer; `log_reader` reads beside it.
`syncer` makes durable what was written, `digests` remember what it was, `truncation` cuts an end
off, `expiry` lets the oldest files go. Open `commit_log` first.
"""
