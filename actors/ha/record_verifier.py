"""Checks the records that a Java master sends before a slave reports them.

Between two nodes of ours the master compares what it sends with digests. A Java broker has none, so
only the records' CRCs can be checked. Upstream's slave reports what it was sent, and notices a bad
record when it is consumed.

The verifier reads back what the store has written, in a thread, beside the loop that copies.
"""

from __future__ import annotations

import attrs

from actors.storage.commitlog.recovery import file_ending, store_ms
from actors.storage.log.log_reader import LogReader
from wire.files.commit_log import Stop, scan

STEP_BYTES = 1 << 20
"""Bytes read and checked by one call beside the loop: 1 ms, or 5 ms with records of 256 bytes."""


@attrs.define(kw_only=True)
class RecordVerifier:
    """Verifies one log from the beginning of one of its files on, where a record begins.

    Attributes:
        at_bytes: all records below are good.
        seen_bytes: everything below was read. From `at_bytes` on it is part of a record, if the
            record's size is right.
        problem: what is wrong with the record at `at_bytes`; "" for nothing.
        last_store_ms: the store timestamp of the last good record in ms; 0 without any.
    """

    reader: LogReader
    record_bytes_max: int
    at_bytes: int
    seen_bytes: int = attrs.field(init=False)
    problem: str = attrs.field(default="", init=False)
    last_store_ms: int = attrs.field(default=0, init=False)
    _wanted_bytes: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.seen_bytes = self.at_bytes

    def step(self, limit_bytes: int) -> bool:
        """Check the next records below the log's end.

        Returns: whether more of them can be checked.

        Raises: OffsetGone, OSError.
        """
        if self.problem or self.seen_bytes >= limit_bytes:
            return False
        if limit_bytes < self._wanted_bytes:
            self.seen_bytes = limit_bytes
            return False
        at, segment = self.at_bytes, self.reader.segment_bytes
        data = self.reader.read(at, max(STEP_BYTES, self._wanted_bytes - at), limit_bytes)
        found, stopped = scan(data, physical_offset=at, size_max=self.record_bytes_max)
        if found:
            self.last_store_ms = store_ms(data, found[-1][0])
        self.at_bytes = at + stopped.end
        self._wanted_bytes = 0
        match stopped.stop:
            case Stop.END:
                self.seen_bytes = self.at_bytes
            case Stop.BLANK if stopped.blank_bytes == segment - self.at_bytes % segment:
                self._skip(self.at_bytes + stopped.blank_bytes, limit_bytes)
            case Stop.INCOMPLETE if (at + len(data)) % segment:
                self._wanted_bytes = at + len(data) + stopped.missing_bytes
                self.seen_bytes = at + len(data)
            case Stop.UNWRITTEN:
                self.problem = "no record is there"
            case _:
                base = self.at_bytes - self.at_bytes % segment
                self.problem = file_ending(stopped, base, self.at_bytes, segment).reason
        self.reader.drop_below(self.at_bytes)  # an open file stays on the disk after its deletion
        return not self.problem and self.seen_bytes < limit_bytes

    def anew(self) -> RecordVerifier:
        """A verifier that checks the record with the problem again, which may have been mended."""
        return RecordVerifier(
            reader=self.reader, record_bytes_max=self.record_bytes_max, at_bytes=self.at_bytes
        )

    def _skip(self, end_bytes: int, limit_bytes: int) -> None:
        """Skip the blank rest of a file, of which a frame may have brought a part only."""
        if end_bytes <= limit_bytes:
            self.at_bytes = self.seen_bytes = end_bytes
        else:
            self._wanted_bytes, self.seen_bytes = end_bytes, limit_bytes
