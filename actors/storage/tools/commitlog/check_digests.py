"""Compares the bytes of a log with the digests that were made when they were written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import attrs

from actors.env.protocols import Disk, File
from actors.storage.files.stepping import Step, Work
from actors.storage.log.commit_log import segment_path
from actors.storage.log.digests import Digests, digest_of
from actors.storage.tools.commitlog.walk import READ_BYTES
from actors.storage.tools.findings import Findings


@attrs.frozen(kw_only=True)
class DigestCheck:
    """Compares the files of one log with their digests. Ranges without a digest are not judged.

    Attributes:
        name: the name of the group.
        total_bytes: the size of the log, as far as it is known.
        log_folder: the folder of the log files.
        copy_folder: the folder of copies, which are compared instead of the log files; "": the log
            files are.
        digests_folder: the folder of the digests.
        limit_bytes: ranges that end behind this offset are not compared.
        findings: takes the damage, one line for each run of damaged ranges.
    """

    disk: Disk
    name: str
    total_bytes: int
    log_folder: str
    digests_folder: str
    segment_bytes: int
    limit_bytes: int
    findings: Findings
    copy_folder: str = ""

    def run(self, bases: Sequence[int]) -> Work[None]:
        """Check the log files that begin at `bases`."""
        if not self.disk.exists(self.digests_folder):
            return
        done = 0
        with closing(
            Digests(self.disk, self.digests_folder, self.segment_bytes, reads_only=True)
        ) as digests:
            for base in bases:
                if self.disk.exists(self._looked_at(base)):  # otherwise it has just expired
                    for _ in self._file(digests, base):
                        done += READ_BYTES
                        yield Step(f"{self.name}: digests", done, max(done, self.total_bytes))

    def _looked_at(self, base: int) -> str:
        return segment_path(self.copy_folder or self.log_folder, base)

    def _file(self, digests: Digests, base: int) -> Iterator[None]:
        file = self.disk.open(self._looked_at(base), "r")
        path = segment_path(self.log_folder, base)
        damaged: tuple[int, int] | None = None
        at = base
        try:
            while at < min(base + self.segment_bytes, self.limit_bytes):
                for start, end in self._damaged(digests, file, base, at):
                    if damaged is not None and damaged[1] < start:
                        self._hurt(path, *damaged)
                        damaged = None
                    damaged = (damaged[0] if damaged else start), end
                yield
                at += READ_BYTES
        finally:
            file.close()
        if damaged is not None:
            self._hurt(path, *damaged)

    def _damaged(
        self, digests: Digests, file: File, base: int, at: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the damaged ranges among READ_BYTES from `at` on, where a range begins."""
        data, begin = memoryview(file.pread(at - base, READ_BYTES)), at
        while at < begin + READ_BYTES and at < base + self.segment_bytes:
            start, end = digests.range_at(at)
            if end > self.limit_bytes:
                return
            known = digests.get(start)
            if known is not None and known != digest_of(data[start - begin : end - begin]):
                yield start, end
            at = end

    def _hurt(self, path: str, start: int, end: int) -> None:
        self.findings.hurt(
            f"{path}: bytes {start} to {end} of the log are not what was written there (their "
            "digests in digests/ differ): the node does not send them, and counts as no whole "
            "copy; start it and mend them: `repair NODE`"
        )
