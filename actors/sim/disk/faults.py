"""What can go wrong on a simulated disk, injected by rule."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

import attrs
import trio

Operation: TypeAlias = Literal["read", "write", "sync", "create", "prepare", "rename"]


FULL: Final = "full"
NO_INODES: Final = "no_inodes"
NO_ROOM: Final = (FULL, NO_INODES)
"""What takes effect when somebody else has filled the disk."""


def _lasts(until_s: float) -> bool:
    return until_s > 0.0 and trio.current_time() < until_s


@attrs.define(eq=False)
class _Rule:
    operation: Operation
    code: int  # errno; 0: a short write
    path_part: str
    skip: int
    times: int
    name: str


class DiskFaults:
    """Rules that make operations fail, and slow syncs.

    Attributes:
        counts: how often each kind took effect, by "operation:errno", "short_write",
            "slow_sync", "bit_rot", and NO_ROOM's.
        on_effect: called with each operation that fails, before it does.
    """

    def __init__(self, rng: random.Random) -> None:
        self.counts: dict[str, int] = {}
        self.on_effect: Callable[[str], None] = lambda what: None
        self._rng = rng
        self._rules: list[_Rule] = []
        self._slow_s = 0.0
        self._slow_until_s = 0.0
        self._full_until_s = 0.0
        self._no_inodes_until_s = 0.0

    def fail(
        self,
        operation: Operation,
        code: int,
        *,
        path_part: str = "",
        skip: int = 0,
        times: int = 1,
        name: str = "",
    ) -> None:
        """Let `operation` fail with `code` (an errno) on paths that contain `path_part`.

        Args:
            skip: this many matching operations still work.
            times: so many fail; then the rule is gone.
            name: for `disarm`.
        """
        assert code > 0, code
        self._rules.append(_Rule(operation, code, path_part, skip, times, name))

    def shorten_write(self, *, path_part: str = "", skip: int = 0, name: str = "") -> None:
        """Let one write store only a part of its bytes, chosen by chance, and raise EIO."""
        self._rules.append(_Rule("write", 0, path_part, skip, 1, name))

    def disarm(self, name: str) -> None:
        """Forget the rules of this name that have not taken effect yet."""
        self._rules[:] = [rule for rule in self._rules if rule.name != name]

    def slow_syncs(self, extra_s: float, duration_s: float) -> None:
        """Every sync that begins in the next `duration_s` takes `extra_s` longer."""
        self._slow_s = extra_s
        self._slow_until_s = trio.current_time() + duration_s

    def fill(self, duration_s: float) -> None:
        """Somebody else fills the disk: for so long there is no room for one more page, nor for one
        more name in a folder.
        """
        self._full_until_s = trio.current_time() + duration_s

    def use_up_inodes(self, duration_s: float) -> None:
        """Somebody else makes files: for so long there is none for another file or folder."""
        self._no_inodes_until_s = trio.current_time() + duration_s

    def clear(self) -> None:
        """Forget all rules, have room, and be fast again."""
        self._rules.clear()
        self._slow_s = self._slow_until_s = self._full_until_s = self._no_inodes_until_s = 0.0

    @contextmanager
    def spared(self) -> Iterator[None]:
        """An operator's work, who tries until it succeeds, and makes room: faults are for the
        nodes.
        """
        rules, self._rules = self._rules, []
        until_s = self._full_until_s, self._no_inodes_until_s
        self._full_until_s = self._no_inodes_until_s = 0.0
        try:
            yield
        finally:
            self._rules = rules
            self._full_until_s, self._no_inodes_until_s = until_s

    # For the disk.

    def check(self, operation: Operation, path: str) -> None:
        """Raises: OSError, if a rule says so."""
        rule = self._take(operation, path, short=False)
        if rule is not None:
            self.effect(f"{operation}:{rule.code}")
            raise OSError(rule.code, os.strerror(rule.code), path)

    def short_write(self, path: str, size: int) -> int | None:
        """How many bytes of a write arrive, if a rule shortens it."""
        if self._take("write", path, short=True) is None:
            return None
        self.effect("short_write")
        return self._rng.randrange(size)

    @property
    def is_full(self) -> bool:
        return _lasts(self._full_until_s)

    def used(self, by_nodes: float) -> float:
        """The share of the disk that is used, by others too."""
        if self.is_full:
            self.effect(FULL)  # who sees it does without a write
            return 1.0
        return min(by_nodes, 1.0)

    @property
    def lacks_inodes(self) -> bool:
        return _lasts(self._no_inodes_until_s)

    def check_room_for_name(self, path: str) -> None:
        """Raises: OSError ENOSPC."""
        if self.is_full:
            self.effect(FULL)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def check_room_for_file(self, path: str) -> None:
        """Raises: OSError ENOSPC."""
        self.check_room_for_name(path)
        if self.lacks_inodes:
            self.effect(NO_INODES)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def effect(self, what: str) -> None:
        """An operation is about to fail."""
        self.count(what)
        self.on_effect(what)

    def sync_delay_s(self) -> float:
        if trio.current_time() < self._slow_until_s:
            self.count("slow_sync")
            return self._slow_s
        return 0.0

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def _take(self, operation: Operation, path: str, *, short: bool) -> _Rule | None:
        for rule in self._rules:
            matches = rule.operation == operation and (rule.code == 0) == short
            if not matches or rule.path_part not in path:
                continue
            if rule.skip:
                rule.skip -= 1
                continue
            rule.times -= 1
            if rule.times == 0:
                self._rules.remove(rule)
            return rule
        return None
