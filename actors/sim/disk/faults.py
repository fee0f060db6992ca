"""What can go wrong on a simulated disk, according to rules that a test or a script adds."""

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
"""The effects that occur when other programs have filled the disk."""


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
        counts: how often each kind took effect; the kinds are "operation:errno", "short_write",
            "slow_sync", "bit_rot", and those of NO_ROOM.
        on_effect: called with the kind of each operation that is about to fail.
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
            skip: how many matching operations still succeed.
            times: how many fail before the rule is removed.
            name: the rule's name, for `disarm`.
        """
        assert code > 0, code
        self._rules.append(_Rule(operation, code, path_part, skip, times, name))

    def shorten_write(self, *, path_part: str = "", skip: int = 0, name: str = "") -> None:
        """Let one write store only a part of its bytes, of random length, and raise EIO."""
        self._rules.append(_Rule("write", 0, path_part, skip, 1, name))

    def disarm(self, name: str) -> None:
        """Remove the rules of this name that have not taken effect yet."""
        self._rules[:] = [rule for rule in self._rules if rule.name != name]

    def slow_syncs(self, extra_s: float, duration_s: float) -> None:
        """Let every sync that begins in the next `duration_s` take `extra_s` longer."""
        self._slow_s = extra_s
        self._slow_until_s = trio.current_time() + duration_s

    def fill(self, duration_s: float) -> None:
        """Let other programs fill the disk for `duration_s`: there is no room for another page, nor
        for another name in a folder.
        """
        self._full_until_s = trio.current_time() + duration_s

    def use_up_inodes(self, duration_s: float) -> None:
        """Let other programs use up the inodes for `duration_s`: no file and no folder can
        be made.
        """
        self._no_inodes_until_s = trio.current_time() + duration_s

    def clear(self) -> None:
        """Remove all rules, make room, and end slow syncs."""
        self._rules.clear()
        self._slow_s = self._slow_until_s = self._full_until_s = self._no_inodes_until_s = 0.0

    @contextmanager
    def spared(self) -> Iterator[None]:
        """Suspend all rules and make room within the block, which is an operator's work: an
        operator repeats it until it succeeds, and faults are meant for the nodes.
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
        """Apply the rules to an operation. Raises: OSError: a rule makes it fail."""
        rule = self._take(operation, path, short=False)
        if rule is not None:
            self.effect(f"{operation}:{rule.code}")
            raise OSError(rule.code, os.strerror(rule.code), path)

    def short_write(self, path: str, size: int) -> int | None:
        """Return how many bytes of a write are stored, if a rule shortens it; None if no
        rule does.
        """
        if self._take("write", path, short=True) is None:
            return None
        self.effect("short_write")
        return self._rng.randrange(size)

    @property
    def is_full(self) -> bool:
        return _lasts(self._full_until_s)

    def used(self, by_nodes: float) -> float:
        """Return the share of the disk that is used, by other programs too."""
        if self.is_full:
            self.effect(FULL)  # a caller that sees this does not try to write
            return 1.0
        return min(by_nodes, 1.0)

    @property
    def lacks_inodes(self) -> bool:
        return _lasts(self._no_inodes_until_s)

    def check_room_for_name(self, path: str) -> None:
        """Check that a folder has room for another name. Raises: OSError: ENOSPC, because it has
        none.
        """
        if self.is_full:
            self.effect(FULL)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def check_room_for_file(self, path: str) -> None:
        """Check that another file can be made. Raises: OSError: ENOSPC, because it cannot."""
        self.check_room_for_name(path)
        if self.lacks_inodes:
            self.effect(NO_INODES)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def effect(self, what: str) -> None:
        """Count an operation that is about to fail, and report it."""
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
