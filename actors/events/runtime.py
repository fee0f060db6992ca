"""Events of the actor runtime: starts, stops, crashes, restarts, dead letters, lag.

All are emitted by `actors.runtime` itself, with the path and incarnation of the actor (or
supervisor) concerned; the envelope carries those, so the fields here do not repeat them.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class ActorStarted:
    """An actor or supervisor became ready.

    Emitted by its supervisor; the restart checker pairs it with its end.

    Attributes:
        role: "actor", "supervisor" or "dynamic".
        type: the actor's class name, or the supervisor's strategy.
    """

    role: str
    type: str


@attrs.frozen(kw_only=True)
class ActorStopped:
    """An actor or supervisor ended without an error.

    Emitted by its supervisor once its task has ended.

    Attributes:
        reason: "normal" (it ended itself), "shutdown" (its supervisor asked), "killed".
    """

    reason: str


@attrs.frozen(kw_only=True)
class ActorCrashed:
    """An actor or supervisor ended with an error. Emitted by its supervisor, before any restart.

    Attributes:
        error: the leaf errors, each as "Type: text", joined by "; ".
        starting: True if it never became ready.
    """

    error: str
    starting: bool


@attrs.frozen(kw_only=True)
class ActorRestarted:
    """A child was started again. Emitted by its supervisor; the envelope bears the new incarnation.

    Attributes:
        restarts: how often this incarnation of its supervisor has restarted it, on request, too.
    """

    restarts: int


@attrs.frozen(kw_only=True)
class RestartIntensityExceeded:
    """A supervisor gave up: more restarts than `intensity` in `period_s`.

    Emitted before it stops its children.
    """

    child: str
    intensity: int
    period_s: float


@attrs.frozen(kw_only=True)
class DeadLettered:
    """Messages to an actor that is not there, or that its stop left unread.

    Emitted by the registry.

    The first of a (path, message type) is emitted at once, more of the same at most once per second
    of Trio time and at the end, so that the sum of `count` over a run is exact and a storm of
    dead letters is not one of events.
    """

    message_type: str
    count: int


@attrs.frozen(kw_only=True)
class StopTimedOut:
    """The whole stop outlasted its budget and the rest was killed. Emitted by the root supervisor.

    Attributes:
        paths: what was still running, sorted by start order.
    """

    paths: tuple[str, ...]


@attrs.frozen(kw_only=True)
class ChildKilled:
    """A child outlasted its `shutdown_s` and was killed.

    Emitted by its supervisor, with the child's path.
    """

    shutdown_s: float


@attrs.frozen(kw_only=True)
class LoopLagged:
    """A timer fired much later than it should: the event loop or this actor was busy.

    Emitted by the receive loop.

    A lag judge (elections, housekeeping) must re-arm its timers before it believes that a peer
    was silent.
    """

    lag_s: float


@attrs.frozen(kw_only=True)
class AskTimedOut:
    """A question was not answered in time. Emitted with the path of the asked actor."""

    message_type: str
    timeout_s: float
