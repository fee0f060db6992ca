"""Receives a leader's snapshot, in one request or in pieces.

Upstream: openmessaging/dledger, DLedgerEntryPusher.java, handleInstallSnapshot and
snapshot/SnapshotManager.java, installSnapshot, tag 0.4.0.

Differs: a piece counts only after the one before it, and the whole only with its checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import attrs

from actors.storage.ledger.snapshots import (
    CHUNK_BYTES,
    INSTALLED,
    SNAPSHOT_BYTES_MAX,
    Snapshot,
    SnapshotFolder,
    Writer,
)
from wire.dledger.codes import ResponseCode
from wire.dledger.entry import INDEX_MAX
from wire.dledger.rpc import InstallSnapshotRequest


@attrs.define
class Coming:
    """A snapshot of which a part has been received.

    Attributes:
        index, term: those of the last entry in its state.
    """

    index: int
    term: int
    leader_term: int
    total_bytes: int
    total_crc: int | None
    writer: Writer


@attrs.define(kw_only=True)
class Install:
    """A snapshot that has been received as a whole.

    Attributes:
        number: the number of its sync.
        snapshot: the snapshot once it is synced.
        steps: the steps of the machine's load; None before.
    """

    coming: Coming
    answer: Callable[[ResponseCode], object]
    number: int
    snapshot: Snapshot | None = None
    steps: Generator[None, None, None] | None = None


@attrs.define
class SnapshotReceiving:
    """See the module's text.

    Attributes:
        coming: the snapshot that is not complete yet, or that the caller has not taken over.
    """

    folder: SnapshotFolder
    coming: Coming | None = None

    def take(self, request: InstallSnapshotRequest) -> ResponseCode | None:
        """Take a request of the leader that this member follows.

        Returns: the code of the answer; None if `coming` is complete.

        Raises: LogFull: there is no room. OSError. What was received of the snapshot is removed.
        """
        piece, at, total, crc = _parts(request)
        if piece is None or not _fits(request, len(piece), at, total):
            return ResponseCode.UNEXPECTED_ARGUMENT
        try:
            if at == 0:
                self._begin(request, total, crc)
            coming = self.coming
            if coming is None or not _goes_on(coming, request, at, total, crc):
                return ResponseCode.INSTALL_SNAPSHOT_ERROR
            for start in range(0, len(piece), CHUNK_BYTES):
                coming.writer.write(piece[start : start + CHUNK_BYTES])
        except Exception:
            self.forget()
            raise
        if coming.writer.size_bytes < total:
            return ResponseCode.SUCCESS
        if crc is not None and coming.writer.crc != crc:
            self.forget()
            return ResponseCode.INSTALL_SNAPSHOT_ERROR
        return None

    def forget(self) -> None:
        """Remove what has been received. Raises: OSError."""
        coming, self.coming = self.coming, None
        if coming is not None:
            coming.writer.abandon()

    def _begin(self, request: InstallSnapshotRequest, total: int, crc: int | None) -> None:
        self.forget()
        self.coming = Coming(
            index=request.last_included_index,
            term=request.last_included_term,
            leader_term=request.term,
            total_bytes=total,
            total_crc=crc,
            writer=self.folder.writer(INSTALLED),
        )


def _parts(request: InstallSnapshotRequest) -> tuple[bytes | None, int, int, int | None]:
    """Return what a request brings: bytes, their offset, and the whole's size and checksum.

    Returns: None in place of the bytes if it brings none; None as the checksum of a snapshot that
        comes in one request.
    """
    if request.data:
        return request.data, 0, len(request.data), None
    at, total = request.piece_at, request.total_bytes
    if at is None or total is None or request.total_crc is None:
        return None, 0, 0, None
    return request.piece or None, at, total, request.total_crc


def _fits(request: InstallSnapshotRequest, size: int, at: int, total: int) -> bool:
    return (
        at >= 0
        and at + size <= total <= SNAPSHOT_BYTES_MAX
        and 0 <= request.last_included_index <= INDEX_MAX
        and 0 <= request.last_included_term <= request.term
    )


def _goes_on(
    coming: Coming, request: InstallSnapshotRequest, at: int, total: int, crc: int | None
) -> bool:
    return at == coming.writer.size_bytes and (
        coming.index,
        coming.term,
        coming.leader_term,
        coming.total_bytes,
        coming.total_crc,
    ) == (
        request.last_included_index,
        request.last_included_term,
        request.term,
        total,
        crc,
    )
