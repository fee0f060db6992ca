"""The two families of errors an append can end with, and the errors of opening a node.

`NotStored`: raised before anything was written, so a retry is always safe.
`OutcomeUnknown`: something may have been written, so a retry may duplicate.
Upstream's status names (PutMessageStatus) stay visible in `status`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

NO_ROOM_CODES: Final = (errno.ENOSPC, errno.EDQUOT)
"""What an OSError says where a disk, or a user's share of it, has no room for more."""

E = TypeVar("E", bound=BaseException)


def leaves(group: BaseExceptionGroup[E]) -> Iterator[E]:
    """Yield the errors inside a group and its inner groups."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


class TriologError(Exception):
    """Base of every error that triolog raises on purpose."""


class ConfigError(TriologError):
    """The user's configuration or data directory does not fit. One line per problem.

    Attributes:
        problems: one line each: file, key path, expected, found.
    """

    def __init__(self, problems: tuple[str, ...] | str) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else problems
        super().__init__("\n".join(self.problems))


class UnknownName(TriologError, LookupError):
    """A program asked for a group or a node that is not there.

    Attributes:
        name: what it asked for.
        known: the names that there are.
    """

    def __init__(self, where: str, kind: str, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(known)
        has = ", ".join(self.known) or "none"
        super().__init__(f"{where}: no {kind} {name!r}; it has {has}")


class StorageError(TriologError):
    """The disk failed or holds something that must not be touched: the node stops."""


class NoRoomToStart(StorageError):
    """The disk has no room for what a start writes down: make room, and start the node again."""


class CorruptLog(StorageError):
    """Damage below the synced mark: the start is refused, nothing is cut."""


class MachineFailed(TriologError):
    """A user's state machine raised, or did not do what it must: its state is in doubt, and the
    member stops.
    """


class NotStored(TriologError):
    """Nothing was written: retry freely.

    Attributes:
        status: upstream's PutMessageStatus name for this outcome.
    """

    status = "SERVICE_NOT_AVAILABLE"


class NotMaster(NotStored):
    """This node does not take appends for the group.

    Attributes:
        hint: the node that does, as far as this one knows; None if it does not know.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class NotEnoughReplicas(NotStored):
    """Fewer copies could be made than the group asks for, so nothing was written."""

    status = "IN_SYNC_REPLICAS_NOT_ENOUGH"


class Overloaded(NotStored):
    """The bound on unanswered bytes is reached; wait for answers before sending more."""

    status = "OS_PAGE_CACHE_BUSY"


class LogFull(NotStored):
    """The disk is above its mark for refusing appends."""

    status = "SERVICE_NOT_AVAILABLE"


class TooLarge(NotStored):
    """A record, topic or property block is above its limit."""

    status = "MESSAGE_ILLEGAL"


class Closed(NotStored):
    """The node, log, appender or client has been closed."""


class OutcomeUnknown(TriologError):
    """The records may or may not be stored and replicated; a retry may duplicate.

    Attributes:
        first: position of the first record in doubt, or None if it was never learnt.
        last: position of the last record in doubt, or None.
        next: the position after the last record in doubt, or None.
        status: upstream's PutMessageStatus name for this outcome.
    """

    status = "UNKNOWN_ERROR"

    def __init__(
        self,
        message: str,
        first: int | None = None,
        last: int | None = None,
        next: int | None = None,  # noqa: A002 - as a receipt has it
    ) -> None:
        super().__init__(message)
        self.first = first
        self.last = last
        self.next = next


class ReplicationTimeout(OutcomeUnknown):
    """Stored on the master, but not on enough nodes before the deadline."""

    status = "FLUSH_SLAVE_TIMEOUT"


class SyncTimeout(ReplicationTimeout):
    """Written on the master, and on enough other nodes; its own sync did not end in time."""

    status = "FLUSH_DISK_TIMEOUT"


class SlaveNotAvailable(ReplicationTimeout):
    """Stored on the master, which did not wait: `ack_policy = "4.x"` found no slave to wait for."""

    status = "SLAVE_NOT_AVAILABLE"


class LeadershipLost(OutcomeUnknown):
    """The node stopped being master or leader while the records were in flight."""


class NodeStopped(OutcomeUnknown):
    """The node stopped, or the connection to it ended, while the records were in flight."""
