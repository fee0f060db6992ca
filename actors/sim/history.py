"""The observations of a simulated cluster, in order: the nodes' events, what clients asked and were
answered, and the faults. Checkers judge each as it comes, and a replay prints it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, TypeAlias

import attrs
import trio

from actors.config import Group
from actors.log_types import Batch, Offsets, Receipt
from actors.sim.world import SimEvent

VIOLATIONS_MAX = 20
"""How many violations are kept. A broken run stays broken, and the first violations say why."""


@attrs.frozen(kw_only=True)
class AppendAsked:
    """A client hands over a batch.

    Attributes:
        operation: the number of the append, over all appends of the run.
        group: the group to whose log it goes; "" in a run with one group.
    """

    at_s: float
    client: str
    operation: int
    bodies: tuple[bytes, ...]
    group: str = ""


@attrs.frozen(kw_only=True)
class AppendAnswered:
    """The whole batch is acknowledged. `receipt` is None if the client did not learn the
    positions.
    """

    at_s: float
    client: str
    operation: int
    receipt: Receipt | None


@attrs.frozen(kw_only=True)
class AppendRefused:
    """The client got an error which says that nothing of the batch is stored."""

    at_s: float
    client: str
    operation: int
    error: str


@attrs.frozen(kw_only=True)
class AppendUnknown:
    """The batch may be stored, in part or whole, now or later: it stays open until the end."""

    at_s: float
    client: str
    operation: int
    error: str


@attrs.frozen(kw_only=True)
class RecordsRead:
    """A node answered a read that began at `start`.

    Attributes:
        boot: counts the node's starts.
        asked: how many observations there were when the read began, because reads overlap.
        group: as in `AppendAsked`.
        fresh: whether the node had to know all that was acknowledged before the read began.
    """

    at_s: float
    node: str
    boot: int
    asked: int
    start: int
    batch: Batch
    group: str = ""
    fresh: bool = False


@attrs.frozen(kw_only=True)
class OffsetsSeen:
    """A node reported its offsets. `boot`, `asked` and `group` are as in `RecordsRead`."""

    at_s: float
    node: str
    boot: int
    asked: int
    offsets: Offsets
    group: str = ""


LOST_DISK: Final = "lost disk"
LOST_LOGS: Final = "lost logs"
LOST: Final = (LOST_DISK, LOST_LOGS)


@attrs.frozen(kw_only=True)
class FaultInjected:
    """Something was broken or mended on purpose, or a fault took effect.

    Attributes:
        kind: the action's name, or one of the following. About NODE alone: "heal", "start",
            "resume", "clock set", "repaired", "wiped", "died", "start failed", "refused to start",
            "promoting", "not promoted", "resync", "resynced", "damage found", "not checked".
            "elected", "not elected" (NODE id how): what an operator had the controllers do.
            "armed": a disk fault waits for its operation. "felt" (NODE): an operation failed.
            "damaged" (NODE, from, to). "transferred" (NODE from NODE): leadership was transferred.
            "ended" (NODE while WHAT): a process was killed while a snapshot was taken, installed or
            loaded. "lost" (NODE, from): a forced promotion opened the log here, and gave up what
            was acknowledged after that position. LOST_DISK and LOST_LOGS (NODE): what the node held
            is gone, and in the first case all that it knew of itself; it may have been
            acknowledged.
        where: where it happened; the node's name comes first.
        good: for "damaged": the bytes before the damage.
    """

    at_s: float
    kind: str
    where: str
    good: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen(kw_only=True)
class NodeLooked:
    """A running node was asked for its status and its tree.

    Attributes:
        has_room: whether its disk has room for what the node has to write.
    """

    at_s: float
    node: str
    boot: int
    status: dict[str, Any] = attrs.field(repr=False)
    tree: dict[str, Any] = attrs.field(repr=False)
    has_room: bool = True


@attrs.frozen(kw_only=True)
class MachineDid:
    """A member's state machine was made, is about to load or has loaded a snapshot, or has applied
    entries.

    Attributes:
        boot, group: as in `RecordsRead`.
        what: "made", "loads", "loaded" or "applied".
        indexes: the indexes of the entries that it was given; () unless it applied some.
        last: the index of the last entry in its state.
        chain: the hash of all entries in its state.
    """

    at_s: float
    node: str
    boot: int
    group: str
    what: str
    indexes: tuple[int, ...]
    last: int
    chain: str


@attrs.frozen(kw_only=True)
class MachineRead:
    """A leader proved that it leads, and then showed a value of its state machine.

    Attributes:
        boot, group, asked: as in `RecordsRead`.
        key: the key that was asked for.
        value: its value; None: it has none.
    """

    at_s: float
    node: str
    boot: int
    group: str
    asked: int
    key: str
    value: int | None


Observation: TypeAlias = (
    SimEvent
    | AppendAsked
    | AppendAnswered
    | AppendRefused
    | AppendUnknown
    | RecordsRead
    | OffsetsSeen
    | FaultInjected
    | NodeLooked
    | MachineDid
    | MachineRead
)


@attrs.define(kw_only=True)
class ClientAppend:
    """One append as its client saw it. `asked` and `answered` are positions in the history."""

    client: str
    operation: int
    bodies: tuple[bytes, ...]
    asked: int
    answered: int | None = None
    outcome: AppendAnswered | AppendRefused | AppendUnknown | None = None


def client_appends(
    observations: Iterable[Observation], group: str | None = None
) -> list[ClientAppend]:
    """Return all appends in the order in which they were asked.

    Args:
        group: the group to whose log they went; None: any.
    """
    found: dict[int, ClientAppend] = {}
    for position, seen in enumerate(observations):
        match seen:
            case AppendAsked() if group in (None, seen.group):
                found[seen.operation] = ClientAppend(
                    client=seen.client, operation=seen.operation, bodies=seen.bodies, asked=position
                )
            case AppendAnswered() | AppendRefused() | AppendUnknown() if seen.operation in found:
                found[seen.operation].answered = position
                found[seen.operation].outcome = seen
    return list(found.values())


def given_up(seen: Observation) -> int | None:
    """Return the offset from which on a forced promotion has just given up what was acknowledged;
    None for any other observation.
    """
    if isinstance(seen, FaultInjected) and seen.kind == "lost":
        return int(seen.where.split()[1])
    return None


@attrs.frozen(kw_only=True)
class Violation:
    """A violation that a checker found. `checker` is the name of the checker's class."""

    checker: str
    at_s: float
    text: str

    def __str__(self) -> str:
        return f"{self.checker} at {self.at_s:.6f} s: {self.text}"


class Invariant(Protocol):
    """A check that is called at every observation, and so has to be cheap."""

    def see(self, seen: Observation) -> Iterable[str]:
        """Take an observation. Returns: a text for each thing that is wrong with it; () if nothing
        is.
        """


class History:
    """All observations so far, and the violations in them.

    Args:
        invariants: the checks that are called at each observation, in this order.
        observe: called with every observation, for a replay.

    Attributes:
        violations: the first VIOLATIONS_MAX violations.
    """

    def __init__(
        self,
        invariants: Iterable[Invariant] = (),
        observe: Callable[[Observation], None] | None = None,
    ) -> None:
        self.observations: list[Observation] = []
        self.violations: list[Violation] = []
        self._invariants = tuple(invariants)
        self._observe = observe
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, seen: Observation) -> None:
        """Take one observation; also used as `World.on_event`. It raises nothing, whatever is
        observed.
        """
        self.observations.append(seen)
        self._hash.update(repr(seen).encode())
        if self._observe is not None:
            self._observe(seen)
        for invariant in self._invariants:
            for text in invariant.see(seen):
                self.violated(type(invariant).__name__, text, seen.at_s)

    def now(self, kind: Callable[..., Observation], **fields: Any) -> None:
        """Take an observation that is made at this moment."""
        self.add(kind(at_s=trio.current_time(), **fields))

    def violated(self, checker: str, text: str, at_s: float | None = None) -> None:
        """Record a violation that a checker found. `at_s`: its time; None: now."""
        at_s = trio.current_time() if at_s is None else at_s
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(Violation(checker=checker, at_s=at_s, text=text))

    def judged(self, checker: str, problems: Iterable[str], of: str = "") -> None:
        """Record the violations that a validation found after the run; `of`: the node, or "" for
        the run.
        """
        at_s = self.observations[-1].at_s if self.observations else 0.0
        for text in problems:
            self.violated(checker, f"{of}: {text}" if of else text, at_s)

    def digest(self) -> str:
        """Return a hash of all observations; it is equal for equal histories."""
        return self._hash.hexdigest()


def line(seen: Observation) -> str:
    """Return an observation as one line for people."""
    if isinstance(seen, SimEvent):
        what = f"{seen.node}#{seen.boot} {seen.path} {_fields(seen.event)}"
    elif isinstance(seen, FaultInjected):
        what = f"-- {seen.kind} {seen.where}"
    elif isinstance(seen, AppendAsked):
        size = sum(map(len, seen.bodies))
        what = f"{seen.client} appends #{seen.operation}: {len(seen.bodies)} records, {size} bytes"
    elif isinstance(seen, RecordsRead):
        batch = seen.batch
        what = (
            f"{seen.node}#{seen.boot} read{' fresh' * seen.fresh} from {seen.start}:"
            f" {len(batch.records)} records, next {batch.next},"
            f" acknowledged {batch.acknowledged}, lag {batch.lag_bytes}"
        )
    elif isinstance(seen, OffsetsSeen):
        what = f"{seen.node}#{seen.boot} {_fields(seen.offsets)}"
    elif isinstance(seen, NodeLooked):
        groups = [
            f"{name} {each['role']} written={each['written']}"
            for name, each in seen.status["groups"].items()
        ]
        what = f"{seen.node}#{seen.boot} looks: {', '.join(groups)}"
    elif isinstance(seen, MachineDid):
        given = f" {seen.indexes[0]} to {seen.indexes[-1]}" if seen.indexes else ""
        what = (
            f"{seen.node}#{seen.boot} {seen.group}'s machine {seen.what}{given}:"
            f" at {seen.last}, {seen.chain}"
        )
    elif isinstance(seen, MachineRead):
        what = f"{seen.node}#{seen.boot} {seen.group}'s machine shows {seen.key} = {seen.value}"
    elif isinstance(seen, AppendAnswered):
        what = f"{seen.client} #{seen.operation} acknowledged: {_fields(seen.receipt)}"
    else:
        outcome = "refused" if isinstance(seen, AppendRefused) else "unknown"
        what = f"{seen.client} #{seen.operation} {outcome}: {seen.error}"
    return f"{seen.at_s:12.6f} {what}"


def _fields(value: object) -> str:
    if not attrs.has(type(value)):
        return repr(value)
    found = attrs.asdict(value, recurse=False)  # type: ignore[arg-type]
    return f"{type(value).__name__} " + " ".join(f"{key}={each}" for key, each in found.items())


def is_of(group: Group, seen: SimEvent) -> bool:
    """Whether an event belongs to this group."""
    parts = seen.path.split("/")
    return len(parts) > 2 and parts[2] == group.name
