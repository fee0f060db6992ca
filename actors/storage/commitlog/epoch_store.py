"""The history of a log, kept in the epoch file of auto-switch HA.

Upstream: apache/rocketmq store/ha/autoswitch/EpochFileCache.java and
common/.../utils/CheckpointFile.java (5.3.3); autoswitch-ha.md 4.1, 4.2 and T1, T1b, T3, T4, T8,
T12, T23. The file is upstream's (`wire.files.epoch_file`), so that a broker takes our store, and we
take its. What is done with a history is in `actors.epochs`, for classic groups too; those keep
theirs in `identity.json`.

Differs:
- The file is replaced as a whole (`replacing`), and is on the disk when a method returns. Upstream
  writes it in place, without a sync, and keeps the content before as `.bak`, which is read here,
  too.
- Bytes below the first epoch are of epoch 0, which begins at 0 and is not in the file: of a
  log that is older than its first epoch.
- An epoch without bytes is replaced by the next one that begins there; upstream refuses that one,
  and its bytes count as the old one's. The same epoch again changes nothing. The end of
  the last one is always the log's.
- What a history says is believed as far as it can be. It is compared with the log: an epoch that
  begins above its end goes, and if no record begins where epochs do, the file is of another
  log. Of a file that is older than the newest epoch known here, as of `.bak`, everything is
  believed up to where its last epoch begins: others may have begun behind that. `newest_epoch` is
  noted behind an epoch that was added, and ahead of one that goes, so that no crash makes a file
  look old that is not.

While not all is believed the file keeps what it says, so that a start doubts it again.

A log is cut first, and its history behind it: epochs that are left over hold no bytes then, and go
when the store opens, as the epochs of deleted files do. An epoch is added first, and its bytes
behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from actors.env.protocols import Disk
from actors.epochs import BEFORE_EPOCHS, Epoch, History, cut, expire, follow, line
from actors.storage.files.replacing import replace_file, settle_spares, spare_path
from actors.storage.files.side_file import SideFileDamaged, read_side_file, write_side_file
from actors.storage.files.whole_files import read_bytes
from actors.storage.layout import StoreLayout
from actors.storage.log.log_reader import LogReader, OffsetGone
from wire.errors import RemoteProtocolError
from wire.files.commit_log import begins_record
from wire.files.epoch_file import (
    FILE_BYTES_MAX,
    EpochStart,
    decode_epoch_file,
    encode_epoch_file,
)

HEAD_BYTES: Final = 36
"""So much of a record shows that one begins there."""


@attrs.define
class EpochStore:
    """One log's history, with a single owner. What changes it waits for the disk.

    Attributes:
        history: of the whole log, epoch 0 included. Epochs behind its end are none of it.
        known_bytes: up to here the history is believed; None: all of it is. What lies behind must
            be cut off or replaced before the log may be believed: this replica cannot be a master.
        problem: why, for people; "" if all is believed.
    """

    _disk: Disk
    _layout: StoreLayout
    _newest: int  # as noted
    _kept: tuple[EpochStart, ...] | None  # what the file says; None: not what was read
    history: History
    known_bytes: int | None = None
    problem: str = ""

    @classmethod
    def open(
        cls,
        disk: Disk,
        layout: StoreLayout,
        min_bytes: int,
        end_bytes: int,
        begins: Callable[[int], bool],
    ) -> EpochStore:
        """Read the history of a log, which was opened and cut where it had to be.

        Args:
            min_bytes, end_bytes: the log's range.
            begins: whether a record begins at an offset within it.

        Raises: OSError. Effects: nothing is written, the folder is synced.
        """
        settle_spares(disk, layout.root)
        return cls.look(disk, layout, min_bytes, end_bytes, begins)

    @classmethod
    def look(
        cls,
        disk: Disk,
        layout: StoreLayout,
        min_bytes: int,
        end_bytes: int,
        begins: Callable[[int], bool],
    ) -> EpochStore:
        """The same, without any effect. Args, Raises: as `open`."""
        newest, is_new = _newest_known(disk, layout)
        whole = _read(disk, layout.epochs)
        found, known, problem = whole, None, ""
        if whole is None or (whole[-1].epoch if whole else 0) < newest:
            older = [each for each in (whole, _read(disk, layout.epochs_before)) if each]
            found = max(older, key=lambda each: each[-1].epoch, default=())
            if not is_new:
                known = found[-1].offset if found else 0
                what = f"was newer, with epoch {newest}" if whole else "cannot be read"
                problem = f"{layout.epochs}: it {what}"
        found = found or ()
        inside = [each.offset for each in found if min_bytes < each.offset < end_bytes]
        if inside and not any(map(begins, inside)):
            found, known = (), 0
            problem = f"{layout.epochs}: it is of another log, whose records begin elsewhere"
        if known is not None and known >= end_bytes:
            known, problem = None, ""
        history = expire(_history(found, min_bytes, end_bytes), min_bytes)
        return cls(disk, layout, newest, whole, history, known, problem)

    def begin(self, number: int, end_bytes: int) -> None:
        """Begin an epoch as the master, at the end of the log.

        Raises: ValueError: a later one has begun, or the history is not known. OSError: the file
            says what it said, or what it shall say.
        """
        last = self.history[-1] if self.history else BEFORE_EPOCHS
        if self.known_bytes is not None:
            raise ValueError(self.problem)
        if number < last.number:
            raise ValueError(f"epoch {number} cannot follow epoch {last.number}")
        history = self.history
        if number > last.number:
            # The first one stays: who has bytes of it that this log never had has to be told.
            held = line(history, end_bytes) if history or end_bytes else ()
            history = (*held, Epoch(number, 0, "", end_bytes))
        self._keep(history)

    def follow(self, other: History, end_bytes: int) -> None:
        """Follow another log, of which this one is the beginning, from its end on.

        Called again with the same history, it adds the epochs whose bytes come next. The log ends
        within `known_bytes`.

        Raises: OSError.
        """
        self._believe(end_bytes)
        assert self.known_bytes is None  # FollowsFromWhatIsKnown
        self._keep(follow(self.history, other, end_bytes))

    def cut(self, end_bytes: int) -> None:
        """Forget the epochs of bytes that were cut off. Raises: OSError."""
        self._believe(end_bytes)
        self._keep(cut(self.history, end_bytes))

    def expire(self, min_bytes: int) -> None:
        """Forget the epochs of files that were deleted. Raises: OSError."""
        self._keep(expire(self.history, min_bytes))

    def _believe(self, end_bytes: int) -> None:
        if self.known_bytes is not None and end_bytes <= self.known_bytes:
            self.known_bytes, self.problem = None, ""

    def _keep(self, history: History) -> None:
        if self.known_bytes is not None:
            self.history = history
            return
        kept = tuple(EpochStart(each.number, each.start_bytes) for each in history if each.number)
        newest = kept[-1].epoch if kept else 0
        if newest < self._newest:
            self._note(newest)
        if kept != (self._kept or ()):
            self._kept = None
            replace_file(self._disk, self._layout.epochs, encode_epoch_file(kept))
            self._kept = kept
        self.history = history
        if newest > self._newest:
            self._note(newest)

    def _note(self, newest: int) -> None:
        write_side_file(self._disk, self._layout.newest_epoch, (newest,))
        self._newest = newest


def record_begins(reader: LogReader, end_bytes: int) -> Callable[[int], bool]:
    """Whether a record begins at an offset of a log that ends there. Raises: OSError."""

    def begins(offset_bytes: int) -> bool:
        try:
            return begins_record(reader.read(offset_bytes, HEAD_BYTES, end_bytes), offset_bytes)
        except OffsetGone:
            return False

    return begins


def _history(found: tuple[EpochStart, ...], min_bytes: int, end_bytes: int) -> History:
    epochs = tuple(
        Epoch(each.epoch, 0, "", each.offset) for each in found if each.offset <= end_bytes
    )
    first_bytes = epochs[0].start_bytes if epochs else end_bytes
    return (BEFORE_EPOCHS, *epochs) if min_bytes < first_bytes else epochs


def _newest_known(disk: Disk, layout: StoreLayout) -> tuple[int, bool]:
    """The newest epoch that was noted, and whether nothing shows that there ever was a file."""
    traces = (layout.epochs, layout.epochs_before, spare_path(layout.epochs), layout.newest_epoch)
    is_new = not any(map(disk.exists, traces))
    try:
        noted = read_side_file(disk, layout.newest_epoch, 1)
    except SideFileDamaged:
        noted = None  # the file itself is whole, or is not
    return (noted[0] if noted is not None else 0), is_new


def _read(disk: Disk, path: str) -> tuple[EpochStart, ...] | None:
    """The epochs of a file; None: it is missing or damaged. Raises: OSError."""
    if not disk.exists(path):
        return None
    try:
        return decode_epoch_file(read_bytes(disk, path, FILE_BYTES_MAX + 1))
    except RemoteProtocolError:
        return None
