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

        Batches enter the log in the order of the calls of one task; none enters it behind a batch
        of its `chain` that failed. An error before the hand-over is raised here; every later
        outcome is passed to `on_done`, exactly once, from any task. `on_done` neither raises nor
        yields.
        """

    async def append(self, group: str, records: tuple[NewRecord, ...]) -> Receipt:
        """Append one batch and wait for its receipt."""

    async def read(self, group: str, start: int, max_bytes: int, fresh: bool) -> Found:
        """Return what is acknowledged from `start` on.

        It is at most `max_bytes` of the log, but at least one record if there is any. Records that
        are returned as they are stored have unchecked CRCs. A start below the log's first position
        is moved to it.

        With `fresh` the result includes all that was acknowledged before the call: members are
        asked who is master or leader, and this node waits for what that one has, at most as long as
        an append may wait.

        Raises: RequestRefused(ERROR_BAD_REQUEST) if no record begins at `start`. With `fresh`,
            RequestRefused(ERROR_NOT_AVAILABLE) if no member tells what is fresh, or this node does
            not get it in time; Overloaded if too many fresh reads wait.
        """

    async def wait_acknowledged(self, group: str, above: int) -> Offsets:
        """Return once a read at `above` finds something that is acknowledged and on this node."""

    async def wait_offsets(self, group: str, known: Offsets | None) -> Offsets:
        """Return once the offsets differ from `known`; at once if `known` is None."""

    async def status(self) -> dict[str, Any]:
        """Return roles, offsets, slaves and lags for each group, ready for JSON."""

    async def tree(self) -> dict[str, Any]:
        """Return the supervision tree as it is now, ready for JSON."""

    async def promote(self, group: str, node: str | None, force: bool) -> dict[str, Any]:
        """Make `node` master of the group; None: the member with most of the log.

        Returns: what happened, ready for JSON.
        """

    async def group_state(self, group: str) -> GroupState:
        """Return this node's present state in the group, with the range of its log.

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

        It returns once this node acts by it. If its log finds no room to open, it returns at once,
        without the log in its result, and acts by it later. A new master need not be open yet.

        Args:
            token: the token of the coordinator's claim.
            force: whether the new master opens without having heard other members.

        Raises: RequestRefused(ERROR_BAD_REQUEST) if this node knows a higher promotion, or another
            master by the same, or holds another claim, or becomes master and holds none; or if
            `master` is no Python member.
        """

    async def resync(self, group: str) -> dict[str, Any]:
        """Set aside what this node's log has beyond its master's, and follow the master."""

    async def log_range(self, group: str, start: int) -> GoodRange:
        """Return the bytes of the log's range that holds `start`, for another member.

        Args:
            start: an offset in bytes; in a DLedger group the index of an entry.

        Raises: RequestRefused(ERROR_NOT_AVAILABLE): the bytes are not here, or differ from what was
            written.
        """

    async def repair(self, group: str, source: str | None) -> dict[str, Any]:
        """Mend damage of this node's log with the bytes of `source`; None: of any member.

        Raises: RequestRefused(ERROR_BAD_REQUEST) for a `source` that is no other member;
            RequestRefused(ERROR_NOT_AVAILABLE) if the group is being repaired.
        """

    async def transfer_leader(self, group: str, node: str | None) -> dict[str, Any]:
        """Have `node` lead a DLedger group that this one leads; None: the one with most of the log.

        Raises: NotMaster: this node does not lead; the hint is the leader. RequestRefused: this
            node goes on to lead; the text says why. OutcomeUnknown: the other node may lead now or
            soon.
        """

    def request_stop(self) -> None:
        """Begin the ordered stop; returns at once."""

    def subscribe_events(self) -> EventSubscription:
        """Subscribe to the events from now on; the caller closes the subscription."""
