"""The interface of a node that the API socket uses. `actors.node` implements it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import attrs

from actors.events.sink import EventLines, EventSubscription
from actors.log import AppendOutcome
from actors.log_types import Chain, Claim, Found, GoodRange, GroupState, NewRecord, Offsets, Receipt

__all__ = ["AppendOutcome", "EventLines", "EventSubscription", "NodeHandle", "NodeIdentity"]


@attrs.frozen(kw_only=True)
class NodeIdentity:
    """What a node answers to the hello of every connection."""

    cluster: str
    node: str
    boot: int
    groups: tuple[str, ...]


class NodeHandle(Protocol):
    """One running node. Methods raise `actors.errors` and `actors.api.failures.RequestRefused`.

    Every async method may be cancelled; a cancelled append has the unknown outcome. An unknown
    group is `RequestRefused(ERROR_UNKNOWN_GROUP)`.
    """

    @property
    def identity(self) -> NodeIdentity: ...

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None:
        """Hand over one batch; return when the group's store has room for it (back-pressure).

        Batches enter the log in the order of the calls of one task; none enters it behind one of
        its `chain` that failed. What was never handed over is raised here; everything later reaches
        `on_done`, exactly once, from any task. `on_done` neither raises nor yields.
        """

    async def append(self, group: str, records: tuple[NewRecord, ...]) -> Receipt:
        """Append one batch and wait for its receipt."""

    async def read(self, group: str, start: int, max_bytes: int, fresh: bool) -> Found:
        """What is acknowledged from `start` on, at most `max_bytes` of the log but at least one
        record if any is. No CRC was looked at in what comes as it is stored.

        A start below the log's first position is moved to it. With `fresh` it shows all that
        was acknowledged before: members are asked who is master or leader, and what that one has is
        waited for, at most as long as an append may wait.
        Raises: RequestRefused(ERROR_BAD_REQUEST) if `start` is not where a record begins; with
        `fresh` RequestRefused(ERROR_NOT_AVAILABLE) if nobody says what is fresh, or it has not come
        here in time, and Overloaded if too many ask for it.
        """

    async def wait_acknowledged(self, group: str, above: int) -> Offsets:
        """Return once a read at `above` gives something: acknowledged, and held by this node."""

    async def wait_offsets(self, group: str, known: Offsets | None) -> Offsets:
        """Return once the offsets differ from `known`; at once if `known` is None."""

    async def status(self) -> dict[str, Any]:
        """Roles, offsets, slaves and lags per group, ready for JSON."""

    async def tree(self) -> dict[str, Any]:
        """The supervision tree as it is now, ready for JSON."""

    async def promote(self, group: str, node: str | None, force: bool) -> dict[str, Any]:
        """Make `node` (None: the furthest) master of the group."""

    async def group_state(self, group: str) -> GroupState:
        """This node's present state in the group, with the range of its log.

        Raises: Closed if its log is not open, as while its role changes.
        """

    async def wait_group_state(self, group: str, known: GroupState | None) -> GroupState:
        """Return once this node's part differs from `known`; at once if `known` is None.

        Offsets are no part: growth alone returns nothing.
        """

    async def fence(self, group: str, claim: Claim, on: bool) -> GroupState:
        """Hold a coordinator's claim, which fences a master, or confirm it, or give it up.

        It has to be repeated at least every CLAIM_LEASE_S. See `actors.ha.core.claims`.

        Returns: the state after it.
        Raises: RequestRefused(ERROR_BAD_REQUEST) if it knows that promotion or a higher one, or
            holds another coordinator's claim.
        """

    async def record(
        self, group: str, number: int, master: str, token: int, force: bool
    ) -> GroupState:
        """Record that `master` is master by promotion `number`.

        It returns once this node acts by it, or will as soon as its log finds room to open; then
        the result says nothing of the log. A new master need not be open yet.

        Args:
            token: the token of the coordinator's claim.
            force: whether the new master opens without having heard other members.

        Raises: RequestRefused(ERROR_BAD_REQUEST) if this node knows a higher promotion, or another
            master by the same, or holds another claim, or becomes master and holds none; or if
            `master` is no Python member.
        """

    async def resync(self, group: str) -> dict[str, Any]:
        """Set aside what this node's log has beyond its master's, and follow."""

    async def log_range(self, group: str, start: int) -> GoodRange:
        """The bytes of the log's range that holds byte `start` (of a DLedger group: of the entry
        `start`), for another member.

        Raises: RequestRefused(ERROR_NOT_AVAILABLE): they are not what was written here, or not
            here.
        """

    async def repair(self, group: str, source: str | None) -> dict[str, Any]:
        """Mend what is damaged of this node's log with the bytes of `source` (None: of any member).

        Raises: RequestRefused(ERROR_BAD_REQUEST) for a `source` that is no other member;
            RequestRefused(ERROR_NOT_AVAILABLE) if the group is being repaired.
        """

    async def transfer_leader(self, group: str, node: str | None) -> dict[str, Any]:
        """Have `node` (None: the member with most of the log) lead a DLedger group that this one
        leads.

        Raises: NotMaster, with the leader's name. RequestRefused: this node leads on; the text says
            why. OutcomeUnknown: the other node may lead, or may yet.
        """

    def request_stop(self) -> None:
        """Begin the ordered stop; returns at once."""

    def subscribe_events(self) -> EventSubscription:
        """Subscribe to the events from now on; the caller closes the subscription."""
