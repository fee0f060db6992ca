"""What a slave's feeder hands over at once."""

from __future__ import annotations

import attrs
import pytest
import trio

from actors.env.protocols import Held
from actors.ha.client_messages import raw_append
from actors.ha.core.slave_progress import Append
from actors.ha.frame_reader import TURN_BYTES, FrameReader
from actors.sim.disk.disk import SimHeld
from wire.ha.classic import FRAME_HEADER, encode_frame_header
from wire.ha.frames import FrameMeter

LARGE = 100


@attrs.define
class Stream:
    """Has `data`; each wait or look takes what is asked for, and `ends` comes behind all."""

    data: bytes
    ends: bytes | Exception | None = None
    waits: int = 0
    hold_from_bytes = LARGE

    async def receive_some(self, max_bytes: int) -> bytes:
        return self._take(max_bytes)

    async def receive_held(self, max_bytes: int) -> bytes | Held:
        data = self._take(max_bytes)
        return SimHeld(data) if data else data

    def _take(self, max_bytes: int) -> bytes:
        self.waits += 1
        assert self.data or self.ends == b""
        data, self.data = self.data[:max_bytes], self.data[max_bytes:]
        return data

    def receive_now(self, max_bytes: int, *, held: bool = False) -> bytes | Held | None:
        if not self.data:
            if isinstance(self.ends, Exception):
                raise self.ends
            return self.ends
        data, self.data = self.data[:max_bytes], self.data[max_bytes:]
        return SimHeld(data) if held else data


def frame(offset: int, size: int) -> bytes:
    return encode_frame_header(offset, size) + b"x" * size


def shapes(pieces: tuple[bytes | Held, ...]) -> list[tuple[bool, int]]:
    return [(isinstance(piece, bytes), len(piece)) for piece in pieces]


async def test_all_that_is_there_comes_at_once() -> None:
    stream = Stream(frame(0, 200) + frame(200, 300) + frame(500, 7), ends=b"")
    reader = FrameReader(stream, FrameMeter(FRAME_HEADER))  # type: ignore[arg-type]
    # The first read knows nothing of a large frame; behind one just the next header is read.
    assert shapes(await reader.receive()) == [(True, len(frame(0, 200) + frame(200, 300)) + 19)]
    stream.data = frame(507, 200)
    assert shapes(await reader.receive()) == [(True, 212)]
    stream.data = frame(707, 200) + frame(907, 300)
    found = [(True, 12), (False, 200), (True, 12), (False, 300)]
    assert shapes(await reader.receive()) == found
    assert await reader.receive() == ()
    assert stream.waits == 4


async def test_a_turn_is_bounded() -> None:
    stream = Stream(frame(0, LARGE))
    reader = FrameReader(stream, FrameMeter(FRAME_HEADER))  # type: ignore[arg-type]
    await reader.receive()
    half = TURN_BYTES // 2
    stream.data = frame(0, half) + frame(half, half) + frame(TURN_BYTES, LARGE)
    assert shapes(await reader.receive()) == 2 * [(True, 12), (False, half)]
    assert shapes(await reader.receive()) == [(True, 12), (False, LARGE)]


async def test_what_came_before_an_error_is_handed_over_first() -> None:
    broken = trio.BrokenResourceError("reset")
    stream = Stream(frame(0, 5), ends=broken)
    reader = FrameReader(stream, FrameMeter(FRAME_HEADER))  # type: ignore[arg-type]
    assert shapes(await reader.receive()) == [(True, 17)]
    with pytest.raises(trio.BrokenResourceError, match="reset"):
        await reader.receive()


def test_pieces_of_small_frames_become_one_append() -> None:
    pieces = (Append(10, b"ab", True), Append(12, b"c", True), Append(13, b"d", False))
    joined = raw_append(1, pieces, None)
    assert (joined.offset_bytes, joined.data, joined.ends_frame) == (10, b"abcd", True)
    held = SimHeld(b"xyz")
    alone = raw_append(1, (Append(10, None, False),), held)
    assert (alone.data, alone.ends_frame) == (held, False)


async def test_a_turn_may_be_shorter() -> None:
    stream = Stream(frame(0, 150) * 20, ends=b"")
    reader = FrameReader(stream, FrameMeter(FRAME_HEADER), turn_bytes=200)  # type: ignore[arg-type]
    await reader.receive()  # all that was there at first is one read
    stream.data = frame(0, 150) * 20
    assert 200 <= sum(map(len, await reader.receive())) < 400
