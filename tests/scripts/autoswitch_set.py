"""A master's sync state set in the hands of a script: ours, and upstream's rules.

Ours are the product's decisions. Upstream's are a model of AutoSwitchHAService and
AutoSwitchHAConnection (5.3.3), as autoswitch-ha.md 6 says. The controller is the script.
"""

from __future__ import annotations

import attrs
from autoswitch_kit import Known, history

from actors.ha.core.extent import LogExtent
from actors.ha.core.report_progress import Effects as Judged
from actors.ha.core.report_progress import ReportProgress
from actors.ha.core.sent_mark import SentMark
from actors.ha.core.start_rule import FirstByte
from actors.ha.core.sync_state_set import NOTHING, Effects, Refusal, SyncStateSet
from wire.ha.autoswitch import HandshakeRequest

NAMES = {2: "n1", 3: "n2"}
"""The replicas that the controller knows beside the master, which is 1."""


def ids(text: str) -> frozenset[int]:
    return frozenset(map(int, text.split(",")))


def shown(members: frozenset[int] | set[int]) -> str:
    return ",".join(map(str, sorted(members)))


@attrs.define
class OurSet:
    """By the product's rules. A connection's requests are judged before they count."""

    members: frozenset[int]
    end: int
    confirm: int
    _set: SyncStateSet = attrs.field(init=False)
    _links: dict[int, tuple[int, ReportProgress, SentMark]] = attrs.field(factory=dict)
    _number: int = 0
    _known: Known = attrs.field(factory=lambda: Known(history((1, 0)), replicas=dict(NAMES)))

    def __attrs_post_init__(self) -> None:
        self._set = SyncStateSet(
            own=1, members=self.members, set_epoch=1, epoch_start_bytes=0, not_catchup_s=15.0,
            end_bytes=self.end, confirm_bytes=self.confirm, now_s=0.0,
        )  # fmt: skip

    def join(self, replica: int, learner: bool, now_s: float) -> list[str]:
        mark = SentMark()
        reader = ReportProgress(
            start_rule=FirstByte(), segment_bytes=1 << 20, housekeeping_s=20.0, mark=mark,
            handshake=self._known.dialect().handshake, last_report_s=now_s,
        )  # fmt: skip
        reader.grew(self._extent())
        request = HandshakeRequest(broker_id=replica, async_learner=learner)
        judged = reader.requested(request, now_s)
        if judged.identified is None:
            return self._closed(judged)
        self._number += 1
        self._links[replica] = (self._number, reader, mark)
        self._set.joined(replica, self._number, now_s, async_learner=learner)
        return []

    def ack(self, replica: int, offset: int, now_s: float) -> list[str]:
        if replica not in self._links:
            return ["there is no connection"]
        number, reader, mark = self._links[replica]
        mark.end_bytes = self.end
        reader.grew(self._extent())
        judged = reader.report(offset, now_s)
        if judged.acked_bytes is None:
            return [*self._closed(judged), *self.gone(replica, now_s)]
        return self._asks(self._set.acked(replica, number, offset, now_s))

    def gone(self, replica: int, now_s: float) -> list[str]:
        link = self._links.pop(replica, None)
        return self._asks(self._set.gone(replica, link[0], now_s)) if link is not None else []

    def grow(self, end: int, now_s: float) -> list[str]:
        self.end = end
        return self._asks(self._set.grew(end, now_s))

    def idle(self, now_s: float) -> list[str]:
        return []

    def lease(self, until_s: float) -> None:
        self._set.lease_until_s = until_s

    def check(self, now_s: float) -> list[str]:
        return self._asks(self._set.tick(now_s))

    def adopt(self, members: frozenset[int], epoch: int, now_s: float) -> list[str]:
        return self._asks(self._set.adopted(members, epoch, now_s))

    def refuse(self, now_s: float) -> list[str]:
        return self._asks(self._set.refused(Refusal.REPLICA, now_s))

    def confirmed(self) -> int:
        return self._set.confirm_bytes

    def held(self, copies: int) -> int:
        return self._set.held_by(copies)

    def needs(self) -> frozenset[int]:
        return self._set.effective

    def _extent(self) -> LogExtent:
        return LogExtent(0, self.end, self.end)

    def _closed(self, judged: Judged) -> list[str]:
        assert judged.stranger is not None or judged.refused is not None
        reason = (judged.stranger or judged.refused).reason  # type: ignore[union-attr]
        return [f"closed: {reason.value}"]

    def _asks(self, effects: Effects) -> list[str]:
        return [] if effects == NOTHING else [f"asks for {shown(effects.alter or frozenset())}"]


@attrs.define
class UpstreamSet:
    """By upstream's rules, with all acknowledging."""

    members: frozenset[int]
    end: int
    confirm: int
    _remote: frozenset[int] = frozenset()
    _synchronizing: bool = False
    _set_epoch: int = 1
    _caught: dict[int, float] = attrs.field(factory=dict)
    _links: list[list[int]] = attrs.field(factory=list)  # id, ack, learner, end when last sent

    def join(self, replica: int, learner: bool, now_s: float) -> list[str]:
        self._links.append([replica, -1, int(learner), self.end])  # all it lacks is sent
        return []

    def ack(self, replica: int, offset: int, now_s: float) -> list[str]:
        link = [each for each in self._links if each[0] == replica][-1]
        link[1] = offset
        asked = []
        if not link[2] and offset >= link[3]:
            self._caught[replica] = now_s
            if replica not in self.members and offset >= self.confirmed():
                asked = self._ask(self.members | {replica})
        if replica in self.members:
            self.confirm = self._computed()
        return asked

    def gone(self, replica: int, now_s: float) -> list[str]:
        self._links.remove(next(each for each in self._links if each[0] == replica))
        return self._ask(self.members - {replica}) if replica in self.members else []

    def grow(self, end: int, now_s: float) -> list[str]:
        self.end = end
        for link in self._links:
            link[3] = end
        return []

    def idle(self, now_s: float) -> list[str]:
        self._caught.update(dict.fromkeys((each[0] for each in self._links), now_s))
        return []

    def lease(self, until_s: float) -> None:
        """It has none."""

    def check(self, now_s: float) -> list[str]:
        late = {each for each in self.members if now_s - self._caught.get(each, now_s) > 15.0}
        never = self.members - {1} - self._caught.keys()
        return self._ask(self.members - late - never) if late | never else []

    def adopt(self, members: frozenset[int], epoch: int, now_s: float) -> list[str]:
        if epoch > self._set_epoch:
            self.members, self._set_epoch, self._synchronizing = members, epoch, False
            self.confirm = self._computed()
        return []

    def refuse(self, now_s: float) -> list[str]:
        return []

    def confirmed(self) -> int:
        return self.end if len(self.members) == 1 else self.confirm

    def held(self, copies: int) -> int:
        acks = sorted((self.end, *(each[1] for each in self._links)), reverse=True)
        return acks[copies - 1] if copies <= len(acks) else 0

    def needs(self) -> frozenset[int]:
        return self.members | self._remote if self._synchronizing else self.members

    def _ask(self, members: frozenset[int]) -> list[str]:
        self._remote, self._synchronizing = members, True
        return [f"asks for {shown(members)}"]

    def _computed(self) -> int:
        if self.needs() - {1} - {each[0] for each in self._links}:
            return self.confirm
        acks = [each[1] for each in self._links if each[0] in self.needs() and each[1] > 0]
        return min((self.end, *acks))


@attrs.define
class Sets:
    """The commands of a script about a set, under one setting."""

    setting: str
    _set: OurSet | UpstreamSet = attrs.field(init=False)
    _now_s: float = 0.0
    _confirm: int = -1

    def made(self, members: str, end: int = 1000, confirm: int = 1000) -> list[str]:
        kind = UpstreamSet if self.setting == "upstream" else OurSet
        self._set = kind(ids(members), end, confirm)
        return self._said([])

    def do_join(self, replica: str, learner: str = "") -> list[str]:
        """A connection's handshake."""
        return self._said(self._set.join(int(replica), bool(learner), self._now_s))

    def do_ack(self, *words: str) -> list[str]:
        """A report: the replica and the end of its log."""
        replica, offset = map(int, words)
        return self._said(self._set.ack(replica, offset, self._now_s))

    def do_gone(self, *replicas: str) -> list[str]:
        said = [line for each in replicas for line in self._set.gone(int(each), self._now_s)]
        return self._said(said)

    def do_grow(self, end: str) -> list[str]:
        """The master's log, and it is sent to all who are connected."""
        return self._said(self._set.grow(int(end), self._now_s))

    def do_wait(self, seconds: str, idle: str = "") -> list[str]:
        """Time passes, with a turn of the writers that have nothing to send, and a check."""
        self._now_s += float(seconds)
        if idle:
            self._set.idle(self._now_s)
        return self._said(self._set.check(self._now_s))

    def do_answered(self, seconds: str) -> list[str]:
        """The controller that leads has answered the master, who announced so many seconds."""
        self._set.lease(self._now_s + float(seconds))
        return self._said([])

    def do_adopt(self, members: str, epoch: str) -> list[str]:
        """The controller has this set now."""
        return self._said(self._set.adopt(ids(members), int(epoch), self._now_s))

    def do_refuse(self) -> list[str]:
        """The controller refuses a replica of the request."""
        return self._said(self._set.refuse(self._now_s))

    def do_held(self, copies: str) -> list[str]:
        """What counts as held by so many."""
        return [f"{copies} hold {self._set.held(int(copies))}"]

    def do_needs(self) -> list[str]:
        """Who has to acknowledge."""
        return [f"needs {shown(self._set.needs())}"]

    def _said(self, said: list[str]) -> list[str]:
        confirm, before = self._set.confirmed(), self._confirm
        self._confirm = confirm
        return [*said, *([f"confirmed {confirm}"] if confirm != before else [])]
