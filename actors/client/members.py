"""Finds the member of a group to which a client talks, anew after each loss, within a time limit.

The members say which node takes appends: each names the master or leader that it knows, with its
promotion or term. The newest counts, and that node is asked next. They are asked at the same time,
so that a node that hangs delays nothing. The node that was lost is asked last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Final, TypeAlias

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.client.connection import CONNECT_TIMEOUT_S, Client
from actors.client.leading import NamedLeader, leader_named_by, newest, not_led
from actors.client.race import Race, open_race
from actors.client.silence import ConnectTo, Silence
from actors.client.slot_retries import NoSlot, Pauses, pauses_of
from actors.client.targets import connect_node, node_order
from actors.config import ClusterConfig
from actors.config.kinds import kind_of
from actors.env.protocols import Network, SecretStore
from actors.errors import (
    Closed,
    CorruptLog,
    LeadershipLost,
    NodeStopped,
    NotEnoughReplicas,
    NotMaster,
    TriologError,
)
from wire.api import frames

RETRY_FIRST_S: Final = 0.02
RETRY_S: Final = 0.25
"""The bounds of the pause between two rounds over the members, and before a request is sent once
more."""
RETRY_PART: Final = 0.25
"""The pause as a part of the time since the loss. So an outage is at most so much longer for a
client, and one that lasts costs few requests."""
LOST: Final = (NotMaster, Closed, NodeStopped, LeadershipLost, OSError)
"""Failures after which the connection is useless: its node is gone, or does not lead."""
AWAY: Final = (OSError, TriologError, trio.TooSlowError)
"""Failures of a node that does not answer now."""


class NobodyLeads(NotMaster):
    """No leader was found in time. Nothing was written."""


_Found: TypeAlias = tuple[Client, int | None]
"""The leader and its epoch; or any node that answers, and None."""


@attrs.define
class MemberFinder:
    """Finds members of one group, for one connection after the other.

    Attributes:
        nodes: the names of the nodes to ask, the likeliest first.
        wait_s: how long to search for a leader (or, for reads, for any node that answers) after the
            loss of the one before, in seconds. 0: no other node is searched for.
        note: called with a line about each loss, and about the node that is found after it.
        fixed: whether the caller chose the only node, so it is used whether it leads or not.
        advice: what an operator may do about a leader that does not answer, for people; "": wait.
    """

    group: str
    nodes: tuple[str, ...]
    _connect_to: ConnectTo
    wait_s: float
    note: Callable[[str], None] = lambda text: None
    fixed: bool = False
    advice: str = ""
    _order: list[str] = attrs.field(
        default=attrs.Factory(lambda members: list(members.nodes), takes_self=True)
    )
    _lost_s: float | None = None
    _found_once: bool = False
    _taken_over: str = ""  # the next leader that was noted after that loss

    @classmethod
    def only(cls, client: Client, group: str) -> MemberFinder:
        """Make a finder for one node over an open connection; when that is lost, no other is
        found.
        """
        node = client.identity.node
        return cls(group, (node,), lambda node: nullcontext(client), wait_s=0.0, fixed=True)

    # ---- finding ----

    @asynccontextmanager
    async def leader(self) -> AsyncIterator[Client]:
        """Connect to the node that knows itself to be the group's master or leader.

        Raises: OSError: there is none in time; its text says which nodes cannot be reached, and
            which leader the others name. If no node at all is running it is raised at once, unless
            one was found before.
        """
        async with self._connected(leads=not self.fixed) as client:
            yield client

    @asynccontextmanager
    async def member(self) -> AsyncIterator[Client]:
        """Connect to the first node that answers. Raises: OSError, as `leader`."""
        async with self._connected(leads=False) as client:
            yield client

    @asynccontextmanager
    async def _connected(self, *, leads: bool) -> AsyncIterator[Client]:
        is_noted = self._lost_s is not None
        since_s = trio.current_time() if self._lost_s is None else self._lost_s
        named: dict[str, NamedLeader] = {}
        pauses: dict[str, Pauses] = {}

        @asynccontextmanager
        async def enter(node: str) -> AsyncIterator[_Found]:
            try:
                async with self._connect_to(node) as client:
                    epoch = await self._led(node, client, named, race, since_s) if leads else None
                    yield client, epoch
            except NoSlot as error:
                race.say(node, error)  # others are tried meanwhile
                await trio.sleep(pauses.setdefault(node, pauses_of(node)).next_s())
                raise

        nodes = tuple(self._order)
        async with open_race(nodes, enter, passing=AWAY, again_s=RETRY_S) as race:
            found = await race.first()
            if found is None:
                until_s = since_s + self.wait_s
                if self._found_once or any(map(_runs, race.reasons.values())):
                    if not is_noted and trio.current_time() < until_s:
                        self.note(f"{self.group}: {_why_waits(race)}, {self.wait_s:g} s")
                    found = await race.first(until_s)
            if found is None:
                self._lost_s = None  # the next request has the whole time again
                raise _nobody(self.group, race, named, self.advice)
            client, epoch = found
            next_node = client.identity.node
            if self._lost_s is not None and next_node != self._taken_over:
                self._taken_over = next_node  # it may be lost again before it answers anything
                self.note(f"{self.group}: goes on with {next_node}")
            self._found_once = True
            if not self.fixed:
                race.run_beside(self._silence(client, epoch).watch)
            yield client

    def _silence(self, client: Client, epoch: int | None) -> Silence:
        return Silence(
            client=client,
            group=self.group,
            others=tuple(node for node in self.nodes if node != client.identity.node),
            connect_to=self._connect_to,
            away=AWAY,
            epoch=epoch,
        )

    async def _led(
        self,
        node: str,
        client: Client,
        named: dict[str, NamedLeader],
        race: Race[_Found],
        since_s: float,
    ) -> int:
        """Ask a node for the leader until it names itself, and no other node names one of a newer
        epoch.

        Args:
            named: the leader that each member named last.
            since_s: the time since which there is no leader, as far as is known.

        Returns: the epoch in which it leads.
        """
        while True:
            with trio.fail_after(CONNECT_TIMEOUT_S):
                named[node] = own = leader_named_by(await client.status(), self.group)
            known = newest(named.values()) or own
            if own.leader == node and own.epoch >= known.epoch:
                return own.epoch
            race.say(node, not_led(node, self.group, own, known), preferred=known.leader)
            await trio.sleep(pause_s(since_s))

    # ---- losing ----

    def heed(self, node: str, failure: BaseException) -> bool:
        """Note that a request to this node failed. Returns: whether to try another node.

        After a loss, that includes what the next leader refuses because it is not ready yet.
        """
        if not self.wait_s or not self._may_pass(failure):
            return False
        now_s = trio.current_time()
        if self._lost_s is None:
            self._lost_s, self._taken_over = now_s, ""
            self.note(f"{self.group}: {failure}; looks for the next leader, for {self.wait_s:g} s")
        hint = failure.hint if isinstance(failure, NotMaster) else None
        self._order.sort(key=lambda other: (other == node, other != hint))
        if now_s > self._lost_s + self.wait_s:
            self._lost_s = None
            return False
        return True

    def _may_pass(self, failure: BaseException) -> bool:
        match failure:
            case NobodyLeads():
                return False
            case CorruptLog():
                return True  # this node's copy is damaged there, which it may not know yet
            case RequestRefused():
                return failure.error == frames.ERROR_NOT_AVAILABLE
            case NotEnoughReplicas():
                return self._lost_s is not None
            case _:
                return isinstance(failure, LOST)

    async def pause(self) -> None:
        """Wait before a request is sent once more; see RETRY_PART."""
        now_s = trio.current_time()
        await trio.sleep(pause_s(now_s if self._lost_s is None else self._lost_s))

    def well(self) -> None:
        """Note that a request was answered: a later loss has the whole time again."""
        self._lost_s = None


def pause_s(since_s: float) -> float:
    """Return the pause before the next try, if they have been made since this time."""
    passed_s = trio.current_time() - since_s
    return min(RETRY_S, max(RETRY_FIRST_S, RETRY_PART * passed_s))


def _runs(reason: Exception | str) -> bool:
    """Whether a node that has not opened for this reason is running."""
    return isinstance(reason, str | NoSlot)


def _why_waits(race: Race[_Found]) -> str:
    full = [str(each) for each in race.reasons.values() if isinstance(each, NoSlot)]
    return f"{'; '.join(full)}; tries again" if full else "no node leads it now; waits for a leader"


def _nobody(
    group: str, race: Race[_Found], named: Mapping[str, NamedLeader], advice: str
) -> ConnectionError:
    """Make the error for a group without a leader: what nodes answered, then which cannot be
    reached.

    Args:
        named: the leader that each member named last.
        advice: see `MemberFinder`.
    """
    failures = [
        str(each) or f"{node} does not answer"
        for node, each in race.reasons.items()
        if isinstance(each, Exception)
    ]
    known = newest(named.values())
    runs = {node: why for node in race.names if isinstance(why := race.reasons.get(node), str)}
    first, last = "", ""
    if known is not None and not _runs(race.reasons.get(known.leader, "")):
        follow = [node for node in runs if runs[node] == not_led(node, group, known, known)]
        first = f"{known.leader} led {group} and does not answer"
        if follow:
            first += f", {', '.join(follow)} {'runs' if len(follow) == 1 else 'run'}"
        runs, last = {node: runs[node] for node in runs if node not in follow}, advice
    text = "; ".join(filter(None, (first, *runs.values(), *failures, last)))
    return ConnectionError(text or f"no node of {group} has an API socket")


def wait_s_of(config: ClusterConfig, group: str) -> float:
    """Return the default of how long a client waits for a leader, in seconds.

    That is the time in which members have to answer, and in a DLedger group also the time after
    which members notice that their leader is gone.
    """
    election = config.groups[group].election
    return config.answer_timeout_s + (election.missed_after_s if election is not None else 0.0)


def members_of(
    config: ClusterConfig,
    group: str,
    *,
    leads: bool,
    name: str,
    wait_s: float | None = None,
    note: Callable[[str], None] = lambda text: None,
    network: Network | None = None,
    secret_store: SecretStore | None = None,
) -> MemberFinder:
    """Make the finder for a group of a cluster file.

    Args:
        leads: whether it is for appends, which needs a master or leader that is no Java node.
        wait_s: see `MemberFinder`; None: `wait_s_of`.

    Raises: ConfigError: only a Java broker could take appends.
    """
    leader = kind_of(config.groups[group]).terms.leader
    elects = config.groups[group].election is not None
    return MemberFinder(
        group=group,
        advice="" if elects else f"`promote {group}` makes another node its {leader}",
        nodes=node_order(config, group, master_only=leads),
        connect_to=partial(  # It tries once: this finder tries again, and other nodes meanwhile.
            connect_node, config, name=name, network=network, secret_store=secret_store, wait_s=0.0
        ),
        wait_s=wait_s_of(config, group) if wait_s is None else wait_s,
        note=note,
    )
