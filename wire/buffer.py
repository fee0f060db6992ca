"""ReceiveBuffer: received chunks in order, returned in pieces that are copied only where cut.

A decoder feeds what `recv` returned and takes out headers with `take_exactly` and bodies with
`take_some`. The limit bounds the bytes not yet taken. A decoder is drained before it is fed again,
so passing the limit is our own mistake (`LocalProtocolError`); a size that a peer *announces* is
checked by the decoder against its own limit.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import Final

from wire.errors import LocalProtocolError


class NeedData(enum.Enum):
    """The type of `NEED_DATA`, which is returned until `receive_data` is called again."""

    NEED_DATA = enum.auto()


NEED_DATA: Final = NeedData.NEED_DATA


class ReceiveBuffer:
    """A queue of bytes with an upper bound.

    Args:
        limit_bytes: the most bytes that may wait here, > 0.
    """

    __slots__ = ("_chunks", "_first_at", "_limit_bytes", "_size_bytes")

    def __init__(self, limit_bytes: int) -> None:
        assert limit_bytes > 0
        self._limit_bytes = limit_bytes
        self._chunks: deque[bytes] = deque()
        self._first_at = 0  # bytes of the first chunk that were taken already
        self._size_bytes = 0

    def __len__(self) -> int:
        """Return how many bytes wait."""
        return self._size_bytes

    def append(self, data: bytes) -> None:
        """Add `data` behind what waits; empty data changes nothing.

        Raises:
            LocalProtocolError: more than the limit would wait; nothing was added.
        """
        if not data:
            return
        if self._size_bytes + len(data) > self._limit_bytes:
            raise LocalProtocolError(
                f"{self._size_bytes} bytes wait, {len(data)} more exceed {self._limit_bytes}"
            )
        self._chunks.append(data)
        self._size_bytes += len(data)

    def take_some(self, size_max: int) -> bytes:
        """Take up to `size_max` bytes of the oldest chunk, or b""; a whole chunk is not copied."""
        if size_max <= 0 or not self._chunks:
            return b""
        chunk = self._chunks[0]
        at = self._first_at
        taken = min(size_max, len(chunk) - at)
        self._size_bytes -= taken
        if at + taken < len(chunk):
            self._first_at = at + taken
            return chunk[at : at + taken]
        self._chunks.popleft()
        self._first_at = 0
        return chunk[at:] if at else chunk

    def take_exactly(self, size: int) -> bytes | None:
        """Take the oldest `size` bytes; return None, and take nothing, while fewer wait."""
        if self._size_bytes < size:
            return None
        piece = self.take_some(size)
        if len(piece) == size:
            return piece
        pieces = [piece]
        wanted = size - len(piece)
        while wanted:
            pieces.append(self.take_some(wanted))
            wanted -= len(pieces[-1])
        return b"".join(pieces)
