"""Decides when the oldest file of a log is deleted.

Upstream: apache/rocketmq store/.../DefaultMessageStore.java, CleanCommitLogService (5.3.3);
classic-ha.md 4.11.

Differs: a disk that is too full at the start is cleaned at once, and one that fills up between two
rounds as soon as a write finds no room. The disk is checked before each deletion, so that forced
cleaning stops as soon as there is room. Only files whose every byte is synced are deleted. Readers
are not waited for, because an open handle keeps a deleted file readable. The dispatcher is, unless
the disk is too full for that.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from typing import TypeVar

import attrs

from actors.config import CommitLogGroup
from actors.config.bounds import ROOM_LOOK_S
from actors.env import Env
from actors.events import store as events
from actors.readable import size
from actors.storage.commitlog.recovery import first_store_ts
from actors.storage.files.room import NO_ROOM, NoRoom, lacks, why_no_room
from actors.storage.log.commit_log import CommitLog

T = TypeVar("T")

FIRST_ROUND_S = 60.0
"""Upstream's delay of the first round, in seconds. With a shorter interval, or too full a disk, the
first round comes earlier.
"""
FILES_PER_ROUND_MAX = 10
BETWEEN_FILES_S = 0.1
HOUR_MS = 3_600_000
APART_MS = 24 * HOUR_MS
"""Times that differ by more cannot be explained by two clocks, or by a clock that was set."""
OVERDUE_MS = 48 * HOUR_MS
"""How long after its time a file should be deleted at the latest: by then every hour of
`delete_when` has come, and the dispatcher has read the file.
"""
_LOGGER = logging.getLogger("triolog.storage")


@attrs.frozen(kw_only=True)
class Expiry:
    """The rules of one group. All ratios are used shares of the disk, 0.0 to 1.0.

    Attributes:
        reserved_ms: the age at which a file expires.
        hours: the local hours in which expired files are deleted.
        used_max: above this share they are deleted at any hour.
        used_forcibly: above this share files are deleted whatever their age.
        used_full: above this share appends are refused.
    """

    reserved_ms: int
    hours: tuple[int, ...]
    used_max: float
    used_forcibly: float
    used_full: float

    @classmethod
    def of(cls, group: CommitLogGroup) -> Expiry:
        """Return the rules as configured."""
        return cls(
            reserved_ms=group.file_reserved_time_h * HOUR_MS,
            hours=group.delete_when_hours,
            used_max=group.disk_max_used_ratio,
            used_forcibly=group.disk_clean_forcibly_ratio,
            used_full=group.disk_full_ratio,
        )

    @classmethod
    def never(cls, group: CommitLogGroup) -> Expiry:
        """Return the rules of a log whose files are never deleted."""
        ever = 1 << 62
        full = group.disk_full_ratio
        return cls(reserved_ms=ever, hours=(), used_max=ever, used_forcibly=ever, used_full=full)

    @property
    def deletes(self) -> bool:
        """Whether any file may ever be deleted."""
        return bool(self.hours)

    def is_full(self, used: float) -> bool:
        """Return whether appends are refused at this used share of the disk."""
        return used > self.used_full

    def is_short(self, used: float) -> bool:
        """Return whether files may be deleted at any hour at this used share of the disk."""
        return used > min(self.used_max, self.used_forcibly)

    def reason_to_delete(
        self, *, used: float, local_hour: int, now_ms: int, modified_ms: int | None
    ) -> str | None:
        """Return why the oldest file is deleted now: "usage" or "age"; None if it stays.

        Args:
            used: the used share of the disk.
            local_hour: the hour on this machine's clock, 0 to 23.
            now_ms: the wall clock now.
            modified_ms: when the file was last written; None if that is unknown.
        """
        if used > self.used_forcibly:
            return "usage"
        if local_hour not in self.hours and used <= self.used_max:
            return None
        is_old = modified_ms is not None and now_ms - modified_ms >= self.reserved_ms
        return "age" if is_old else None


@attrs.frozen(kw_only=True)
class CleanDue:
    """Timer: check the disk, and the age of the oldest file.

    Attributes:
        deleted: how many files were deleted in this round.
        looks: how often the disk was checked since the round because it has no room; no files are
            deleted then.
    """

    deleted: int = 0
    looks: int = 0


@attrs.define(kw_only=True)
class Rounds:
    """Times the rounds in which a store deletes files, one after the other.

    As long as the disk has no room it is checked between the rounds, too, but no file is deleted
    then, because each round may delete so many that all would soon be gone.

    Attributes:
        interval_s: the time between two rounds.
        start: starts the store's timer, and replaces the one that runs.
    """

    interval_s: float
    start: Callable[[float, CleanDue], None]
    _goes_on: bool = attrs.field(default=False, init=False)

    def begin(self, within_s: float) -> None:
        """Start the timer of the first round, which begins after `within_s` seconds."""
        self.start(within_s, CleanDue())

    def hurry(self) -> None:
        """Begin a round now, because the disk has filled up; leave one under way as it is."""
        if not self._goes_on:
            self._goes_on = True
            self.start(0.0, CleanDue())

    def looked(self, due: CleanDue, *, has_gone: bool, has_room: bool) -> None:
        """Set the timer again: soon after a deletion or without room, else for the next round."""
        self._goes_on = has_gone
        left_s = self.interval_s - due.looks * ROOM_LOOK_S
        if has_gone:
            self.start(BETWEEN_FILES_S, CleanDue(deleted=due.deleted + 1))
        elif has_room or left_s <= ROOM_LOOK_S:
            self.start(left_s, CleanDue())
        else:
            self.start(ROOM_LOOK_S, CleanDue(looks=due.looks + 1))


@attrs.define(kw_only=True)
class Cleaner:
    """Applies the rules to one log.

    It emits an event and logs a warning when the disk has no room any more, and when it has some
    again.

    Attributes:
        root: the store's folder, for people.
        owner: node and group, for people.
        emit: takes events; None: there are none.
        needs_next: whether the deletion of the oldest file needs to read where the next one begins.
        floor_bytes: the files from this offset on stay, unless the disk is too full for that.
        is_full: whether the disk was too full for appends at the last look.
        stands_still: why files stay that should have been deleted, for people; "" if none do.
        lacks: what lacks room, for people; "" if nothing does.
    """

    env: Env
    log: CommitLog
    rules: Expiry
    root: str
    owner: str = ""
    emit: Callable[[object], None] | None = None
    needs_next: bool = False
    floor_bytes: int = 1 << 62
    is_full: bool = attrs.field(default=False, init=False)
    stands_still: str = attrs.field(default="", init=False)
    _unreadable: str = attrs.field(default="", init=False)
    _used: float = attrs.field(default=0.0, init=False)
    _free_bytes: int = attrs.field(default=0, init=False)
    lacks: str = attrs.field(default="", init=False)
    _by_write: bool = attrs.field(default=False, init=False)
    # of the last write that found no room: the disk then, what it asked for, and where it ended
    _used_then: float = attrs.field(default=0.0, init=False)
    _no_files: bool = attrs.field(default=False, init=False)
    _wanted_bytes: int = attrs.field(default=0, init=False)
    _end_bytes: int = attrs.field(default=0, init=False)

    @classmethod
    def of(
        cls,
        env: Env,
        log: CommitLog,
        rules: Expiry,
        *,
        owner: str,
        root: str,
        emit: Callable[[object], None],
    ) -> Cleaner:
        """Return the cleaner of a group's log, which deletes nothing until its floor is set."""
        return cls(env=env, log=log, rules=rules, root=root, owner=owner, emit=emit, floor_bytes=0)

    def look(self) -> None:
        """Check the disk, and whether old files stay that should have been deleted.

        After a write that found no room, there counts as room again once the disk is less full than
        it was then, and has what that write asked for, because the next write may come much later.
        """
        self._used = self.env.disk.usage(self.log.folder)
        self._free_bytes = self.env.disk.free_bytes(self.log.folder)
        files = self.env.disk.free_files(self.log.folder)
        fits = self._used < self._used_then and self._free_bytes >= self._wanted_bytes
        if self._by_write and (fits or (self._no_files and files != 0)):
            self._by_write = False
        self.is_full = self.rules.is_full(self._used)
        if self.is_full:
            self._report(self.full_text())
        elif not self._by_write:
            self._report("")
        self._say_stands_still(self._why_old_files_stay())

    def no_room(self, error: NoRoom, end_bytes: int) -> str:
        """Note that a write, which would have ended at this offset, found no room.

        Returns: why, for people.
        """
        rules, self._by_write = self.rules, True
        self._wanted_bytes, self._end_bytes = error.wanted_bytes, end_bytes
        disk, folder = self.env.disk, self.log.folder
        self._used = self._used_then = disk.usage(folder)
        self._no_files = disk.free_files(folder) == 0
        reason = why_no_room(disk, folder, error)
        if not self._no_files and rules.deletes:
            reason += (
                f": expired files go at any hour above {rules.used_max:.0%},"
                f" others above {rules.used_forcibly:.0%}"
            )
        self._report(reason)
        return reason

    def wrote(self) -> None:
        """Note that a write found room.

        One that ends before the last one that found none has proved nothing: it may have found its
        room in what was reserved before.
        """
        if self._by_write and self.log.written_bytes >= self._end_bytes:
            self._by_write = False
            self._report(self.full_text() if self.is_full else "")

    def full_text(self) -> str:
        """Describe, for people, why appends are refused."""
        return self._full_text(self._used, self._free_bytes)

    def _full_text(self, used: float, free_bytes: int) -> str:
        most, free = f"more than {self.rules.used_full:.0%} full", f"{size(free_bytes)} free"
        return f"{NO_ROOM}the disk of {self.root} is {most} ({used:.0%}, {free})"

    def lacks_next(self) -> str:
        """Return why the log will soon take nothing more, for people; "" if it goes on.

        A look at the disk may be a round old, and a log goes on in what is reserved for it. So this
        looks anew, and asks for what the log reserves next. A disk that does not tell ends nothing
        here: a write will find out.
        """
        if self.lacks:
            return self.lacks
        disk, folder, wanted_bytes = self.env.disk, self.log.folder, self.log.wants_bytes
        try:
            free_bytes = disk.free_bytes(folder)
            if free_bytes < wanted_bytes or disk.free_files(folder) == 0:
                return NO_ROOM + lacks(disk, folder, wanted_bytes)
            used = disk.usage(folder)
        except OSError:
            return ""
        return self._full_text(used, free_bytes) if self.rules.is_full(used) else ""

    def _report(self, reason: str) -> None:
        if self.emit is None or bool(reason) == bool(self.lacks):
            return
        self.lacks = reason
        self.emit(
            events.DiskUsageChanged(is_full=bool(reason), used_ratio=self._used, reason=reason)
        )
        _LOGGER.warning("%s: %s", self.owner, reason or "the disk has room again")

    def readable(self, read: Callable[[], T]) -> T | None:
        """Read what a deletion depends on.

        Returns: what `read` returns; None if it raises OSError, because of a bad sector.

        Raises: the other errors of `read`.
        """
        try:
            found = read()
        except OSError as error:
            self.cannot_read(error)
            return None
        self.can_read()
        return found

    def cannot_read(self, error: OSError) -> None:
        """Note that the oldest file stays, as what its deletion depends on is on a bad sector."""
        self._unreadable = f"{error.filename} cannot be read: {error.strerror}"
        self._say_stands_still(self._why_old_files_stay())

    def can_read(self) -> None:
        """Note that what a deletion depends on was read."""
        self._unreadable = ""

    def first_round_s(self, interval_s: float) -> float:
        """Return the seconds until the first round: 0 if the disk had too little room."""
        return 0.0 if self.rules.is_short(self._used) else min(FIRST_ROUND_S, interval_s)

    def due(self, synced_bytes: int, *, deleted: int = 0, reason: str | None = None) -> str | None:
        """Return why the oldest file is deleted now; None if it stays.

        The file that is being written always stays, and so does a file with a byte that is not
        synced. Every file stays once a round has deleted FILES_PER_ROUND_MAX.

        Args:
            synced_bytes: the end of the synced part of the log.
            deleted: how many files were deleted in this round.
            reason: why it is deleted whatever the rules say; None: the rules decide.
        """
        log = self.log
        if len(log.bases()) < 2 or log.bases()[1] > synced_bytes:
            return None
        if deleted >= FILES_PER_ROUND_MAX or self._lacks_next():
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
            modified_ms=self._oldest_ms(now_ms),
        )

    def _oldest_ms(self, now_ms: int) -> int | None:
        """Return when the oldest file of several was last written; None if that is unknown.

        Its own time is used if nothing contradicts it: it is not in the future, the next file is
        not older, and the file is not younger than its first record. Otherwise the time of the
        next file's first record is used, or else the time of that file. A record that cannot be
        read is ignored.
        """
        disk, log = self.env.disk, self.log
        first, second = log.bases()[:2]
        own, following = (disk.stat(log.path_of(base)).modified_ms for base in (first, second))
        begun, stored = (self._begun_ms(base) or 0 for base in (first, second))
        latest = now_ms + APART_MS
        earliest = begun - APART_MS if begun <= latest else 0
        believed = [own] if own <= following + APART_MS else []
        believed += [stored] if stored else []
        found = [ms for ms in (*believed, following) if earliest <= ms <= latest]
        return found[0] if found else None

    def _begun_ms(self, base: int) -> int | None:
        """Return when a file's first record was stored; 0 without a record, None on a bad sector.

        A bad sector does not end the node here; an actor that needs the record will find it.
        """
        try:
            return first_store_ts(self.env.disk, self.log, base)
        except OSError:
            return None

    def _lacks_next(self) -> bool:
        """Return whether the beginning of the next file is needed and cannot be read."""
        return self.needs_next and self._begun_ms(self.log.bases()[1]) is None

    def _why_old_files_stay(self) -> str:
        """Describe, for people, why old files stay that the rules would delete; "" if none do."""
        bases = self.log.bases()
        if len(bases) < 2 or bases[1] > self.log.written_bytes:
            return ""  # the one that is written
        if self._lacks_next():
            return (
                f"no log file expires: {self.log.path_of(bases[1])} cannot be read where it begins,"
                " and so where the log would: replace the disk"
            )
        if self._unreadable:
            return f"no log file expires: {self._unreadable}: replace the disk"
        now_ms = self.env.wall_clock_ms()
        path, modified_ms = self.log.path_of(bases[0]), self._oldest_ms(now_ms)
        if modified_ms is None:
            return (
                f"no log file expires: {path} is dated in the future, or long before its records,"
                " and so is what follows: set its time (touch), or remove it with the node stopped"
            )
        overdue_ms = now_ms - modified_ms - self.rules.reserved_ms
        if overdue_ms < OVERDUE_MS or bases[1] <= self.floor_bytes:
            return ""
        return (
            f"no log file expires: {path} should have gone {overdue_ms // HOUR_MS} hours ago, and"
            " waits for its queues and index to be derived"
        )

    def _say_stands_still(self, why: str) -> None:
        if bool(why) != bool(self.stands_still):
            _LOGGER.warning("%s: %s", self.owner, why or "log files expire again")
        self.stands_still = why

    @property
    def _is_pressed(self) -> bool:
        """Whether there is too little room to wait for the dispatcher, which may need room, too."""
        return self.is_full or self._by_write or self._used > self.rules.used_forcibly


def local_hour(wall_clock_ms: int) -> int:
    """Return the hour on this machine's clock, 0 to 23."""
    return datetime.datetime.fromtimestamp(wall_clock_ms / 1000).hour
