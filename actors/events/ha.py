"""Events of classic HA. The envelope adds node, group path, incarnation and time (design section
9).

Offsets are physical offsets in bytes. `connection` numbers the connections of a group on its master
and `session` those of a slave; both grow, and never repeat within a boot.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class HAListening:
    """The master takes connections of slaves. Emitted by accept_socket, at each start."""

    address: str
    port: int


@attrs.frozen(kw_only=True)
class HAConnectionRefused:
    """A connection was closed, and it is not known whose it was. Emitted by accept_socket, and by
    connection_state where a handshake says that, for the 1st, 2nd, 4th, 8th ... of each only.

    `count` is the number so far; `reason` is "unknown address", "too many connections", or why the
    connection ended.
    """

    address: str
    reason: str
    count: int


@attrs.frozen(kw_only=True)
class HAConnectionOpened:
    """A stream from a slave's address was accepted. Emitted by accept_socket, or where a handshake
    says whose it is by read_socket.
    """

    slave: str
    connection: int
    address: str


@attrs.frozen(kw_only=True)
class HATransferStarted:
    """The first report of a connection was accepted. Emitted by read_socket. Checkers: the start
    lies in the master's log.
    """

    slave: str
    connection: int
    report_bytes: int
    start_bytes: int


@attrs.frozen(kw_only=True)
class HAReportRefused:
    """A report ended its connection, and no acknowledgement was touched. Emitted by read_socket
    (T2, T3, T8).
    """

    slave: str
    connection: int
    reason: str
    report_bytes: int
    min_bytes: int
    max_bytes: int


@attrs.frozen(kw_only=True)
class HAConnectionClosed:
    """A slave's connection ended. Emitted by connection_state, once per HAConnectionOpened unless
    the node crashed.
    """

    slave: str
    connection: int
    reason: str


@attrs.frozen(kw_only=True)
class SlaveAcked:
    """A slave's report was counted. Emitted by group_transfer, the newest per slave and batch.

    Checkers: never above what the slave's own events say that it holds; audit of acknowledged
    records.
    """

    slave: str
    connection: int
    offset_bytes: int


@attrs.frozen(kw_only=True)
class AppendsAcknowledged:
    """Appends were answered with success. Emitted by group_transfer, one event per batch.

    Checkers: every byte below `next_bytes` is held by `copies` nodes at this moment and is never
    lost afterwards.
    """

    first_bytes: int
    next_bytes: int
    appends: int
    records: int


@attrs.frozen(kw_only=True)
class AppendsTimedOut:
    """Appends were answered with FLUSH_SLAVE_TIMEOUT. Emitted by group_transfer, one event per
    batch. They are in the log.

    Attributes:
        held_bytes: what as many nodes as an append needs held then, the master among them; -1:
            fewer that count were connected, and what others hold was not known (0 by older
            versions).
    """

    first_bytes: int
    next_bytes: int
    appends: int
    held_bytes: int


@attrs.frozen(kw_only=True)
class SlaveNotAvailable:
    """Appends were answered with SLAVE_NOT_AVAILABLE. Emitted by group_transfer (`ack_policy =
    "4.x"`), one event per batch. They are in the log.

    Attributes:
        reason: of the last of them.
    """

    first_bytes: int
    next_bytes: int
    appends: int
    reason: str


@attrs.frozen(kw_only=True)
class MasterConnected:
    """A slave reached its master. Emitted by ha_client."""

    session: int
    master: str


@attrs.frozen(kw_only=True)
class MasterLost:
    """A slave's connection, or its attempt, ended. Emitted by ha_client. `pause_s`: to the next
    one.
    """

    session: int
    reason: str
    detail: str
    pause_s: float


@attrs.frozen(kw_only=True)
class OffsetReported:
    """A slave reported to its master what it holds. Emitted by ha_client, per report.

    Checkers: never lower than before in one session; in a `synced` group never above a finished
    sync.
    """

    session: int
    offset_bytes: int


@attrs.frozen(kw_only=True)
class OffsetMismatched:
    """The master sent another offset than the end of this slave's log. Emitted by ha_client;
    nothing was appended (T1).
    """

    session: int
    expected_bytes: int
    got_bytes: int
    consecutive: int


@attrs.frozen(kw_only=True)
class SlaveDiverged:
    """Offsets were refused so often that only a person can decide. Emitted by ha_client, when the
    state is entered.
    """

    session: int
    mismatches: int


@attrs.frozen(kw_only=True)
class EpochBegun:
    """A master's epoch begins at the end of its log, and is on the disk. Emitted by epochs, before
    an append is taken.

    Checkers: an epoch has one master and one start; epochs rise, and none starts below what was
    acknowledged.
    """

    epoch: int
    start_bytes: int


@attrs.frozen(kw_only=True)
class RoleGiven:
    """Controllers gave this replica a role, which it has not taken yet: until then it takes no
    appends. Emitted by the role owner, before the group's tree ends.

    Attributes:
        role: "master" or "slave".
        epoch: of the election.
        master: the master's node, or its address if the cluster file names none.
    """

    role: str
    epoch: int
    master: str


@attrs.frozen(kw_only=True)
class LeaseChanged:
    """A master may acknowledge from now on, or may no longer: no controller has answered it for the
    announced time, and another replica may be master. Emitted by group_transfer, within half a
    second.

    Attributes:
        epoch: the master's.
        holds: whether it may.
    """

    epoch: int
    holds: bool


@attrs.frozen(kw_only=True)
class LogCutAsked:
    """A replica's log holds what its master's does not, and is cut before it follows. Emitted by
    the role owner, before the store opens anew.

    Checkers: nothing that was acknowledged lies behind `end_bytes`.
    """

    epoch: int
    written_bytes: int
    end_bytes: int


@attrs.frozen(kw_only=True)
class SyncStateSetTaken:
    """A master goes by this sync state set of its controllers. Emitted by group_transfer, as it
    starts and whenever it is another one.

    Attributes:
        in_sync: the ids of its members, in ascending order.
        set_epoch: numbers the sets of one broker set.
    """

    in_sync: tuple[int, ...]
    set_epoch: int
