"""What is counted on a replication link, and that a cut one lets nothing through."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from compare_links import (
    METER_BYTES,
    FrameScanner,
    Gate,
    Meter,
    PushScanner,
    Scanner,
    WatchedNetwork,
)

from actors.env.protocols import Address
from wire.dledger.codes import PushType, RequestCode
from wire.dledger.entry import Entry
from wire.dledger.push_rpc import PushEntryRequest
from wire.dledger.rpc import encode_body
from wire.ha.classic import encode_frame_header
from wire.remoting import frame as remoting
from wire.remoting.header import Header

PORT = 999
HOST = "10.0.0.2"


def meter() -> Meter:
    return Meter(bytearray(METER_BYTES))


def feed(scanner: Scanner, data: bytes, piece: int) -> None:
    for at in range(0, len(data), piece):
        scanner.passed(data[at : at + piece])


def frame(offset: int, size: int) -> bytes:
    return encode_frame_header(offset, size) + b"x" * size


def entry(index: int) -> Entry:
    return Entry(body=b"b" * 52, index=index, magic=1, pos=100 * index, size=100, term=1)


def push(*indexes: int, kind: PushType = PushType.APPEND) -> bytes:
    """A frame with a batch, or one with a single entry."""
    entries = tuple(map(entry, indexes))
    what: dict[str, Any] = {"batch_entry": entries} if len(entries) > 1 else {"entry": entries[0]}
    request = PushEntryRequest(term=1, group="g", leader_id="n0", type=kind, **what)
    header = Header(code=RequestCode.PUSH, opaque=1)
    return remoting.encode_frame(header, encode_body(request))


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_a_classic_slave_that_is_sent_bytes_again(piece: int) -> None:
    counted = meter()
    feed(FrameScanner(counted), frame(0, 100) + frame(100, 0) + frame(100, 50), piece)
    assert counted.again_bytes == 0
    feed(FrameScanner(counted), frame(120, 60), piece)  # another connection
    assert counted.again_bytes == 30
    feed(FrameScanner(counted), frame(180, 10), piece)
    assert counted.again_bytes == 30


def test_bytes_of_a_frame_that_breaks_off_were_sent() -> None:
    counted = meter()
    feed(FrameScanner(counted), frame(0, 100)[:-40], 9)
    feed(FrameScanner(counted), frame(0, 100), 9)
    assert counted.again_bytes == 60


@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_a_dledger_follower_that_is_sent_entries_again(piece: int) -> None:
    counted = meter()
    feed(PushScanner(counted), push(0, 1, 2) + push(3) + push(3, kind=PushType.COMPARE), piece)
    assert counted.again_bytes == 0
    feed(PushScanner(counted), push(3), piece)
    assert counted.again_bytes == 100
    feed(PushScanner(counted), push(2, 3, 4, 5), piece)
    assert counted.again_bytes == 300
    feed(PushScanner(counted), push(6), piece)
    assert counted.again_bytes == 300


def test_junk_counts_nothing() -> None:
    counted = meter()
    feed(PushScanner(counted), b"\xff" * 50, 5)
    assert counted.again_bytes == 0


def test_what_was_counted_is_in_the_bytes() -> None:
    state = bytearray(METER_BYTES)
    Meter(state).received(0, 10, 10)
    Meter(state).received(5, 10, 5)
    assert Meter(bytes(state)).again_bytes == 5


# ---- a whole stream ----


@attrs.define
class Half:
    """Both halves of a stream: `inbox` comes, `outbox` went."""

    inbox: list[bytes]
    outbox: list[bytes] = attrs.field(factory=list)
    closed: int = 0

    async def receive_some(self, max_bytes: int) -> bytes:
        await trio.lowlevel.checkpoint()
        return self.inbox.pop(0)

    def receive_now(self, max_bytes: int, *, held: bool = False) -> bytes | None:
        return self.inbox.pop(0) if self.inbox else None

    def send_now(self, data: bytes) -> int:
        self.outbox.append(data)
        return len(data)

    async def send_all(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self.outbox.append(data)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
        self.closed += 1


@attrs.define
class Pipe:
    half: Half
    remote: Address

    def halves(self) -> tuple[Half, Half]:
        return self.half, self.half


@attrs.define
class Network:
    half: Half

    async def connect(self, host: str, port: int, *, local_host: str | None = None) -> Pipe:
        await trio.lowlevel.checkpoint()
        return Pipe(self.half, Address(host, port))


def watched(half: Half, gate: Gate, counted: Meter | None = None) -> Any:
    inner: Any = Network(half)
    return WatchedNetwork(inner, PORT, False, counted or meter(), gate)


async def test_an_open_link_passes_all_and_counts(autojump_clock: trio.abc.Clock) -> None:
    half, counted = Half([frame(0, 10), frame(5, 5), b""]), meter()
    stream = await watched(half, Gate(), counted).connect(HOST, PORT)
    receive, send = stream.halves()
    assert await receive.receive_some(10) == frame(0, 10)[:10]
    assert receive.receive_now(100) == frame(0, 10)[10:]
    assert await receive.receive_held(100) == frame(5, 5)
    assert await receive.receive_some(100) == b""
    assert receive.receive_now(100) is None
    assert counted.again_bytes == 5
    assert send.send_now(b"a") == 1
    await send.send_all(b"b")
    await send.aclose()
    assert (half.outbox, half.closed) == ([b"a", b"b"], 1)


async def test_nothing_passes_a_cut_link_until_it_is_healed(
    autojump_clock: trio.abc.Clock,
) -> None:
    half, gate = Half([b"early"]), Gate()
    network = watched(half, gate)
    receive, send = (await network.connect(HOST, PORT)).halves()
    gate.shut(HOST)
    for call in (
        lambda: receive.receive_some(10),
        lambda: send.send_all(b"x"),
        lambda: network.connect(HOST, PORT),
    ):
        with trio.move_on_after(100.0) as waited:
            await call()
        assert waited.cancelled_caught
    assert receive.receive_now(10) is None
    assert send.send_now(b"x") == 0
    assert half.outbox == []
    gate.open(HOST)
    assert await receive.receive_some(10) == b"early"  # nothing that came meanwhile is lost
    assert send.send_now(b"x") == 1


async def test_other_peers_and_other_ports_are_not_cut(autojump_clock: trio.abc.Clock) -> None:
    gate = Gate()
    gate.shut("10.0.0.3")
    network = watched(Half([b"x"]), gate)
    receive, _ = (await network.connect(HOST, PORT)).halves()
    assert await receive.receive_some(10) == b"x"
    gate.shut(HOST)
    assert isinstance(await network.connect(HOST, PORT + 1), Pipe)
