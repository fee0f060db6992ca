"""A snapshot on its way to a peer: what is said of it next.

Upstream: openmessaging/dledger, DLedgerEntryPusher.java, doInstallSnapshot, tag 0.4.0, which sends
the whole in one request: a frame holds 12 MB of it at most.

Differs: what one piece does not hold goes in several, one after the other.
"""

from __future__ import annotations

from typing import Final

import attrs

from actors.dledger.base_fields import Base
from actors.env.protocols import Disk
from actors.storage.dledger.snapshots import CHUNK_BYTES, Reader, Snapshot
from wire.dledger_rpc import InstallSnapshotRequest

PIECE_TIMEOUT_S: Final = 5.0
"""For a piece; upstream waits 3 s for the whole."""
LAST_TRIES_MAX: Final = 240
"""The last one is sent again so often: a peer that is there answers it once its machine has read
all of it, and one that was started anew meanwhile refuses it. 20 minutes.
"""


@attrs.define
class SnapshotSending:
    """One that is sent. The owner closes it."""

    snapshot: Snapshot
    _reader: Reader
    _last: InstallSnapshotRequest | None = None
    _sent_s: float = 0.0
    _tries: int = 0

    @classmethod
    def open(cls, disk: Disk, snapshot: Snapshot) -> SnapshotSending:
        """Raises: SnapshotDamaged; OSError."""
        return cls(snapshot, Reader.open(disk, snapshot))

    @property
    def is_all(self) -> bool:
        """Every byte of it was asked for."""
        return self._reader.at_bytes >= self.snapshot.size_bytes

    def next_request(self, now_s: float, base: Base) -> InstallSnapshotRequest:
        """The next piece. Raises: SnapshotDamaged; OSError."""
        snapshot, at = self.snapshot, self._reader.at_bytes
        data = self._reader.read()
        self._sent_s = now_s
        whole = snapshot.size_bytes <= CHUNK_BYTES
        self._last = InstallSnapshotRequest(
            data=data if whole else None,
            piece=None if whole else data,
            piece_at=None if whole else at,
            total_bytes=None if whole else snapshot.size_bytes,
            total_crc=None if whole else snapshot.crc,
            last_included_index=snapshot.index,
            last_included_term=snapshot.term,
            **base,
        )
        return self._last

    def again(self, now_s: float) -> InstallSnapshotRequest | None:
        """The last piece once more, if its time has passed without an answer; None: give up."""
        late = now_s >= self._sent_s + PIECE_TIMEOUT_S
        if not self.is_all or not late or self._tries >= LAST_TRIES_MAX:
            return None
        self._tries += 1
        self._sent_s = now_s
        return self._last

    def close(self) -> None:
        self._reader.close()
