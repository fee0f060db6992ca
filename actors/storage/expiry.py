"""When the oldest file of a log may go.

Upstream: apache/rocketmq store/.../DefaultMessageStore.java, CleanCommitLogService (5.3.3);
specification section 4.11.

Differs: a disk that is too full at the start is cleaned at once, and one that fills up between two
looks as soon as a write finds no room; the disk is looked at before each deletion, so that forced
cleaning stops as soon as there is room; only files whose every byte is synced go; readers are not
waited for, because an open handle keeps a deleted file readable, but the dispatcher is, unless the
disk is too full for that.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable

import attrs

from actors.config import ClassicGroup
from actors.env import Env
from actors.events import store as events
from actors.storage.commit_log import CommitLog, NoRoom

FIRST_ROUND_S = 60.0
"""Upstream's. With a shorter interval, or too full a disk, the first round comes earlier."""
FILES_PER_ROUND_MAX = 10
BETWEEN_FILES_S = 0.1
HOUR_MS = 3_600_000
NO_ROOM = "no room: "
"""How every reason begins for which a log takes nothing until its disk has room."""
_LOGGER = logging.getLogger("triolog.storage")


@attrs.frozen(kw_only=True)
class Expiry:
    """The rules of one group. All ratios are used shares of the disk, 0.0 to 1.0.

    Attributes:
        reserved_ms: age at which a file expires.
        hours: local hours in which expired files go.
        used_max: above it they go at any hour.
        used_forcibly: above it files go whatever their age.
        used_full: above it appends are refused.
    """

    reserved_ms: int
    hours: tuple[int, ...]
    used_max: float
    used_forcibly: float
    used_full: float

    @classmethod
    def of(cls, group: ClassicGroup) -> Expiry:
        """The rules as configured."""
        return cls(
            reserved_ms=group.file_reserved_time_h * HOUR_MS,
            hours=group.delete_when_hours,
            used_max=group.disk_max_used_ratio,
            used_forcibly=group.disk_clean_forcibly_ratio,
            used_full=group.disk_full_ratio,
        )

    def is_full(self, used: float) -> bool:
        """Whether appends are refused."""
        return used > self.used_full

    def is_short(self, used: float) -> bool:
        """Whether some files may go at any hour."""
        return used > min(self.used_max, self.used_forcibly)

    def reason_to_delete(
        self, *, used: float, local_hour: int, now_ms: int, modified_ms: int
    ) -> str | None:
        """Why the oldest file goes now: "usage", "age", or None if it stays."""
        if used > self.used_forcibly:
            return "usage"
        if local_hour not in self.hours and used <= self.used_max:
            return None
        return "age" if now_ms - modified_ms >= self.reserved_ms else None


@attrs.define(kw_only=True)
class Cleaner:
    """Applies the rules to one log, and tells once, by an event and in the program's log, that it
    finds no room, and once that it does again.

    Attributes:
        root: the store's folder, for people.
        owner: node and group, for people.
        emit: takes events; None: nobody is told.
        floor_bytes: files from here on stay, unless the disk is too full for that.
        is_full: the disk was too full for appends at the last look.
    """

    env: Env
    log: CommitLog
    rules: Expiry
    root: str
    owner: str = ""
    emit: Callable[[object], None] | None = None
    floor_bytes: int = 1 << 62
    is_full: bool = attrs.field(default=False, init=False)
    _used: float = attrs.field(default=0.0, init=False)
    _lacks: str = attrs.field(default="", init=False)
    _by_write: bool = attrs.field(default=False, init=False)

    @classmethod
    def of(
        cls,
        env: Env,
        log: CommitLog,
        group: ClassicGroup,
        *,
        node: str,
        root: str,
        emit: Callable[[object], None],
    ) -> Cleaner:
        """That of a group's log on a node; no file may go until its floor is set."""
        rules, owner = Expiry.of(group), f"{node}: {group.name}"
        return cls(env=env, log=log, rules=rules, root=root, owner=owner, emit=emit, floor_bytes=0)

    def look(self) -> None:
        """Look at the disk."""
        self._used = self.env.disk.usage(self.log.folder)
        self.is_full = self.rules.is_full(self._used)
        if self.is_full:
            self._tell(self.full_text())
        elif not self._by_write:
            self._tell("")

    def no_room(self, error: NoRoom) -> str:
        """A write found none, whatever share of the disk is used. Gives why, for a person."""
        rules, self._by_write = self.rules, True
        self._used = self.env.disk.usage(self.log.folder)
        reason = (
            f"{NO_ROOM}{error}; the disk is {self._used:.0%} full: expired files go at any hour"
            f" above {rules.used_max:.0%}, others above {rules.used_forcibly:.0%}"
        )
        self._tell(reason)
        return reason

    def wrote(self) -> None:
        """A write found room."""
        if self._by_write:
            self._by_write = False
            self._tell(self.full_text() if self.is_full else "")

    def full_text(self) -> str:
        """Why appends are refused, for a person."""
        most = f"more than {self.rules.used_full:.0%} full"
        return f"{NO_ROOM}the disk of {self.root} is {most} ({self._used:.0%})"

    def _tell(self, reason: str) -> None:
        if self.emit is None or bool(reason) == bool(self._lacks):
            return
        self._lacks = reason
        self.emit(
            events.DiskUsageChanged(is_full=bool(reason), used_ratio=self._used, reason=reason)
        )
        _LOGGER.warning("%s: %s", self.owner, reason or "there is room again")

    def first_round_s(self, interval_s: float) -> float:
        """Seconds to the first round: none if the last look found too little room."""
        return 0.0 if self.rules.is_short(self._used) else min(FIRST_ROUND_S, interval_s)

    def due(self, synced_bytes: int, *, reason: str | None = None) -> str | None:
        """Why the oldest file goes now; None: it stays. The file being written always does, and one
        with a byte that is not synced.

        Args:
            reason: why it goes whatever the rules say; None: they decide.
        """
        log = self.log
        if len(log.bases()) < 2 or log.bases()[1] > synced_bytes:
            return None
        if reason is not None:
            return reason
        if log.bases()[1] > self.floor_bytes and not self._is_pressed:
            return None
        now_ms = self.env.wall_clock_ms()
        return self.rules.reason_to_delete(
            used=self._used,
            local_hour=local_hour(now_ms),
            now_ms=now_ms,
            modified_ms=self.env.disk.stat(log.path_of(log.min_bytes)).modified_ms,
        )

    @property
    def _is_pressed(self) -> bool:
        """Whether there is too little room to wait for anybody, who may need some for itself."""
        return self.is_full or self._by_write or self._used > self.rules.used_forcibly


def local_hour(wall_clock_ms: int) -> int:
    """The hour on this machine's clock, 0 to 23."""
    return datetime.datetime.fromtimestamp(wall_clock_ms / 1000).hour
