"""Makes facts of events: what the rules need of a node's log, and no more.

| what | Of the events | who | number |
|---|---|---|---|
| leads | RoleChanged to LEADER | the node | term |
| masters | GroupOpened | the node | promotion |
| elected | EpochBegun | the node | epoch |
| knows | RoleChanged, SlaveVerified, MasterLost, GroupOpened | leader or master, "" for none | |
| knows | EpochBegun, RoleGiven, LeaseChanged; likewise | likewise | |
| set | SyncStateSetTaken; RoleGiven, with NO_SET | | replicas in sync |
| needs | GroupConfigured of an auto-switch group | | replicas that an append needs |
| wrote | RecordsAppended, RecoveryFinished | | end of the log, bytes |
| acked | SlaveAcked | the slave | bytes |
| committed | CommittedRose | the node | index |
| fenced | MasterFenced | | |
| rotten | RotFound | why | first byte of the range |
| classic | GroupConfigured of a group whose leader is a master | | |
| java | likewise, with Java members | | |
| anew | the first one of a log that begins anew; for each group of the node | | |
| started | NodeStarted; likewise | | |
| stopped | NodeStopped; likewise | why, "" if in order | |
| reached | the last event of a file; for each group of the node | | |
| missing | the first that is not there, when the one before it was; likewise | | the last's seq |
| clock | one far behind the event before it, or before it; likewise | | microseconds after that |

There are at most ten of `wrote`, `acked` and `committed` in a second, the last one of each tenth,
because a second of load has thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import attrs
import msgspec

from actors.pipeline.alarms.event_logs import Head, gave_up, groups_of, head_of
from actors.pipeline.event_files import ABOVE_GROUPS, NO_GROUPS, NUMBER_MAX

SLOT_US: Final = 100_000
SILENCE_US: Final = 15_000_000
"""The microseconds without an event of a running node after which it is in doubt. It may have had
no events, been suspended, or had its clock set ahead; the log does not show which. It is the
default of `limits.Limits.silent_s`."""
BACK_US: Final = 1_000_000
"""A clock that goes back by fewer microseconds is being adjusted; no alarm's limit is as short."""
NO_SET: Final = -1
"""In place of the number of replicas in sync: the node is no master with a set any more."""
DOUBTS: Final = frozenset({"missing", "clock"})
NUMBERS: Final = frozenset({"wrote", "acked", "committed"})

_Told: TypeAlias = tuple[str, str, int]
_decode_fields = msgspec.json.Decoder(dict[str, Any]).decode


@attrs.frozen
class Fact:
    """One fact that an event reports.

    Attributes:
        group: the group that it is about.
        node, boot, seq, ts_us: those of the event.
        what, who, number: see the table.
    """

    group: str
    node: str
    boot: int
    seq: int
    ts_us: int
    what: str
    who: str = ""
    number: int = 0


def _role(head: Head, fields: dict[str, Any]) -> Iterator[_Told]:
    if fields["role"] == "LEADER":
        yield "leads", head.node, fields["term"]
    yield "knows", fields["leader"], 0


def _opened(head: Head, fields: dict[str, Any]) -> Iterator[_Told]:
    yield "masters", head.node, fields["number"]
    yield "knows", head.node, 0


def _configured(_: Head, fields: dict[str, Any]) -> Iterator[_Told]:
    if fields["mode"] in ("classic", "autoswitch"):
        yield "classic", "", 0
        if fields["mode"] == "autoswitch":
            yield "needs", "", fields["sure_copies"]
        if fields["java_members"]:
            yield "java", "", 0


def _elected(head: Head, fields: dict[str, Any]) -> Iterator[_Told]:
    yield "elected", head.node, fields["epoch"]
    yield "knows", head.node, 0


def _leased(head: Head, fields: dict[str, Any]) -> Iterator[_Told]:
    yield "knows", head.node if fields["holds"] else "", 0


TOLD: Final[dict[str, Callable[[Head, dict[str, Any]], Iterable[_Told]]]] = {
    "RoleChanged": _role,
    "GroupOpened": _opened,
    "SlaveVerified": lambda _, fields: [("knows", fields["master"], 0)],
    "MasterLost": lambda _, __: [("knows", "", 0)],
    "RecordsAppended": lambda _, fields: [("wrote", "", fields["next_bytes"])],
    "RecoveryFinished": lambda _, fields: [("wrote", "", fields["end_bytes"])],
    "SlaveAcked": lambda _, fields: [("acked", fields["slave"], fields["offset_bytes"])],
    "CommittedRose": lambda head, fields: [("committed", head.node, fields["index"])],
    "EpochBegun": _elected,
    "RoleGiven": lambda _, __: [("knows", "", 0), ("set", "", NO_SET)],
    "LeaseChanged": _leased,
    "SyncStateSetTaken": lambda _, fields: [("set", "", len(fields["in_sync"]))],
    "GroupConfigured": _configured,
    "MasterFenced": lambda _, __: [("fenced", "", 0)],
    "RotFound": lambda _, fields: [("rotten", fields["why"], fields["first_bytes"])],
}
"""By kind, what makes facts of events about a group. `FactReader` has those about a whole node."""
OF_THE_NODE: Final = {"NodeStarted": "started", "NodeStopped": "stopped"}


@attrs.define
class FactReader:
    """Reads the files of one log, in order.

    Attributes:
        groups: the node's groups, as far as they are known.
        is_anew: whether the log begins anew with the next event.
        before: boot, seq and ts_us of the last event that was read; None if there was none.
    """

    groups: tuple[str, ...] = ()
    is_anew: bool = False
    before: tuple[int, int, int] | None = None
    _kept: dict[tuple[str, str, str], Fact] = attrs.field(factory=dict)

    def read(self, lines: Iterable[str]) -> Iterator[Fact]:
        """Yield the facts of one file. Lines that are no events are skipped; bronze counts them."""
        last: Head | None = None
        for line in lines:
            head = head_of(line)
            if head is None:
                continue
            last = head
            if head.kind in OF_THE_NODE:
                self.groups = groups_of(line) or self.groups
            if self.is_anew:
                self.is_anew, self.before = False, None
                yield from self._for_groups(head, "anew")
            if self.before is not None:
                yield from self._doubts(head, *self.before)
            self.before = (head.boot, head.seq, head.ts_us)
            if head.kind in OF_THE_NODE:
                yield from self._for_groups(head, OF_THE_NODE[head.kind], gave_up(line))
            elif head.kind in TOLD:
                yield from self._thinned(self._told(head, line))
        yield from self._kept.values()
        self._kept.clear()
        if last is not None:
            yield from self._for_groups(last, "reached")

    def _doubts(self, head: Head, boot: int, seq: int, ts_us: int) -> Iterator[Fact]:
        """Yield the doubts about what is between the event of these numbers and the next one."""
        is_same = head.boot == boot
        first = seq + 1 if is_same else 1
        if head.boot >= boot and head.seq > first:
            yield from (
                Fact(group, head.node, head.boot, first, ts_us, "missing", "", head.seq - 1)
                for group in self.groups
            )
        after_us = head.ts_us - ts_us
        if after_us <= -BACK_US or (is_same and after_us > SILENCE_US):
            yield from self._for_groups(head, "clock", number=after_us)

    def _told(self, head: Head, line: str) -> list[Fact]:
        try:
            fields = _decode_fields(line)
            group = str(fields.get("group") or group_of(head.path))
            found = [
                Fact(group, head.node, head.boot, head.seq, head.ts_us, what, str(who), int(number))
                for what, who, number in TOLD[head.kind](head, fields)
            ]
        except (KeyError, TypeError, ValueError):
            return []  # of a catalogue in which the kind means something else
        return [fact for fact in found if abs(fact.number) <= NUMBER_MAX]

    def _thinned(self, facts: list[Fact]) -> Iterator[Fact]:
        for fact in facts:
            if fact.what not in NUMBERS:
                yield fact
                continue
            key = (fact.group, fact.what, fact.who)
            before = self._kept.get(key)
            if before is not None and before.ts_us // SLOT_US != fact.ts_us // SLOT_US:
                yield before
            self._kept[key] = fact

    def _for_groups(self, head: Head, what: str, who: str = "", number: int = 0) -> Iterator[Fact]:
        for group in self.groups:
            yield Fact(group, head.node, head.boot, head.seq, head.ts_us, what, who, number)


def group_of(path: str) -> str:
    """Return the group in an actor's path, as `silver.group_of` does; a test compares both."""
    second, named = ([*path.split("/"), "", "", ""])[2:4]
    if second in ABOVE_GROUPS:
        return named
    return "" if second in NO_GROUPS else second
