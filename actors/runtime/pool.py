"""Pool: bytes that many tasks share; each takes some and gives them back.

First come, first served, in two lines: of those who take first, and of the others, who get nothing
while one of the former waits, nor ever the last `reserved_bytes`.
"""

from __future__ import annotations

from collections import deque

import attrs
import trio


@attrs.define(eq=False)
class _Turn:
    size_bytes: int
    granted: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False)
class Pool:
    """See the module's text.

    Attributes:
        total_bytes: how many bytes there are.
        reserved_bytes: how many of them are kept for callers with `first`; 0 .. total_bytes.
    """

    total_bytes: int
    reserved_bytes: int = 0
    free_bytes: int = attrs.field(init=False)
    _first: deque[_Turn] = attrs.field(factory=deque, init=False)
    _others: deque[_Turn] = attrs.field(factory=deque, init=False)

    def __attrs_post_init__(self) -> None:
        assert 0 <= self.reserved_bytes <= self.total_bytes
        self.free_bytes = self.total_bytes

    async def take(self, size_bytes: int, *, first: bool = False) -> None:
        """Take `size_bytes`; wait until they are free and the caller's turn has come."""
        assert 0 <= size_bytes <= self.total_bytes - self._kept_bytes(first)
        if self.take_now(size_bytes, first=first):
            return
        turn, line = _Turn(size_bytes), self._line(first)
        line.append(turn)
        kept = False
        try:
            await turn.granted.wait()
            kept = True
        finally:
            if not kept:
                self._withdraw(turn, line)

    def take_now(self, size_bytes: int, *, first: bool = False) -> bool:
        """Take `size_bytes` without waiting.

        Returns: False if they are not free, or a caller waits who comes before; nothing is taken.
        """
        if self._first or (self._others and not first):
            return False
        if size_bytes > self.free_bytes - self._kept_bytes(first):
            return False
        self.free_bytes -= size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        assert 0 <= size_bytes <= self.total_bytes - self.free_bytes
        self.free_bytes += size_bytes
        self._grant()

    def _line(self, first: bool) -> deque[_Turn]:
        return self._first if first else self._others

    def _kept_bytes(self, first: bool) -> int:
        return 0 if first else self.reserved_bytes

    def _withdraw(self, turn: _Turn, line: deque[_Turn]) -> None:
        """Give up the turn of a cancelled task, which may have been granted the bytes already."""
        if turn.granted.is_set():
            self.free_bytes += turn.size_bytes
        else:
            line.remove(turn)
        self._grant()

    def _grant(self) -> None:
        for first in (True, False):
            line, kept_bytes = self._line(first), self._kept_bytes(first)
            while line and line[0].size_bytes <= self.free_bytes - kept_bytes:
                turn = line.popleft()
                self.free_bytes -= turn.size_bytes
                turn.granted.set()
            if line:
                return
