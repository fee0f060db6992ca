"""Notices that a disk has no room, says so for people, and waits for some.

A file system may lack bytes, or inodes: then it takes no new file however empty it is. Whoever
finds no room has changed nothing, says so once, and tries again until somebody has made some.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import attrs
import trio

from actors.env.protocols import Disk
from actors.errors import NO_ROOM_CODES, LogFull, NoRoomToStart
from actors.events.store import DiskUsageChanged
from actors.readable import size
from actors.runtime import ActorRef
from actors.storage.files.stepping import stepped

NO_ROOM: Final = "no room: "
"""How every reason begins for which something waits until its disk has room."""


LACKS_ROOM: Final = "its disk has no room"


def room_text(reason: str) -> str:
    """Say, for people, what a reason that begins with NO_ROOM asks for, and what follows then."""
    rest = reason.removeprefix(NO_ROOM)
    return f"{LACKS_ROOM}; make some, and it goes on by itself: {rest}"


ROOM_PAUSE_S: Final = 1.0
"""A full disk stays so for a while: a log is cleaned, or somebody makes room."""
_LOGGER = logging.getLogger("triolog.storage")
T = TypeVar("T")


class NoRoom(OSError):
    """The disk has no room for what was to be written. What was there before is as it was.

    Attributes:
        wanted_bytes: how many bytes of the disk were asked for at once; 0: nobody counted.
    """

    wanted_bytes: int = 0


@contextmanager
def needing_room(wanted_bytes: int = 0) -> Iterator[None]:
    """Raises: NoRoom instead of the system's error; another OSError as it is."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM_CODES and not isinstance(error, NoRoom):
            lack = NoRoom(error.errno, error.strerror, error.filename)
            lack.wanted_bytes = wanted_bytes
            raise lack from error
        raise


FULL: Final = 0.995
"""So much of a disk is used where it is called 100% full."""


def is_full(disk: Disk, path: str) -> bool:
    """Whether the file system of `path` has no room to speak of."""
    return disk.free_files(path) == 0 or disk.usage(path) >= FULL


def lacks(disk: Disk, path: str, wanted_bytes: int = 0) -> str:
    """What the file system of `path` lacks: "the disk is 99% full, 3 MiB free, 16 MiB wanted".

    Args:
        wanted_bytes: how many bytes are to be had at once; 0: nobody has counted them.
    """
    if disk.free_files(path) == 0:
        return "the disk has no inode left for another file, however empty it is"
    wanted = f", {size(wanted_bytes)} wanted" if wanted_bytes else ""
    return f"the disk is {disk.usage(path):.0%} full, {size(disk.free_bytes(path))} free{wanted}"


def why_no_room(disk: Disk, path: str, error: Exception) -> str:
    """The reason for people, beginning with NO_ROOM."""
    text = str(error).removeprefix(NO_ROOM)
    wanted_bytes = error.wanted_bytes if isinstance(error, NoRoom) else 0
    return f"{NO_ROOM}{text}; {lacks(disk, path, wanted_bytes)}"


def why_failed(disk: Disk, path: str, error: OSError) -> str:
    """For people: why an access failed, for any error of a disk."""
    return why_no_room(disk, path, error) if error.errno in NO_ROOM_CODES else str(error)


@contextmanager
def room_to_start(disk: Disk, path: str) -> Iterator[None]:
    """Raises: NoRoomToStart instead of the system's error; another OSError as it is.

    Args:
        path: what a start writes to, for people.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM_CODES:
            raise NoRoomToStart(f"{path}: {why_no_room(disk, path, error)}") from error
        raise


@attrs.frozen
class OpeningWaits:
    """A log that opens waits for room. `reason`: why, for people; "": it does not any more."""

    reason: str


@attrs.frozen(kw_only=True)
class Room:
    """Opens a store, and waits while the disk has no room for that.

    Attributes:
        path: the store's path.
        owner: node and group, for people.
        keeper: the role keeper, which is sent why it waits, and that it does not any more.
    """

    disk: Disk
    path: str
    owner: str
    keeper: ActorRef[OpeningWaits] | None = None

    async def wait(
        self, attempt: Callable[[], Generator[None, None, T]], emit: Callable[[object], None]
    ) -> T:
        """Return the result of `attempt`, which is made again and again while it finds no room.

        Args:
            attempt: may be made again after it has raised NoRoom or LogFull, as after a kill.
            emit: takes DiskUsageChanged, when it begins to wait and when there is room.

        Raises: what `attempt` raises for another reason.
        """
        waits = False
        while True:
            try:
                with needing_room():
                    result = await stepped(attempt())
            except (NoRoom, LogFull) as error:
                if not waits:
                    waits = True
                    text = why_no_room(self.disk, self.path, error)
                    self._report(f"{text}: it opens once there is room", emit)
                await trio.sleep(ROOM_PAUSE_S)
                continue
            if waits:
                self._report("", emit)
            return result

    def _report(self, reason: str, emit: Callable[[object], None]) -> None:
        used = self.disk.usage(self.path)
        emit(DiskUsageChanged(is_full=bool(reason), used_ratio=used, reason=reason))
        _LOGGER.warning("%s: %s", self.owner, reason or "the disk has room again")
        if self.keeper is not None:
            self.keeper.offer(OpeningWaits(reason))
