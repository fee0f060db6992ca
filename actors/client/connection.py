"""The client of one node, over its API socket, and how to connect to it.

`requests` numbers the requests and hands out their answers; `following` takes what the node pushes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import trio

from actors.api import convert, frame_socket
from actors.api.credentials import ExpectedNode, greet
from actors.api.failures import RequestRefused, to_error
from actors.api.frame_socket import FrameSocket, SocketClosed
from actors.api.handle import AppendOutcome, NodeIdentity
from actors.client.following import (
    EVENTS_CREDIT_LINES,
    TAIL_CREDIT_BYTES,
    EventBatch,
    OffsetsWatch,
    Subscription,
    read_batch,
    read_events,
)
from actors.client.requests import Requests, checked, encoded
from actors.client.slot_retries import NoSlot, with_slot
from actors.env.protocols import Address, Network, Stream
from actors.env.tcp import TcpNetwork
from actors.errors import TooLarge, TriologError, UnknownName
from actors.log import READ_BYTES_DEFAULT, Log
from actors.log_types import Batch, Chain, Found, NewRecord, Offsets, Receipt
from wire.api import frames as api
from wire.errors import RemoteProtocolError

CONNECT_TIMEOUT_S = 5.0
"""The time limit from connecting to the node's welcome, and again for retries while all slots are
taken."""

Target: TypeAlias = str | tuple[str, int] | Address
"""The path of a Unix socket, or host and port."""


class Client:
    """A connection to one node's API socket. `connect` makes it.

    It offers the same `Log` as a node in this process does. Every method may raise `Closed` if the
    connection has ended, and `RequestRefused` if the node refuses the request.

    Attributes:
        identity: the node's cluster, name, boot and groups.
        in_flight_requests_max: how many unanswered requests the node allows this connection.
    """

    def __init__(
        self, frames: FrameSocket, welcome: api.Welcome, address: Address, doubt: str
    ) -> None:
        self.requests = Requests(frames, welcome, f"{address}: {doubt}" if doubt else "")
        self._address = address
        self._limits = welcome
        self.in_flight_requests_max = welcome.in_flight_requests_max
        self.identity = NodeIdentity(
            cluster=welcome.cluster, node=welcome.node, boot=welcome.boot, groups=welcome.groups
        )
        self._watches: dict[str, OffsetsWatch] = {}

    def __repr__(self) -> str:
        return f"<Client of {self.identity.node} at {self._address}>"

    def log(self, group: str) -> Log:
        """Return the log of one of the node's groups. Raises: UnknownName if it has no such
        group.
        """
        if group not in self.identity.groups:
            raise UnknownName(self.identity.node, "group", group, self.identity.groups)
        return Log(self, group)

    @property
    def unanswered_count(self) -> int:
        """The number of requests that are under way."""
        return self.requests.unanswered_count

    @property
    def quiet_since_s(self) -> float:
        """The time (Trio's) since which the node has owed an answer and sent nothing; inf: it owes
        none.
        """
        return self.requests.quiet_since_s

    async def wait_silent(self, silent_s: float) -> None:
        """Return once the node has owed an answer, and sent nothing at all, for `silent_s`
        seconds.
        """
        await self.requests.wait_silent(silent_s)

    def give_up(self, reason: str) -> None:
        """End the connection.

        Requests that were sent and may have had an effect get an unknown outcome; others are not
        sent.
        """
        self.requests.give_up(reason)

    # Appending.

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None:
        """Send one batch; return when the connection has room for it.

        Batches of one task enter the log in the order of its calls. None enters the log after a
        batch of its `chain` that failed, if that is among the newest of the chain
        (`actors.api.connection`). Later errors reach `on_done`, exactly once.

        Raises: Closed, TooLarge, RequestRefused: nothing was sent.
        """

        def settle(answer: api.Appended | TriologError) -> None:
            on_done(answer if isinstance(answer, TriologError) else convert.to_receipt(answer))

        def make(number: int) -> bytes:
            return self._append_frame(number, group, records, chain.number if chain else 0)

        await self.requests.begin(make, api.Appended, settle, in_doubt=True)

    async def append(self, group: str, records: tuple[NewRecord, ...]) -> Receipt:
        """Append one batch and wait for its receipt. Raises: NotStored, OutcomeUnknown."""

        def make(number: int) -> bytes:
            return self._append_frame(number, group, records, 0)

        return convert.to_receipt(await self.requests.answered(make, api.Appended, in_doubt=True))

    def _append_frame(
        self, number: int, group: str, records: tuple[NewRecord, ...], chain: int
    ) -> bytes:
        most = self._limits.records_per_append_max
        if len(records) > most:
            raise TooLarge(f"a batch of {len(records)} records is above the node's limit, {most}")
        appended = convert.from_new_records(records)
        frame = api.Append(id=number, group=group, records=appended, chain=chain)
        plain = all(type(record) is bytes for record in records)
        if plain and records and group in self.identity.groups:
            return encoded(frame)  # nothing in it can be out of range
        return checked(frame)

    # Reading.

    async def read(self, group: str, start: int, max_bytes: int, fresh: bool) -> Found:
        """Return acknowledged records from `start` on. See `NodeHandle.read`."""
        size = min(max_bytes, api.READ_BYTES_MAX)
        return convert.to_batch(
            await self.requests.ask(
                api.ReadAnswer,
                lambda number: api.Read(
                    id=number, group=group, start=start, max_bytes=size, fresh=fresh
                ),
            )
        )

    async def wait_acknowledged(self, group: str, above: int) -> Offsets:
        """Return once the acknowledged end is above `above`."""
        return await self._watch(group).wait(lambda offsets: offsets.acknowledged > above)

    async def wait_offsets(self, group: str, known: Offsets | None) -> Offsets:
        """Return once the offsets differ from `known`; at once if `known` is None."""
        if known is not None:
            return await self._watch(group).wait(lambda offsets: offsets != known)
        answer = await self.requests.ask(
            api.Offsets, lambda number: api.GetOffsets(id=number, group=group)
        )
        return convert.to_offsets(answer)

    def tail(
        self,
        group: str,
        start: int | None = None,
        *,
        batch_bytes: int = READ_BYTES_DEFAULT,
        credit_bytes: int = TAIL_CREDIT_BYTES,
    ) -> Subscription[Batch]:
        """Subscribe to acknowledged records, which the node pushes without end. The caller closes
        it.

        Args:
            start: the position of the first record; None: only records from now on.
            batch_bytes: how many bytes of the log a batch has at most; a larger record comes alone.
            credit_bytes: how many bytes the node may push before more are granted, and so how many
                this side may have to hold.
        """
        number = self.requests.number()
        size = min(batch_bytes, api.READ_BYTES_MAX)
        found = Subscription(number, credit_bytes, read_batch, self.requests.send_soon)
        self.requests.follow(
            api.Tail(
                id=number, group=group, start=start, max_bytes=size, credit_bytes=credit_bytes
            ),
            found,
        )
        return found

    def events(self, *, credit_lines: int = EVENTS_CREDIT_LINES) -> Subscription[EventBatch]:
        """Subscribe to the node's events from now on. The caller closes it."""
        number = self.requests.number()
        found = Subscription(number, credit_lines, read_events, self.requests.send_soon)
        self.requests.follow(api.TailEvents(id=number, credit_lines=credit_lines), found)
        return found

    # The node itself.

    async def status(self) -> dict[str, Any]:
        """Return roles, offsets, slaves and lags of each group."""
        return (await self.requests.ask(api.Status, lambda number: api.GetStatus(id=number))).value

    async def tree(self) -> dict[str, Any]:
        """Return the node's present supervision tree."""
        return (await self.requests.ask(api.Tree, lambda number: api.GetTree(id=number))).value

    async def promote(
        self, group: str, node: str | None = None, *, force: bool = False
    ) -> dict[str, Any]:
        """Make `node` master of the group; None: the node with most of the log.

        Raises: NodeStopped if the connection ends first: it may have happened.
        """
        return await self._changed(
            api.Promoted, lambda at: api.Promote(id=at, group=group, node=node, force=force)
        )

    async def resync(self, group: str) -> dict[str, Any]:
        """Have the node cut what its log has beyond its master's, keep that aside, and follow.

        Raises: NodeStopped if the connection ends first: it may have happened.
        """
        return await self._changed(api.Resynced, lambda at: api.Resync(id=at, group=group))

    async def repair(self, group: str, source: str | None = None) -> dict[str, Any]:
        """Mend damage of the node's log with bytes of the node `source`; None: of any node that has
        them.

        Raises: NodeStopped if the connection ends first: it may have happened, in part or whole.
        """
        return await self._changed(
            api.Repaired, lambda at: api.Repair(id=at, group=group, source=source)
        )

    async def transfer_leader(self, group: str, node: str | None = None) -> dict[str, Any]:
        """Have `node` (None: the member with most of the log) lead a group that this node leads.

        Raises: NotMaster, with the leader's name; OutcomeUnknown if the member did not say that it
            leads, NodeStopped if the connection ends first: it may have happened.
        """
        return await self._changed(
            api.Transferred, lambda at: api.Transfer(id=at, group=group, node=node)
        )

    async def _changed(
        self, kind: type[api.Answered], make: Callable[[int], api.Request]
    ) -> dict[str, Any]:
        return (await self.requests.ask(kind, make, in_doubt=True)).value

    async def stop(self) -> None:
        """Ask the node to stop in order; return when its stop has begun."""
        self.requests.check_trusted()
        await self.requests.ask(api.Stopping, lambda number: api.Stop(id=number))

    def _watch(self, group: str) -> OffsetsWatch:
        watch = self._watches.get(group)
        if watch is None or watch.over:
            number = self.requests.number()
            watch = OffsetsWatch(number, self.requests.send_soon)
            self.requests.follow(api.WatchOffsets(id=number, group=group), watch)
            self._watches[group] = watch
        return watch


@asynccontextmanager
async def connect(
    target: Target,
    *,
    name: str = "client",
    network: Network | None = None,
    timeout_s: float = CONNECT_TIMEOUT_S,
    wait_s: float | None = None,
    identity: ExpectedNode | None = None,
) -> AsyncIterator[Client]:
    """Connect to a node for the length of an `async with` block.

    Args:
        target: the path of the node's Unix socket, or (host, port) of its API port.
        name: the client's name in the node's events.
        network: the network to use; this machine's by default, `actors.sim`'s in simulation.
        timeout_s: the time limit of each try in seconds, from connecting to the node's welcome.
        wait_s: for how many seconds to try again while all client slots are taken; None:
            `timeout_s`.
        identity: the node that is expected at a port, and the secret by which both sides prove
            themselves; None: the connection may only read. For a Unix socket the permissions of its
            file decide.

    Raises (on entry): OSError if the node cannot be reached or speaks something else; NoSlot, a
        kind of OSError, if it had no slot in all that time; RequestRefused if it does not speak
        this version.

    Error handling: when the connection ends, the block goes on and its next request raises. At the
        end of the block, unanswered appends have the unknown outcome.
    """

    def enter() -> AbstractAsyncContextManager[Client]:
        return _try(target, name, network, timeout_s, identity)

    wait_s = timeout_s if wait_s is None else wait_s
    async with with_slot(enter, wait_s, name, target) as client:
        yield client


@asynccontextmanager
async def _try(
    target: Target,
    name: str,
    network: Network | None,
    timeout_s: float,
    identity: ExpectedNode | None,
) -> AsyncIterator[Client]:
    """Try once to connect; arguments and errors are those of `connect`."""
    where = _address(target)
    own = ""
    failure: Exception | None = None
    with trio.CancelScope(deadline=trio.current_time() + timeout_s) as opening:
        try:
            stream = await _dial(network or TcpNetwork(), where)
            own = stream.local.host
            async with frame_socket.connect(stream) as frames:
                client = await _greet(frames, name, where, identity)
                opening.deadline = float("inf")
                # the deadline may have passed meanwhile
                await trio.lowlevel.checkpoint_if_cancelled()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.requests.run, name=f"client of {where}")
                    try:
                        yield client
                    except Exception as error:  # noqa: BLE001 - raised below, outside the nursery
                        failure = error
                    finally:
                        client.requests.end("it was closed on this side")
                        nursery.cancel_scope.cancel()
        except (SocketClosed, RemoteProtocolError, trio.BrokenResourceError) as error:
            raise _not_welcome(where, own, error) from error
        except (ConnectionResetError, BrokenPipeError) as error:
            if not where.port:
                raise
            raise ConnectionError(_refused_text(where, own)) from error
    if failure is not None:
        raise failure
    if opening.cancelled_caught:
        raise TimeoutError(f"{where}: no answer within {timeout_s:g} s{_other_ports(where)}")


def _not_welcome(where: Address, own: str, error: Exception) -> ConnectionError:
    """Make the error for a peer that did not welcome the client.

    Args:
        own: the host of this end, for people.
    """
    if isinstance(error, SocketClosed) and error.code == frame_socket.TRY_AGAIN_LATER:
        return NoSlot(f"{where}: {error.said or error}")
    if isinstance(error, SocketClosed) and error.unopened:  # a node that is full does that, too
        text = _refused_text(where, own) if where.port else f"{where}: {error}"
        return NoSlot(text, confirmed=False)
    if where.port and str(error) == frame_socket.NODE_GONE:
        return ConnectionError(_refused_text(where, own))
    if isinstance(error, SocketClosed) and error.code == frame_socket.GOING_AWAY:
        return ConnectionError(f"{where}: the node ended the connection: {error}")
    return ConnectionError(f"{where}: not a node's API socket{_other_ports(where)}: {error}")


def _refused_text(where: Address, own: str) -> str:
    """Describe a port that ends a connection before it has sent anything.

    Args:
        own: the host of this end.
    """
    return (
        f"{where}: the connection was closed at once: refused by address, as the node's cluster"
        f" file names no node at {own}, or too many connect at once{_other_ports(where)}"
    )


def _other_ports(where: Address) -> str:
    """Return a hint at a mistake that is easily made: a group's port in the cluster file comes
    first.
    """
    return " (its port is the file's api_port, not a group's port)" if where.port else ""


def _address(target: Target) -> Address:
    match target:
        case Address():
            return target
        case str():
            return Address(target, 0)
        case _:
            return Address(*target)


async def _dial(network: Network, where: Address) -> Stream:
    if where.port:
        return await network.connect(where.host, where.port)
    return await network.connect_unix(where.host)


async def _greet(
    frames: FrameSocket, name: str, where: Address, identity: ExpectedNode | None
) -> Client:
    """Exchange hello and welcome. Raises: RequestRefused, SocketClosed, RemoteProtocolError."""
    hello = api.Hello(id=0, version=api.PROTOCOL_VERSION, name=name)
    greeting = None
    if where.port:
        greeting = greet(hello, identity, frames.challenge)
    await frames.send(checked(hello if greeting is None else greeting.hello))
    answer = api.decode_answer(await frames.receive())
    match answer:
        case api.Welcome() if api.VERSION_MIN <= answer.version <= api.PROTOCOL_VERSION:
            doubt = "" if greeting is None else greeting.doubt(answer)
            return Client(frames, answer, where, doubt)
        case api.Welcome():
            spoken = f"the node chose version {answer.version}"
            raise RequestRefused(api.ERROR_VERSION, spoken)
        case api.Failed():
            raise to_error(answer)
        case _:
            raise RemoteProtocolError(f"expected a welcome, found {type(answer).__name__}")
