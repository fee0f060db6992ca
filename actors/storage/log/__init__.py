"""The parts that every log on disk has, whatever its records are.

`commit_log` keeps a sequence of bytes in files of one size, with one writer; `log_reader` reads
beside it. `syncer` makes written bytes durable, `digests` keep checksums of them, `truncation` cuts
an end off, `expiry` deletes the oldest files. Open `commit_log` first.
"""
