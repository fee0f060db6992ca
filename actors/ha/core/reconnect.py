"""Decides when a slave tries its master again, and keeps the state of its connection.

Source: apache/rocketmq store/ha/DefaultHAClient.run (5.3.3), classic-ha.md 1.4 and T1.

Differs from upstream: a master that was just lost, or is not there yet, is tried again after 0.2 s,
then after twice as long each time, up to the interval (upstream waits 5 s at once, in which a group
that has just been started acknowledges nothing); offsets refused several times in a row make the
state "diverged" and the pauses longer (upstream repeats every 5 s for ever). With `upstream` the
pauses are upstream's, and no slave is ever called diverged.
"""

from __future__ import annotations

import attrs

from actors.config.bounds import RECONNECT_FIRST_S, ROOM_LOOK_S
from actors.ha.core.states import (
    DIVERGED_AFTER,
    OFFSET_REFUSALS,
    SLAVE_TRANSITIONS,
    HAConnectionState,
    Lost,
    Trigger,
    after,
)

BACKOFF_MAX_S = 60.0
"""The longest pause of a diverged slave, in seconds: the master may have been replaced."""

_AT_ONCE = (Lost.SILENT, Lost.MASTER_CHANGED)
_UNHEARD = (Lost.PEER_CLOSED, Lost.BROKEN, Lost.CONNECT_FAILED)
UNHEARD_REPORTED = 3
"""After so many connections in a row that the peer ended without having sent a byte, it is no
master that is just stopping."""


@attrs.define(kw_only=True)
class Reconnect:
    """The slave's view over all its connections.

    Attributes:
        interval_s: longest pause before the next attempt, but for a diverged slave.
        first_s: the first pause.
        upstream: the same pause always (`compat`).
        failures: attempts and connections that have ended since the last accepted frame.
        state: upstream's state.
        mismatches: refused offsets since the last accepted frame.
        mismatches_total: refused offsets since the start.
        last_error: why the last connection ended; kept during the next one.
        last_lost: the reason alone; None: none has ended.
        unheard: connections in a row that the peer ended without having sent a byte.
        connect_at_s: when to try next, while READY.
    """

    interval_s: float
    first_s: float = RECONNECT_FIRST_S
    upstream: bool = False
    state: HAConnectionState = HAConnectionState.READY
    failures: int = 0
    mismatches: int = 0
    mismatches_total: int = 0
    last_error: str = ""
    last_lost: Lost | None = None
    unheard: int = 0
    connect_at_s: float = 0.0

    @property
    def diverged(self) -> bool:
        """Whether the master's log does not continue this one; an operator has to decide then."""
        return self.mismatches >= DIVERGED_AFTER and not self.upstream

    def connected(self, *, shaking: bool = False) -> None:
        trigger = Trigger.SHAKING if shaking else Trigger.CONNECTED
        self.state = after(SLAVE_TRANSITIONS, self.state, trigger)

    def agreed(self) -> None:
        self.state = after(SLAVE_TRANSITIONS, self.state, Trigger.AGREED)

    def frame_accepted(self) -> None:
        """Note that a frame continued the log, so that earlier refusals do not count any more."""
        self.mismatches = 0
        self.failures = 0

    def lost(
        self,
        reason: Lost,
        detail: str,
        now_s: float,
        *,
        no_room: bool = False,
        unheard_from: str | None = None,
    ) -> float:
        """Note that the connection or the attempt ended. Returns: the pause in seconds.

        Args:
            no_room: the disk takes nothing more: somebody may make room at any time.
            unheard_from: the own address of a connection over which no byte has come; "": that is
                not known; None: one has come, or nobody took the connection.
        """
        self.state = after(SLAVE_TRANSITIONS, self.state, Trigger.LOST)
        self.last_error = f"{reason.value}: {detail}" if detail else reason.value
        if reason in _UNHEARD and unheard_from is not None:
            self.unheard += 1
        elif reason is not Lost.NOT_VERIFIED:  # which the same end may cause
            self.unheard = 0
        if self.unheard >= UNHEARD_REPORTED and unheard_from is not None:
            self.last_error += (
                "; the master ends each connection at once: if it is one of ours, its cluster file"
                f" may name no slave at {unheard_from or 'the address of this machine'}"
            )
        self.last_lost = reason
        if reason in OFFSET_REFUSALS:
            self.mismatches += 1
            self.mismatches_total += 1
        if reason is Lost.FOREIGN_LOG:
            self.mismatches = max(self.mismatches, DIVERGED_AFTER)  # no need to see it again
        pause_s = self._pause_s(reason)
        if no_room and not self.upstream:
            pause_s = min(pause_s, ROOM_LOOK_S)
        self.failures += 1
        self.connect_at_s = now_s + pause_s
        return pause_s

    def stopped(self) -> None:
        self.state = after(SLAVE_TRANSITIONS, self.state, Trigger.STOPPED)

    def _pause_s(self, reason: Lost) -> float:
        if reason in _AT_ONCE:
            return 0.0
        if self.upstream:
            return self.interval_s
        if reason not in OFFSET_REFUSALS:
            return min(self.interval_s, self.first_s * float(1 << min(self.failures, 16)))
        if not self.diverged:
            return self.interval_s
        pause_s = self.interval_s * float(1 << min(self.mismatches - DIVERGED_AFTER + 1, 16))
        return max(self.interval_s, min(pause_s, BACKOFF_MAX_S))
