"""A group's log in another process, whichever node leads it; lost connections are made anew.

    async with connect_group("cluster.toml", "orders") as log:
        receipt = await log.append([b"one", b"two"])
        async with log.reader(start=receipt.first, follow=True) as batches: ...

Appends go to the group's master or leader, which its members name. Reads go to any member, and go
on at their position with the next one. Both wait up to `MemberFinder.wait_s` for such a node.

What a lost connection leaves in doubt is never sent again here: the caller decides that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeVar

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.client.connection import Client
from actors.client.members import LOST, MemberFinder, NobodyLeads, members_of
from actors.config import ClusterConfig, load
from actors.env.protocols import Network, SecretStore
from actors.errors import NotStored, OutcomeUnknown, TriologError, UnknownName
from actors.log import AppendOutcome, Log
from actors.log_types import BEHIND_FAILED, Batch, Chain, NewRecord, Offsets, Receipt
from actors.records import decoded
from wire.api import frames

R = TypeVar("R")
ANSWERS_LOOK_S: Final = 0.02
ANSWERS_S: Final = 10.0
"""How long a connection that is to be replaced is kept while its node owes answers. A node that
does not lead any more refuses what is under way, so that is known to be not stored. It is longer
than an append may wait there for its turn (`slave_timeout_s`, 3 s)."""


@attrs.define(eq=False)
class SharedClient:
    """One connection at a time, made when it is needed, which any task may use.

    Attributes:
        members: finds the node to connect to.
        node: the name of the node that was connected last; "" before the first.
    """

    _nursery: trio.Nursery
    members: MemberFinder
    _connect: Callable[[], AbstractAsyncContextManager[Client]]
    node: str = ""
    _client: Client | None = None
    _dropped: trio.Event = attrs.field(factory=trio.Event)
    _turn: trio.Lock = attrs.field(factory=trio.Lock)

    async def client(self) -> Client:
        """Return the client of the node to ask; connect if necessary. Raises: OSError: none is
        found in time.
        """
        async with self._turn:
            if self._client is None:
                self._client = await self._nursery.start(self._hold)
                self.node = self._client.identity.node
            return self._client

    async def _hold(self, *, task_status: trio.TaskStatus[Client]) -> None:
        """Hold the connection in a task of its own, because its caller may be cancelled before it
        is open.
        """
        dropped: trio.Event | None = None
        try:
            async with self._connect() as client:
                dropped = self._dropped = trio.Event()
                task_status.started(client)
                await dropped.wait()
                with trio.move_on_after(ANSWERS_S):
                    while client.unanswered_count:  # noqa: ASYNC110 - rare
                        await trio.sleep(ANSWERS_LOOK_S)
        except OSError:
            if dropped is None:
                raise  # for the task that asked for it; errors while closing concern nobody

    def failed(self, client: Client, failure: BaseException) -> bool:
        """Note that a request failed. Returns: whether another connection may do better."""
        goes_on = self.members.heed(client.identity.node, failure)
        if self._client is client and (goes_on or isinstance(failure, LOST)):
            self._client = None
            self._dropped.set()
        return goes_on

    async def ask(self, call: Callable[[Client], Awaitable[R]]) -> R:
        """Call with a client until a node answers.

        Raises: the failure, if no other node can do better or the wait is over; OSError: no node is
            found in time.
        """
        while True:
            client = await self.client()
            try:
                answer = await call(client)
            except (*LOST, TriologError) as error:
                if not self.failed(client, error):
                    raise
                await self.members.pause()
            else:
                self.members.well()
                return answer


@attrs.define(eq=False)
class GroupBackend:
    """A `LogBackend` of one group, valid within `open_backend`.

    Attributes:
        leading: the connection to the leader.
        reading: the connection to any member that answers.
    """

    leading: SharedClient
    reading: SharedClient
    _under_way: int = 0

    # ---- appending ----

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None:
        """See `LogBackend`.

        If the leader is lost while appends are under way, this one fails, too, so that nothing
        overtakes what is in doubt. Otherwise the next leader is searched for first.

        Raises: NotStored; NobodyLeads: no leader is found in time.
        """
        while True:
            client, handed_over = await self._leader(), False
            # it was broken meanwhile, and the next leader does not know that
            if chain is not None and chain.broken:
                raise NotStored(BEHIND_FAILED)
            self._under_way += 1
            try:
                await client.submit(group, records, self._passing_on(client, on_done), chain)
                handed_over = True
            except NotStored as error:
                if not self.leading.failed(client, error) or self._under_way > 1:
                    raise
            finally:
                self._under_way -= not handed_over
            if handed_over:
                return
            await self.leading.members.pause()

    def _passing_on(
        self, client: Client, on_done: Callable[[AppendOutcome], None]
    ) -> Callable[[AppendOutcome], None]:
        def passed_on(outcome: AppendOutcome) -> None:
            self._under_way -= 1
            if isinstance(outcome, Receipt):
                self.leading.members.well()
            else:
                self.leading.failed(client, outcome)
            on_done(outcome)

        return passed_on

    async def append(self, group: str, records: tuple[NewRecord, ...]) -> Receipt:
        """See `Log.append`. A batch that was not stored is sent to the next leader.

        Raises: as `Log.append`; NobodyLeads: no leader is found in time.
        """
        while True:
            client = await self._leader()
            try:
                receipt = await client.append(group, records)
            except (NotStored, OutcomeUnknown) as error:
                goes_on = self.leading.failed(client, error)
                if not goes_on or isinstance(error, OutcomeUnknown):
                    raise
                await self.leading.members.pause()
            else:
                self.leading.members.well()
                return receipt

    async def _leader(self) -> Client:
        try:
            return await self.leading.client()
        except OSError as error:
            raise NobodyLeads(str(error)) from error

    # ---- reading ----

    async def read(self, group: str, start: int, max_bytes: int, fresh: bool) -> Batch:
        """See `Log.read`. What is damaged on one node is read from another one."""

        async def call(client: Client) -> Batch:
            return decoded(await client.read(group, start, max_bytes, fresh))

        return await self._ask(call)

    async def wait_acknowledged(self, group: str, above: int) -> Offsets:
        """Wait for the offsets of the member that is connected now."""
        return await self._ask(lambda client: client.wait_acknowledged(group, above))

    async def wait_offsets(self, group: str, known: Offsets | None) -> Offsets:
        """Wait for the offsets of the member that is connected now."""
        return await self._ask(lambda client: client.wait_offsets(group, known))

    async def _ask(self, call: Callable[[Client], Awaitable[R]]) -> R:
        try:
            return await self.reading.ask(call)
        except OSError as error:
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, str(error)) from error


@asynccontextmanager
async def open_backend(leading: MemberFinder, reading: MemberFinder) -> AsyncIterator[GroupBackend]:
    """Open a group's backend; it connects when it is first used, and closes at the end of the
    block.

    Args:
        leading, reading: find the nodes for appends and for reads; each has a connection of its
            own.
    """
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield GroupBackend(
                leading=SharedClient(nursery, leading, leading.leader),
                reading=SharedClient(nursery, reading, reading.member),
            )
        except Exception as error:  # noqa: BLE001 - raised below, outside the nursery
            failure = error
        finally:
            leading.wait_s = reading.wait_s = 0.0  # what ends from now on is no loss
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@asynccontextmanager
async def connect_group(
    cluster: ClusterConfig | str,
    group: str,
    *,
    name: str = "client",
    wait_s: float | None = None,
    network: Network | None = None,
    secret_store: SecretStore | None = None,
) -> AsyncIterator[Log]:
    """Open the log of a cluster's group, whichever node leads it, for the length of an `async with`
    block.

    Args:
        cluster: the loaded configuration, or the path of the cluster file.
        name: the client's name in the nodes' events.
        wait_s: how long each request waits for a node that leads, or that answers, in seconds;
            None: `wait_s_of`.
        network, secret_store: this machine's by default, `actors.sim`'s in simulation.

    Returns: the log. Its `Appender` ends with the leader to which it sends; `Appender.left` tells
        what to give to the next one. Everything else goes on with the next leader by itself.

    Raises (on entry): ConfigError, UnknownName. Nothing is connected before the first request.

    Error handling: an append that was under way when its leader was lost, or hung while another one
        took its place (`actors.client.silence`), ends with OutcomeUnknown.
        If no node is found in time, appends end with NotMaster (`NobodyLeads`), reads with
        RequestRefused.
    """
    config = load(cluster) if isinstance(cluster, str) else cluster
    if group not in config.groups:
        raise UnknownName(config.name, "group", group, tuple(config.groups))

    def members() -> MemberFinder:
        return members_of(
            config,
            group,
            leads=False,
            name=name,
            wait_s=wait_s,
            network=network,
            secret_store=secret_store,
        )

    async with open_backend(members(), members()) as backend:
        yield Log(backend, group)
