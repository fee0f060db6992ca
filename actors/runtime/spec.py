"""A supervision tree as a value: built by pure functions, printed before it runs.

The words are those of OTP's supervisor (erlang/otp, lib/stdlib/src/supervisor.erl) with the same
meaning.
Differs:
- a supervisor's `shutdown_s` is the sum of its children's plus 1 s, because one budget bounds the
  whole stop (OTP recommends infinity);
- a child may have a back-off before it is started again (OTP restarts at once);
- a significant child that is never restarted may not stand where the restart of a sibling stops it
  (OTP takes such a specification, and goes on without the child: its auto_shutdown minds only who
  ends by itself).
"""

from __future__ import annotations

import enum
import random
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from actors.readable import counted
from actors.runtime.actor import Actor
from actors.runtime.errors import SpecError

INTENSITY = 3  # restarts; a fourth one within the period is a fault that restarting does not cure
PERIOD_S = 30.0
SHUTDOWN_S = 5.0
SUPERVISOR_EXTRA_S = 1.0  # what a supervisor gets on top of its children's time to stop
CHILDREN_MAX = 1024
BACKOFF_STEPS_MAX = 64  # beyond this the delay has long reached max_s, and a float could overflow

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")


class Restart(enum.Enum):
    """When a child that ended by itself is started again."""

    PERMANENT = "permanent"  # always
    TRANSIENT = "transient"  # if it failed
    TEMPORARY = "temporary"  # never; it is removed


class Strategy(enum.Enum):
    """Which other children are restarted with one."""

    ONE_FOR_ONE = "one_for_one"
    ONE_FOR_ALL = "one_for_all"
    REST_FOR_ONE = "rest_for_one"


class AutoShutdown(enum.Enum):
    """Whether a supervisor ends when significant children have ended (and are not restarted)."""

    NEVER = "never"
    ANY_SIGNIFICANT = "any_significant"
    ALL_SIGNIFICANT = "all_significant"


@attrs.frozen(kw_only=True)
class Backoff:
    """The delay before a restart: `first_s`, then `factor` times the last one, up to `max_s`.

    It begins again at `first_s` once an incarnation has lasted longer than `max_s`.

    Attributes:
        jitter: the fraction by which each delay may be longer or shorter, 0.0 to 1.0.
    """

    first_s: float
    max_s: float
    factor: float = 2.0
    jitter: float = 0.0

    def __attrs_post_init__(self) -> None:
        if not (0 < self.first_s <= self.max_s and self.factor >= 1 and 0 <= self.jitter <= 1):
            raise SpecError(
                f"expected 0 < first_s <= max_s, factor >= 1 and jitter of 0 to 1, found {self}"
            )

    def delay_s(self, attempt: int, rng: random.Random) -> float:
        """Return the delay in seconds before restart number `attempt`, from 0, in a row."""
        delay_s = min(self.max_s, self.first_s * self.factor ** min(attempt, BACKOFF_STEPS_MAX))
        return delay_s * (1 + self.jitter * rng.uniform(-1, 1)) if self.jitter else delay_s


@attrs.frozen(kw_only=True)
class SupervisorSpec:
    """A supervisor with fixed children, started left to right and stopped right to left.

    Attributes:
        intensity: how many restarts are accepted within `period_s`; one more ends the supervisor
            with an error.
        takes_requests: whether it has a mailbox for `requests.RestartChild`.
        on_exit: called once in each incarnation after all children have ended for any reason; it
            must not block.
    """

    strategy: Strategy = Strategy.ONE_FOR_ONE
    intensity: int = INTENSITY
    period_s: float = PERIOD_S
    children: tuple[ChildSpec, ...] = ()
    auto_shutdown: AutoShutdown = AutoShutdown.NEVER
    takes_requests: bool = False
    on_exit: Callable[[], None] | None = None

    def __attrs_post_init__(self) -> None:
        if self.intensity < 0 or self.period_s <= 0:
            raise SpecError("intensity is at least 0 and period_s above 0")
        names = [child.name for child in self.children]
        if len(set(names)) != len(names):
            raise SpecError(f"two children bear one name: {names}")
        for at, child in enumerate(self.children):
            if child.significant:
                self._check_significant(child, at)

    def _check_significant(self, child: ChildSpec, at: int) -> None:
        """Check that a significant child's end is heeded, and that no restart ends it for good.

        Raises: SpecError: it is not so.
        """
        if self.auto_shutdown is AutoShutdown.NEVER:
            raise SpecError(f"{child.name} is significant, but auto_shutdown is NEVER")
        if child.restart is not Restart.TEMPORARY:
            return
        for other in self._stopping(at):
            if other.restart is not Restart.TEMPORARY:
                text = f"{child.name} is significant and temporary, and {other.name}, which comes"
                raise SpecError(f"{text} back after a crash, would take it down for good")

    def _stopping(self, at: int) -> tuple[ChildSpec, ...]:
        """Return the children whose restart stops the child at this position, perhaps itself."""
        match self.strategy:
            case Strategy.ONE_FOR_ONE:
                return ()
            case Strategy.ONE_FOR_ALL:
                return self.children
            case Strategy.REST_FOR_ONE:
                return self.children[:at]


@attrs.frozen(kw_only=True)
class DynamicSpec:
    """A supervisor whose children come and go by message (simple_one_for_one); see `dynamic`."""

    children_max: int = CHILDREN_MAX
    intensity: int = INTENSITY
    period_s: float = PERIOD_S

    def __attrs_post_init__(self) -> None:
        if self.children_max < 1 or self.intensity < 0 or self.period_s <= 0:
            raise SpecError(
                f"expected children_max >= 1, intensity >= 0 and period_s > 0, found {self}"
            )


@attrs.frozen
class LazySpec:
    """A supervisor whose specification is made anew for each of its incarnations.

    Attributes:
        build: a pure and quick function; it is also called to print the tree.
    """

    build: Callable[[], SupervisorSpec]


Start: TypeAlias = Callable[[], Actor[Any]] | SupervisorSpec | DynamicSpec | LazySpec


@attrs.frozen(kw_only=True)
class ChildSpec:
    """One child of a supervisor.

    Attributes:
        name: the last part of its path.
        start: a factory that makes a fresh actor for each incarnation, or a supervisor's
            specification, or a `LazySpec`.
        shutdown_s: how many seconds it may take to stop before it is killed. It has no effect for a
            supervisor, which gets the sum of its children's times and SUPERVISOR_EXTRA_S.
        significant: see AutoShutdown. A permanent child, which never ends for good, cannot be.
        backoff: the delay before restarts; None restarts at once.
    """

    name: str
    start: Start
    restart: Restart = Restart.PERMANENT
    shutdown_s: float = SHUTDOWN_S
    significant: bool = False
    backoff: Backoff | None = None

    def __attrs_post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SpecError(
                f"expected a name of letters, digits and _.:- for a child, found {self.name!r}"
            )
        if self.shutdown_s < 0:
            raise SpecError(f"{self.name}: shutdown_s is negative")
        if self.significant and self.restart is Restart.PERMANENT:
            raise SpecError(f"{self.name} is permanent, so it cannot be significant")


def supervisor_of(start: Start) -> SupervisorSpec | DynamicSpec | None:
    """Return the specification that an incarnation would have now; None for an actor's factory."""
    if isinstance(start, LazySpec):
        return start.build()
    return start if isinstance(start, SupervisorSpec | DynamicSpec) else None


def render_spec(spec: SupervisorSpec | DynamicSpec, name: str = "") -> str:
    """Return the tree as text, one line for each child; it need not run."""
    return "\n".join([f"/{name} {_describe(spec)}".lstrip(), *_lines(spec, "")])


def _lines(spec: SupervisorSpec | DynamicSpec, indent: str) -> list[str]:
    lines: list[str] = []
    children = spec.children if isinstance(spec, SupervisorSpec) else ()
    for number, child in enumerate(children, 1):
        last = number == len(children)
        lines.append(f"{indent}{'└─ ' if last else '├─ '}{_describe_child(child)}")
        below = supervisor_of(child.start)
        if below is not None:
            lines += _lines(below, indent + ("   " if last else "│  "))
    return lines


def _describe(spec: SupervisorSpec | DynamicSpec) -> str:
    bounds = f"{counted(spec.intensity, 'restart')} in {spec.period_s:g} s"
    if isinstance(spec, DynamicSpec):
        return f"[dynamic, at most {counted(spec.children_max, 'child', 'children')}, {bounds}]"
    auto = "" if spec.auto_shutdown is AutoShutdown.NEVER else f", {spec.auto_shutdown.value}"
    return f"[{spec.strategy.value}, {bounds}{auto}]"


def _describe_child(child: ChildSpec) -> str:
    words = [child.name]
    below = supervisor_of(child.start)
    if below is not None:
        words.append(_describe(below))
    words.append(child.restart.value)
    if child.significant:
        words.append("significant")
    if child.backoff is not None:
        words.append(f"back-off {child.backoff.first_s:g}-{child.backoff.max_s:g} s")
    return " ".join(words)
