"""The logs of a DLedger group as they are on its members' simulated disks, seen from outside."""

from __future__ import annotations

from typing import Final, Protocol

import attrs

from actors.config import DLedgerGroup
from actors.sim.disk import SimDisk
from actors.sim.dledger.members import SimGroups
from actors.storage.layout import LedgerLayout
from actors.storage.ledger.term_files import FILE_BYTES_MAX, TermVote
from actors.storage.log.commit_log import segment_bases, segment_path
from wire.dledger.entry import (
    BLANK_MAGIC,
    ENTRY_HEAD,
    ENTRY_HEAD_BYTES,
    INDEX_BYTES,
    INDEX_RECORD,
    MAGIC_NORMAL,
)
from wire.dledger.files import decode_currterm
from wire.errors import RemoteProtocolError

BLANK_HEAD_BYTES: Final = 8


def index_of(entry: bytes) -> int:
    """Return the index of an entry, given whole, as it lies in a data file."""
    return int(ENTRY_HEAD.unpack_from(entry)[2])


def term_of(entry: bytes) -> int:
    """Return the term of an entry, given whole."""
    return int(ENTRY_HEAD.unpack_from(entry)[3])


def position_of(entry: bytes) -> int:
    """Return the offset of an entry's first byte in the log, from the whole entry."""
    return int(ENTRY_HEAD.unpack_from(entry)[4])


def body_of(entry: bytes) -> bytes:
    """Return the body of an entry, given whole."""
    return entry[ENTRY_HEAD_BYTES:]


@attrs.frozen(kw_only=True)
class LedgerDamage:
    """Bytes of a file that were damaged on purpose.

    Attributes:
        path: the file.
        start: the offset in the file of the first damaged byte.
        good: the bytes before the damage.
    """

    path: str
    start: int
    good: bytes


class LedgerBytes(Protocol):
    """Access to the entries of each member. An entry is its bytes in a data file, which include its
    position.
    """

    def entry(self, node: str, index: int) -> bytes:
        """Return an entry as the member's processes see it; b"" if it is not there."""

    def first(self, node: str) -> int:
        """Return the index of the first entry that the member's processes see; -1 if there
        is none.
        """

    def holds(self, node: str, entry: bytes) -> bool:
        """Whether the member has the entry, as durable as its group demands, or has let it go."""

    def vote(self, node: str) -> TermVote | None:
        """Return the vote that a power loss now would leave; None: there is none."""


@attrs.frozen
class SimLedgers:
    """`LedgerBytes` of one group in a world; for a memory group, of the logs in its processes.
    Bytes that were damaged on purpose count as undamaged, because other members have them.

    Attributes:
        groups: the members.
        group: the group.
        damaged: the damage, by node.
    """

    groups: SimGroups
    group: DLedgerGroup
    damaged: dict[str, list[LedgerDamage]] = attrs.field(factory=dict)
    _layouts: dict[str, LedgerLayout] = attrs.field(factory=dict, init=False)
    _firsts: dict[str, tuple[int, int | None]] = attrs.field(factory=dict, init=False)
    _votes: dict[str, tuple[bytes, TermVote | None]] = attrs.field(factory=dict, init=False)

    def entry(self, node: str, index: int) -> bytes:
        if self.group.store == "memory":
            return self._in_memory(node, index)
        size = self.group.index_file_bytes
        at = index * INDEX_BYTES
        disk, layout = self.disk(node), self.layout(node)
        path = segment_path(layout.index, at - at % size)
        record = disk.written_range(path, at % size, at % size + INDEX_BYTES)
        if len(record) < INDEX_BYTES:
            return b""
        magic, position, length, found, _ = INDEX_RECORD.unpack(record)
        if magic != MAGIC_NORMAL or found != index:
            return b""
        entry = self.written(node, position, length)
        if len(entry) < max(length, ENTRY_HEAD_BYTES):
            return b""
        head = ENTRY_HEAD.unpack_from(entry)
        return entry if head[:3] == (MAGIC_NORMAL, length, index) and head[4] == position else b""

    def first(self, node: str) -> int:
        if self.group.store == "memory":
            member = self.groups.running(node)
            held = None if member is None else member.setups[self.group.name].held
            return held.first if held is not None and held.entries else -1
        position = self._begin(node)
        head = b"" if position is None else self.written(node, position, ENTRY_HEAD_BYTES)
        if len(head) < ENTRY_HEAD_BYTES:
            return -1
        magic, _, index, *_ = ENTRY_HEAD.unpack(head)
        return int(index) if magic == MAGIC_NORMAL else -1

    def holds(self, node: str, entry: bytes) -> bool:
        if self.group.store == "memory":
            held = self._in_memory(node, index_of(entry))
            return held == entry
        position = position_of(entry)
        first = self._first_base(node)
        if first is not None and position < first:
            return True
        size = self.group.data_file_bytes
        path = segment_path(self.layout(node).commit_log, position - position % size)
        disk, at = self.disk(node), position % size
        if self.group.durability == "synced":
            held = disk.durable_range(path, at, at + len(entry))
        else:
            held = disk.written_range(path, at, at + len(entry))
        if held != entry and node in self.damaged:
            held = self._undamaged(node, path, at, held)
        return held == entry or self.has_let_go(node, position)

    def has_let_go(self, node: str, position: int) -> bool:
        """Whether the member's log begins after that position, because older entries have expired
        here or on the member from which they came.
        """
        begin = self._begin(node)
        return begin is not None and begin > position

    def vote(self, node: str) -> TermVote | None:
        if self.group.store == "memory":
            return None
        found = self.disk(node).durable_range(self.layout(node).term, 0, FILE_BYTES_MAX)
        known = self._votes.get(node)
        # this is called at each event, and few events change the vote
        if known is None or known[0] != found:
            known = self._votes[node] = found, _decode_vote(found)
        return known[1]

    def written(self, node: str, position: int, length: int) -> bytes:
        """Return bytes of one data file as the member's processes see them."""
        base = position - position % self.group.data_file_bytes
        path = segment_path(self.layout(node).commit_log, base)
        at = position - base
        found = self.disk(node).written_range(path, at, at + length)
        return self._undamaged(node, path, at, found) if node in self.damaged else found

    def layout(self, node: str) -> LedgerLayout:
        """The layout of a member's store."""
        if node not in self._layouts:
            root = self.groups.config.group_dir(node, self.group.name)
            self._layouts[node] = LedgerLayout(root)
        return self._layouts[node]

    def disk(self, node: str) -> SimDisk:
        """The disk of a member's machine."""
        return self.groups.disk(node)

    def _begin(self, node: str) -> int | None:
        """Return where the member's log begins: after the blank at the head of a file if the log
        was begun anew there; None: there are no files.
        """
        first = self._first_base(node)
        if first is None:
            return None
        head = self.written(node, first, BLANK_HEAD_BYTES)
        magic, rest = (int.from_bytes(part, "big", signed=True) for part in (head[:4], head[4:]))
        return first + rest if magic == BLANK_MAGIC else first

    def _first_base(self, node: str) -> int | None:
        """Return where the member's first data file begins; None: there are no files.

        This is called for each entry, so the folder is read again only after a name on that disk
        has changed.
        """
        disk = self.disk(node)
        known = self._firsts.get(node)
        if known is None or known[0] != disk.names_changes:
            bases = segment_bases(disk, self.layout(node).commit_log)
            known = self._firsts[node] = disk.names_changes, bases[0] if bases else None
        return known[1]

    def _undamaged(self, node: str, path: str, start: int, data: bytes) -> bytes:
        found = bytearray(data)
        for damage in self.damaged[node]:
            if damage.path == path:
                for at, good in enumerate(damage.good, damage.start - start):
                    if 0 <= at < len(found):
                        found[at] = good
        return bytes(found)

    def _in_memory(self, node: str, index: int) -> bytes:
        member = self.groups.running(node)
        if member is None:
            return b""
        held = member.setups[self.group.name].held
        number = index - held.first
        return held.entries[number] if 0 <= number < len(held.entries) else b""


def _decode_vote(found: bytes) -> TermVote | None:
    try:
        value = decode_currterm(found)
    except RemoteProtocolError:
        return None
    return TermVote(value.term, value.vote_leader or "")
