"""Decides which replicas are in sync, and up to where the log is confirmed: on all of them.

Source: apache/rocketmq store/ha/autoswitch/AutoSwitchHAService.java (5.3.3),
maybeExpandInSyncStateSet, maybeShrinkSyncStateSet, getSyncStateSet, computeConfirmOffset;
AutoSwitchHAConnection.maybeExpandInSyncStateSet; autoswitch-ha.md 6.1 to 6.5 and T14 to T20, T46.

The set is the controller's: this master asks it for another one, and goes by what was adopted last.
From the moment it asks until it knows the outcome, a member of either set is one.

Differs from upstream:
- One request is under way at a time, and the next one is made of what is so by then, so two
  replicas that leave at once both leave, and nothing hangs on a request that was refused. A request
  whose answer is lost, or that says another set than the controller has, stays until a newer set
  was adopted.
- A replica has caught up if it reports what was the log's end when it reported before; upstream
  goes by what was sent, so an idle replica counts whatever it acknowledged.
- A member that has lost what it had reported leaves at once; upstream lowers the confirm offset.
- Under steady load no report reaches the end that the log has by then. So a replica that keeps up
  becomes a candidate: nothing is confirmed without it for CANDIDATE_S, in which it reaches what is
  confirmed, and then the controller is asked for it.
- The confirm offset never falls. It does not rise while a member of either set is not connected,
  nor while either has fewer members than an append needs: upstream looks at that before it writes,
  and answers what was written by then once the master alone has it. Nor does it once the lease has
  ended, as another replica may be master then (T13).
- Replicas are counted by their ids, of each the newest connection; learners count nowhere.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Final

import attrs

from actors.ha.core.ack_policy import ALL_IN_SYNC, Replica

TICK_S: Final = 0.5
"""How often to call `tick`."""
CANDIDATE_S: Final = 1.0
"""How long appends wait for a replica that keeps up and is to join: some round trips of a slow
link, and less than any deadline of an append."""
ABSENT_S: Final = 3.0
"""How long a member may take to connect for the first time, as upstream's first check."""
ASK_AGAIN_S: Final = 1.0
"""How long after a refused or unanswered request the controller is asked again."""


class Refusal(enum.Enum):
    """Why a controller refuses a set, by its checks in their order (autoswitch-ha.md 6.6)."""

    SAME = "it has this set"  # 2013
    STALE = "it has another set or master than the request says"  # 2002, 2000, 2001
    REPLICA = "a replica is not registered, or not alive"  # 2003, 2006


@attrs.frozen(kw_only=True)
class Effects:
    """What one input asks for.

    Attributes:
        alter: ask the controller for this set; `adopted`, `refused` or `unanswered` follows.
    """

    alter: frozenset[int] | None = None


NOTHING: Final = Effects()


@attrs.define(kw_only=True)
class _Replica:
    connection: int
    async_learner: bool
    ack_bytes: int | None = None
    ack_s: float  # when that came; before, of the connection
    end_bytes: int = 0  # the master's at that time
    caught_up_s: float | None = None
    candidate_s: float | None = None  # since when; kept for a while after it failed


@attrs.define(kw_only=True)
class SyncStateSet:
    """One master's set, from its election on.

    Attributes:
        own: the master's id.
        members, set_epoch: as the controller said last.
        epoch_start_bytes: where the master's epoch begins; who has not all before it is not in
            sync.
        least: with fewer members nothing is confirmed. Upstream: minInSyncReplicas.
        not_catchup_s: a member that was behind for longer leaves. Upstream:
            haMaxTimeSlaveNotCatchup.
        end_bytes: the end of the own log, as far as it counts.
        confirm_bytes: all members of the set, and of one that was asked for, hold what is below.
        now_s: when it began, in Trio time.
        lease_until_s: nothing is confirmed from then on; its owner sets it before each input.
    """

    own: int
    members: frozenset[int]
    set_epoch: int
    epoch_start_bytes: int
    least: int = 1
    not_catchup_s: float
    end_bytes: int
    confirm_bytes: int
    now_s: float
    lease_until_s: float = math.inf
    _asked: frozenset[int] | None = attrs.field(default=None, init=False)
    _doubtful: frozenset[int] = attrs.field(default=frozenset(), init=False)
    _fewest: float = attrs.field(default=math.inf, init=False)  # members of one in doubt
    _ask_again_s: float = attrs.field(default=0.0, init=False)
    _is_stale: bool = attrs.field(default=False, init=False)
    _replicas: dict[int, _Replica] = attrs.field(factory=dict, init=False)  # connected ones
    _absent: dict[int, float] = attrs.field(factory=dict, init=False)  # since when, of members

    def __attrs_post_init__(self) -> None:
        assert self.own in self.members
        self.confirm_bytes = min(self.confirm_bytes, self.end_bytes)
        self._look_for_absent()
        self._confirm()

    @property
    def effective(self) -> frozenset[int]:
        """The ids that an acknowledgement of all needs."""
        return self.members | (self._asked or frozenset()) | self._doubtful

    @property
    def in_sync_count(self) -> int:
        """How many are surely in sync; an append that needs more is refused."""
        asked = math.inf if self._asked is None else len(self._asked)
        return int(min(len(self.members), asked, self._fewest))

    @property
    def has_lease(self) -> bool:
        """Whether this master may confirm anything, as of the last input."""
        return self.now_s < self.lease_until_s

    @property
    def is_stale(self) -> bool:
        """Whether the controller has another set: it has to be asked which."""
        return self._is_stale

    def held_by(self, copies: int) -> int:
        """The end of what so many hold: the master and others, distinct and no learners; without
        a lease, of what is confirmed besides.
        """
        acks = [each.ack_bytes or 0 for each in self._replicas.values() if not each.async_learner]
        held = sorted((self.end_bytes, *acks), reverse=True)
        end_bytes = held[copies - 1] if copies <= len(held) else 0
        return end_bytes if self.has_lease else min(end_bytes, self.confirm_bytes)

    def joined(self, replica: int, connection: int, now_s: float, *, async_learner: bool) -> None:
        """Note a connection whose handshake was accepted; it is the replica's newest."""
        assert replica != self.own
        self._replicas[replica] = _Replica(
            connection=connection, async_learner=async_learner, ack_s=now_s
        )

    def gone(self, replica: int, connection: int, now_s: float) -> Effects:
        """Note that a connection has ended."""
        found = self._replicas.get(replica)
        if found is None or found.connection != connection:
            return NOTHING
        del self._replicas[replica]
        self._absent[replica] = -math.inf
        return self.tick(now_s)

    def acked(self, replica: int, connection: int, ack_bytes: int, now_s: float) -> Effects:
        """Note a report that was believed."""
        found = self._replicas.get(replica)
        if found is None or found.connection != connection:
            return NOTHING
        if ack_bytes >= self.end_bytes:
            found.caught_up_s = now_s
        elif found.ack_bytes is not None and ack_bytes >= found.end_bytes:
            found.caught_up_s = max(found.caught_up_s or found.ack_s, found.ack_s)
        found.ack_bytes, found.ack_s, found.end_bytes = ack_bytes, now_s, self.end_bytes
        self._absent.pop(replica, None)
        return self.tick(now_s)

    def grew(self, end_bytes: int, now_s: float) -> Effects:
        """Note the end of the own log."""
        assert end_bytes >= self.end_bytes  # MastersLogsGrow
        self.end_bytes = end_bytes
        return self.tick(now_s)

    def adopted(self, members: frozenset[int], set_epoch: int, now_s: float) -> Effects:
        """Take the controller's set, from whatever answer; an older one changes nothing."""
        self.now_s = now_s
        if set_epoch <= self.set_epoch:
            return NOTHING
        if self.own not in members:
            self._is_stale = True  # it has another master, too
            return NOTHING
        self.members, self.set_epoch = members, set_epoch
        self._settle()
        self._is_stale = False
        self._ask_again_s = 0.0
        self._look_for_absent()
        return self.tick(now_s)

    def refused(self, refusal: Refusal, now_s: float) -> Effects:
        """The controller has refused the request."""
        has_it = refusal is Refusal.SAME and self._asked != self.members  # by a lost answer
        if refusal is Refusal.STALE or has_it:
            self._is_stale = True
            self.unanswered(now_s)
            return NOTHING
        self._settle()
        self._ask_again_s = now_s + ASK_AGAIN_S
        return self.tick(now_s)

    def unanswered(self, now_s: float) -> None:
        """It is not known what became of the request."""
        if self._asked is not None:
            self._doubtful |= self._asked
            self._fewest = min(self._fewest, len(self._asked))
        self._asked = None
        self._ask_again_s = now_s + ASK_AGAIN_S

    def tick(self, now_s: float) -> Effects:
        """Look at the time, and ask for another set if one is due."""
        self.now_s = now_s
        self._confirm()
        if self._asked is not None or self._is_stale or now_s < self._ask_again_s:
            return NOTHING
        wanted = self._wanted()
        if wanted == self.members and not self._doubtful:
            return NOTHING
        self._asked = wanted
        return Effects(alter=wanted)

    def _settle(self) -> None:
        """Forget what was asked for: the controller's set is known."""
        self._asked, self._doubtful, self._fewest = None, frozenset(), math.inf

    def _look_for_absent(self) -> None:
        for replica in sorted(self.members - {self.own} - self._replicas.keys()):
            self._absent.setdefault(replica, self.now_s)

    def _confirm(self) -> None:
        if not self.has_lease or self.in_sync_count < self.least:
            return
        candidates = {
            replica
            for replica, found in self._replicas.items()
            if found.candidate_s is not None and self.now_s < found.candidate_s + CANDIDATE_S
        }
        held = self.end_bytes
        for replica in sorted((self.effective | candidates) - {self.own}):
            found = self._replicas.get(replica)
            if found is None or found.ack_bytes is None:
                return
            held = min(held, found.ack_bytes)
        self.confirm_bytes = max(self.confirm_bytes, held)

    def _wanted(self) -> frozenset[int]:
        stay = {replica for replica in self.members - {self.own} if not self._leaves(replica)}
        others = self._replicas.keys() - self.members
        joining = {replica for replica in others if self._joins(self._replicas[replica])}
        return frozenset(stay | joining | {self.own})

    def _leaves(self, replica: int) -> bool:
        found = self._replicas.get(replica)
        if replica in self._absent and self.now_s - self._absent[replica] > ABSENT_S:
            return True
        if found is None:
            return False
        has_lost = found.ack_bytes is not None and found.ack_bytes < self.confirm_bytes
        if found.async_learner or has_lost:
            return True
        since = found.ack_s if found.caught_up_s is None else found.caught_up_s
        return self.now_s - since > self.not_catchup_s

    def _joins(self, found: _Replica) -> bool:
        """Whether a replica outside may join; one that keeps up becomes a candidate."""
        if found.async_learner or found.ack_bytes is None or found.caught_up_s is None:
            return False
        if found.ack_bytes < self.epoch_start_bytes:
            return False
        if self.now_s - found.caught_up_s > self.not_catchup_s:
            return False
        if found.ack_bytes >= self.confirm_bytes:
            return True
        if found.candidate_s is None or self.now_s - found.candidate_s > self.not_catchup_s:
            found.candidate_s = self.now_s
        return False


@attrs.frozen(kw_only=True)
class InSyncStateSet:
    """The policy of a master with a set: all of its members acknowledge, or a fixed number does.

    Attributes:
        members: the set; its owner feeds it before anything is asked here.
        in_sync_replicas: nodes, the master included. Upstream: inSyncReplicas; ALL_IN_SYNC with
            allAckInSyncStateSet.
        min_in_sync_replicas: with fewer in sync nothing is appended. Upstream: minInSyncReplicas.
    """

    members: SyncStateSet
    in_sync_replicas: int
    min_in_sync_replicas: int
    name: Final = "sync state set"
    remembers_furthest: Final = False

    def refusal(self, end_bytes: int, replicas: Sequence[Replica]) -> str:
        if not self.members.has_lease:
            return "no controller has answered in time, so another replica may be master"
        in_sync, need = self.members.in_sync_count, self.min_in_sync_replicas
        return f"nodes in sync: {in_sync}, required: {need}" if need > in_sync else ""

    def need(self, end_bytes: int, replicas: Sequence[Replica]) -> int:
        return self.in_sync_replicas

    def needed(self, need: int, end_bytes: int, replicas: Sequence[Replica]) -> int:
        return len(self.members.effective) if need == ALL_IN_SYNC else need

    def copied_bytes(self, need: int, end_bytes: int, replicas: Sequence[Replica]) -> int:
        if need == ALL_IN_SYNC:
            return min(end_bytes, self.members.confirm_bytes)
        return min(end_bytes, self.members.held_by(need))

    def unavailable(self, next_bytes: int, replicas: Sequence[Replica], connected: int) -> str:
        return ""
