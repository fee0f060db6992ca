"""Replicas of auto-switch HA and their epochs, in a script's hands: ours, and upstream's rules.

A message has 100 bytes; it is shown as who wrote it and a number. Ours are the product's decisions
over an epoch file on a simulated disk. Upstream's are a model of EpochFileCache, changeToMaster,
doTruncate and transferToSlave (5.3.3), as autoswitch-ha.md 2.6, 4 and 5.3 say.
"""

from __future__ import annotations

import random

import attrs

from actors.epochs import History
from actors.ha.core.autoswitch_dialect import AutoSwitchDialect, EpochHandshake
from actors.ha.core.epoch_trail import EpochTrail, OwnLog, Verdict
from actors.ha.core.extent import LogExtent
from actors.sim.disk import SimDisk
from actors.storage.commitlog.epoch_store import EpochStore
from actors.storage.layout import StoreLayout
from wire.buffer import NEED_DATA
from wire.ha import autoswitch
from wire.ha.autoswitch import EpochFrameStarted, HandshakeAnswer
from wire.ha.frames import FrameDecoder

SIZE = 100
OPEN = 1 << 62


@attrs.define
class Replica:
    """What both kinds have: a log of messages."""

    name: str
    log: list[str] = attrs.field(factory=list)

    @property
    def end(self) -> int:
        return len(self.log) * SIZE

    def starts(self) -> list[tuple[int, int]]:
        """Its epochs, with the first offset of each."""
        raise NotImplementedError

    def shown(self) -> str:
        epochs = ", ".join(f"{number}@{start}" for number, start in self.starts()) or "none"
        return f"{self.name}: {' '.join(self.log) or 'empty'}; epochs {epochs}"


def _message(event: object) -> HandshakeAnswer | EpochFrameStarted:
    assert isinstance(event, HandshakeAnswer | EpochFrameStarted)
    return event


@attrs.define
class Ours(Replica):
    """A replica by the product's rules."""

    _disk: SimDisk = attrs.field(factory=lambda: SimDisk(random.Random(1)))
    _store: EpochStore = attrs.field(init=False)
    _trail: EpochTrail | None = None

    def __attrs_post_init__(self) -> None:
        self._disk.mkdir(self._layout.root)
        self.restart()

    @property
    def _layout(self) -> StoreLayout:
        return StoreLayout(f"/{self.name}")

    def starts(self) -> list[tuple[int, int]]:
        return [(each.number, each.start_bytes) for each in self._store.history if each.number]

    def restart(self) -> None:
        self._store = EpochStore.open(
            self._disk, self._layout, 0, self.end, lambda offset: offset % SIZE == 0
        )

    def forget(self) -> None:
        self._disk.unlink(self._layout.epochs)
        self.restart()

    def elect(self, number: int) -> str:
        try:
            self._store.begin(number, self.end)
        except ValueError as error:
            return f"refused: {error}"
        return ""

    def meet(self, master: Ours) -> str:
        decoder = FrameDecoder(autoswitch.MASTER_HEADER)
        extent = LogExtent(0, master.end, master.end)
        decoder.receive_data(master._dialect().handshake.answer(extent))
        answer = decoder.next_event()
        assert isinstance(answer, HandshakeAnswer)
        found = OwnLog(
            history=self._store.history,
            min_bytes=0,
            end_bytes=self.end,
            begins=lambda offset: offset % SIZE == 0,
            known_bytes=self._store.known_bytes,
        ).agree(answer)
        if found.end_bytes is None:
            return f"does not follow: {found.text}"
        self._trail = EpochTrail(found.theirs)
        if found.verdict is Verdict.CUT:
            self.log = self.log[: found.end_bytes // SIZE]
            self._store.cut(found.end_bytes)
        self._store.follow(found.theirs, self.end)
        verb = "is cut to" if found.verdict is Verdict.CUT else "follows from"
        return f"{verb} {self.end}, reports {self.end}"

    def copy(self, master: Ours, upto: int) -> str:
        assert self._trail is not None
        dialect, size = master._dialect(), 1
        while size > 0:
            size = max(min(upto, dialect.stretch_end(self.end)) - self.end, 0)
            decoder = FrameDecoder(autoswitch.MASTER_HEADER)
            decoder.receive_data(dialect.encode_frame_header(self.end, size))
            event = decoder.next_event()
            assert event is not NEED_DATA
            head = _message(event)
            assert isinstance(head, EpochFrameStarted)
            if problem := self._trail.frame(head):
                return f"closed: {problem}"
            if self._trail.due(self.end):
                self._store.follow(self._trail.theirs, self.end)
            self.log += master.log[self.end // SIZE : (self.end + size) // SIZE]
        return ""

    def _dialect(self) -> AutoSwitchDialect:
        history: History = self._store.history
        handshake = EpochHandshake(broker_id=1, who=lambda request: "", history=lambda: history)
        return AutoSwitchDialect(handshake=handshake, confirm=lambda: -1)


@attrs.define
class Upstreams(Replica):
    """A replica by upstream's rules."""

    _cache: dict[int, list[int]] = attrs.field(factory=dict)  # epoch -> start, end
    _seen: int = -1  # of frames, since the client object was made

    def starts(self) -> list[tuple[int, int]]:
        return [(number, start) for number, (start, _) in sorted(self._cache.items())]

    def restart(self) -> None:
        starts = self.starts()
        ends = [start for _, start in starts[1:]]
        self._cache = {
            number: [start, end]
            for (number, start), end in zip(starts, [*ends, OPEN], strict=False)
        }
        self._seen = -1

    def forget(self) -> None:
        self._cache = {}
        self.restart()

    def _append(self, number: int, start: int) -> None:
        if self._cache:
            last = max(self._cache)
            if last >= number or self._cache[last][0] >= start:
                return  # it is logged
            self._cache[last][1] = start
        self._cache[number] = [start, OPEN]

    def elect(self, number: int) -> str:
        last = max(self._cache, default=-1)
        if number < last:
            return "the HA service refuses, the broker is master all the same"
        self._cache = {epoch: each for epoch, each in self._cache.items() if epoch < number}
        self._append(number, self.end)
        return ""

    def meet(self, master: Upstreams) -> str:
        if not self._cache:
            return f"follows from {self.end}, reports {self.end}"
        mine, answer = _until(self.end, self._cache), Upstreams("answer")
        answer._cache = {number: [start, OPEN] for number, start in master.starts()}
        answer.restart()  # ends are not sent, they follow from the starts
        theirs = _until(master.end, answer._cache)
        same = [each for each in mine if each in theirs and theirs[each][0] == mine[each][0]]
        if not same:
            return "does not follow: no consistent point, it tries for ever"
        point = min(mine[max(same)][1], theirs[max(same)][1])
        was = self.end
        self.log = self.log[: point // SIZE]
        self._cache = {epoch: each for epoch, each in self._cache.items() if each[0] < point}
        verb = "is cut to" if point < was else "follows from"
        return f"{verb} {min(point, was)}, reports {point}"

    def copy(self, master: Upstreams, upto: int) -> str:
        epochs = sorted(master._cache.items())
        entry = next((n for n, (start, end) in epochs if start <= self.end < end), None)
        if entry is None:
            return "the master sends bytes without an epoch"
        while True:
            end = master._cache[entry][1] if entry != max(master._cache) else OPEN
            size = min(upto - self.end, SIZE * 100)
            if self.end + size > end:
                size = end - self.end
                entry = min(n for n, _ in epochs if n > entry)
            start = master._cache[entry][0]
            if entry != self._seen:
                self._seen = entry
                self._append(entry, start)
            at = self.end // SIZE
            self.log += master.log[at : at + size // SIZE]
            if size <= 0 and self.end >= upto:
                return ""


def _until(end: int, cache: dict[int, list[int]]) -> dict[int, list[int]]:
    """A cache whose last epoch ends with its log, unless it begins above that."""
    found = {epoch: list(each) for epoch, each in cache.items()}
    if found and found[max(found)][0] <= end:
        found[max(found)][1] = end
    return found


@attrs.define
class Replicas:
    """The commands of a script about replicas, under one setting."""

    setting: str
    _all: dict[str, Replica] = attrs.field(factory=dict)
    _written: int = 0

    def made(self, *names: str) -> list[str]:
        kind = Upstreams if self.setting == "upstream" else Ours
        self._all = {name: kind(name) for name in names}
        return []

    def do_elect(self, name: str, number: str) -> list[str]:
        """The controller makes a replica the master of an epoch."""
        return self._said(name, self._all[name].elect(int(number)))  # type: ignore[attr-defined]

    def do_write(self, name: str, count: str) -> list[str]:
        for _ in range(int(count)):
            self._written += 1
            self._all[name].log.append(f"{name}{self._written}")
        return [self._all[name].shown()]

    def do_meet(self, name: str, master: str) -> list[str]:
        """A replica connects, shakes hands, and is cut if it has to be."""
        said = self._all[name].meet(self._all[master])  # type: ignore[attr-defined]
        return [f"{name} {said}", self._all[name].shown()]

    def do_copy(self, name: str, master: str, count: str = "9999") -> list[str]:
        """It gets so many messages, and what else comes when it has all of them."""
        mine, theirs = self._all[name], self._all[master]
        upto = min(mine.end + int(count) * SIZE, theirs.end)
        return self._said(name, mine.copy(theirs, upto))  # type: ignore[attr-defined]

    def do_lose(self, name: str, count: str) -> list[str]:
        """Power fails: the last messages were not on the disk, the epoch file was."""
        self._all[name].log = self._all[name].log[: -int(count)]
        return self.do_restart(name)

    def do_restart(self, name: str) -> list[str]:
        self._all[name].restart()  # type: ignore[attr-defined]
        return [self._all[name].shown()]

    def do_forget(self, name: str) -> list[str]:
        """It restarts without its epoch file."""
        self._all[name].forget()  # type: ignore[attr-defined]
        return [self._all[name].shown()]

    def do_compare(self, name: str, other: str) -> list[str]:
        one, two = self._all[name].log, self._all[other].log
        same = next((at for at, pair in enumerate(zip(one, two, strict=False)) if len({*pair}) > 1),
                    None)  # fmt: skip
        if same is not None:
            return [f"THEY DIFFER at {same * SIZE}: {one[same]}, {two[same]}"]
        return ["equal" if len(one) == len(two) else "one is the beginning of the other"]

    def _said(self, name: str, said: str) -> list[str]:
        return [*([f"{name} {said}"] if said else []), self._all[name].shown()]
