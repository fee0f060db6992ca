"""When the oldest file of a log may go.

Upstream: apache/rocketmq store/.../DefaultMessageStore.java, CleanCommitLogService (5.3.3);
specification section 4.11.

Differs: a disk that is too full at the start is cleaned at once, and one that fills up between two
looks as soon as a write finds no room; the disk is looked at before each deletion, so that forced
cleaning stops as soon as there is room; only files whose every byte is synced go; nobody is waited
for, because an open handle keeps a deleted file readable.
"""

from __future__ import annotations

import datetime

import attrs

from actors.config import ClassicGroup
from actors.env import Env
from actors.storage.commit_log import CommitLog

FIRST_ROUND_S = 60.0
"""Upstream's. With a shorter interval, or too full a disk, the first round comes earlier."""
FILES_PER_ROUND_MAX = 10
BETWEEN_FILES_S = 0.1
HOUR_MS = 3_600_000


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
    """Applies the rules to one log.

    Attributes:
        is_full: the disk was too full for appends at the last look.
    """

    env: Env
    log: CommitLog
    rules: Expiry
    is_full: bool = attrs.field(default=False, init=False)
    _used: float = attrs.field(default=0.0, init=False)

    def look(self) -> float:
        """Look at the disk. Gives its used share."""
        self._used = self.env.disk.usage(self.log.folder)
        self.is_full = self.rules.is_full(self._used)
        return self._used

    def full_text(self, root: str) -> str:
        """Why appends are refused, for a person."""
        return f"the disk of {root} is more than {self.rules.used_full:.0%} full"

    def first_round_s(self, interval_s: float) -> float:
        """Seconds to the first round: none if the last look found too little room."""
        return 0.0 if self.rules.is_short(self._used) else min(FIRST_ROUND_S, interval_s)

    def delete_one(self, synced_bytes: int) -> str | None:
        """Delete the oldest file if a rule says so; gives the reason.

        Never the file being written, nor one with a byte that is not synced.
        """
        log = self.log
        if len(log.bases()) < 2 or log.bases()[1] > synced_bytes:
            return None
        now_ms = self.env.wall_clock_ms()
        reason = self.rules.reason_to_delete(
            used=self._used,
            local_hour=local_hour(now_ms),
            now_ms=now_ms,
            modified_ms=self.env.disk.stat(log.path_of(log.min_bytes)).modified_ms,
        )
        if reason is not None:
            log.delete_first()
        return reason


def local_hour(wall_clock_ms: int) -> int:
    """The hour on this machine's clock, 0 to 23."""
    return datetime.datetime.fromtimestamp(wall_clock_ms / 1000).hour
