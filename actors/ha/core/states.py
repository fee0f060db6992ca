"""The states of a replication connection, with upstream's names and ordinals, and their
transitions.

Source: apache/rocketmq store/ha/HAConnectionState.java (5.3.3); classic-ha.md 1.4.
HANDSHAKE is entered by slaves, in dialects that have one; SUSPEND is never entered. They are
members because the ordinals are part of status answers.

Differs from upstream: a connection on the master is READY until its first report was accepted
(upstream: TRANSFER from the start), so that a port probe never looks like a slave; DIVERGED_AFTER
below.
"""

from __future__ import annotations

import enum

DIVERGED_AFTER = 3
"""How many refused offsets in a row make a slave's state "diverged" (T1): one or two happen when a
master restarts.
"""


class HAConnectionState(enum.IntEnum):
    READY = 0
    HANDSHAKE = 1
    TRANSFER = 2
    SUSPEND = 3
    SHUTDOWN = 4


class Trigger(enum.Enum):
    """What moves a connection from state to state."""

    CONNECTED = "connected"
    SHAKING = "connected, and a handshake sent"
    AGREED = "the answer fits the own log"
    FIRST_REPORT = "first report accepted"
    LOST = "connection lost"
    STOPPED = "stopped"


_S = HAConnectionState

SLAVE_TRANSITIONS: dict[HAConnectionState, dict[Trigger, HAConnectionState]] = {
    _S.READY: {
        Trigger.CONNECTED: _S.TRANSFER,
        Trigger.SHAKING: _S.HANDSHAKE,
        Trigger.LOST: _S.READY,
        Trigger.STOPPED: _S.SHUTDOWN,
    },
    _S.HANDSHAKE: {
        Trigger.AGREED: _S.TRANSFER,
        Trigger.LOST: _S.READY,
        Trigger.STOPPED: _S.SHUTDOWN,
    },
    _S.TRANSFER: {Trigger.LOST: _S.READY, Trigger.STOPPED: _S.SHUTDOWN},
    _S.SHUTDOWN: {},
}

MASTER_TRANSITIONS: dict[HAConnectionState, dict[Trigger, HAConnectionState]] = {
    _S.READY: {
        Trigger.FIRST_REPORT: _S.TRANSFER,
        Trigger.LOST: _S.SHUTDOWN,
        Trigger.STOPPED: _S.SHUTDOWN,
    },
    _S.TRANSFER: {Trigger.LOST: _S.SHUTDOWN, Trigger.STOPPED: _S.SHUTDOWN},
    _S.SHUTDOWN: {},
}


def after(
    table: dict[HAConnectionState, dict[Trigger, HAConnectionState]],
    state: HAConnectionState,
    trigger: Trigger,
) -> HAConnectionState:
    """The next state after a trigger; one that the table does not list for this state is our bug.

    Raises: AssertionError.
    """
    following = table[state].get(trigger)
    assert following is not None, f"{trigger.name} in {state.name}"
    return following


class Lost(enum.Enum):
    """Why a replication connection ended; the value is the sentence shown to people."""

    PEER_CLOSED = "the peer closed the connection"
    BROKEN = "the connection broke"
    CONNECT_FAILED = "the master could not be reached"
    SILENT = "nothing arrived within the housekeeping interval"
    BAD_FRAME = "the peer sent a frame of an impossible size"
    DEPOSED = "the master's last epoch is older than that of the local log"
    CUT_FIRST = "the local log has to be cut before it may follow"
    EPOCH_MISMATCH = "the master's frames are not of the epochs that it listed"
    WRONG_PHASE = "the master answered a handshake where only frames may come"
    OFFSET_MISMATCH = "the master sent another offset than the end of the local log"
    UNALIGNED = "the first offset for an empty log is no multiple of the local file size"
    FOREIGN_LOG = "the local log is no part of the master's"
    NOT_VERIFIED = "the master did not say what its log is"
    APPEND_FAILED = "the local store could not take the bytes"
    DAMAGED = "this copy of the log is damaged"
    BAD_RECORD = "a record that the master sent is damaged"
    LOG_CUT = "the local log became shorter than what was reported"
    REPORT_STUCK = "the master did not take a report"
    MASTER_CHANGED = "the master's address changed"
    NO_REPLICA = "the handshake is of no replica of the group"
    NO_HANDSHAKE = "a report came before a handshake"
    HANDSHAKE_LATE = "a handshake came where only reports may"
    BAD_REQUEST = "the slave sent something that is no request"
    REPORT_NEGATIVE = "the slave reported a negative offset"
    REPORT_AHEAD = "the slave reported an offset above the master's end"
    REPORT_UNSENT = "the slave reported an offset that it was not sent"
    REPORT_BELOW_MIN = "the slave needs bytes that the master has deleted"
    EXPIRED = "the file being sent was deleted by age"
    REPLACED = "a newer connection of the same slave took over"
    STOPPED = "the node stopped"


OFFSET_REFUSALS = (Lost.OFFSET_MISMATCH, Lost.UNALIGNED, Lost.FOREIGN_LOG)
"""The ends that count towards "diverged"."""
