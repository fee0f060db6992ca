"""Histories for the linearizability checkers: by hand, drawn, and judged in the slowest way."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import attrs
from hypothesis import strategies as st

from actors.sim.judges.linear.log import Append, ReadLog, Shown
from actors.sim.judges.linear.operations import Operation
from actors.sim.judges.linear.registers import Add, CompareAndSet, Read, Write

Step = Callable[[Any, Operation], Iterable[Any]]
Sequential = Callable[[Any, Hashable], tuple[Hashable, Any]]
"""State and action -> result and state: an object that does one thing at a time."""


def did(
    client: str,
    called: float,
    returned: float | None,
    action: Hashable,
    result: Hashable = None,
    key: str = "",
) -> Operation:
    return Operation(
        client=client, called=called, returned=returned, action=action, result=result, key=key
    )


def has_order(initial: Any, step: Step, left: Sequence[Operation]) -> bool:
    """Tries every order: what the checkers have to agree with."""
    if all(each.returned is None for each in left):
        return True
    for each in left:
        if any(other.precedes(each) for other in left):
            continue
        rest = [other for other in left if other is not each]
        if any(has_order(after, step, rest) for after in step(initial, each)):
            return True
    return False


def register(state: Hashable, action: Hashable) -> tuple[Hashable, Hashable]:
    match action:
        case Write(value=value):
            return None, value
        case CompareAndSet(expected=expected, value=value) if state == expected:
            return True, value
        case CompareAndSet():
            return False, state
    return state, state


def counter(state: int, action: Hashable) -> tuple[Hashable, int]:
    return (None, state + action.amount) if isinstance(action, Add) else (state, state)


def steps_of(sequential: Sequential) -> Step:
    def step(state: Any, operation: Operation) -> list[Any]:
        result, after = sequential(state, operation.action)
        fits = operation.returned is None or operation.result == result
        return [after] if fits else []

    return step


VALUES = st.integers(1, 3)
REGISTER_ACTIONS = st.one_of(
    st.builds(Write, VALUES), st.just(Read()), st.builds(CompareAndSet, VALUES, VALUES)
)
COUNTER_ACTIONS = st.one_of(st.builds(Add, st.integers(-1, 2)), st.just(Read()))
REACH = st.integers(0, 30)


@st.composite
def intervals(draw: st.DrawFn, number: int) -> tuple[int, int]:
    """Around the moment at which the operation of this number takes effect: they overlap."""
    return 10 * number - draw(REACH), 10 * number + draw(REACH)


@st.composite
def executions(
    draw: st.DrawFn, initial: Any, sequential: Sequential, actions: Any, most: int
) -> list[Operation]:
    """What clients of a correct object saw; unknown outcomes took effect, or did not."""
    state, history = initial, []
    for number in range(draw(st.integers(1, most))):
        action = draw(actions)
        called, returned = draw(intervals(number))
        fate = draw(st.sampled_from(["known", "known", "known", "late", "never"]))
        if fate == "never":
            history.append(did(f"c{number}", called, None, action))
            continue
        result, state = sequential(state, action)
        if fate == "late":
            history.append(did(f"c{number}", called, None, action))
        else:
            history.append(did(f"c{number}", called, returned, action, result))
    return draw(st.permutations(history))


def mutated(draw: st.DrawFn, history: list[Operation]) -> list[Operation]:
    """With another result of one read or compare-and-set, or another time of any operation."""
    at = draw(st.integers(0, len(history) - 1))
    each = history[at]
    if each.returned is not None and each.result is not None and draw(st.booleans()):
        other = not each.result if isinstance(each.result, bool) else draw(st.integers(0, 3))
        each = attrs.evolve(each, result=other)
    else:
        each = shifted(draw, each)
    return [*history[:at], each, *history[at + 1 :]]


def shifted(draw: st.DrawFn, each: Operation) -> Operation:
    """At another time."""
    by = draw(st.integers(-40, 40))
    returned = each.returned if each.returned is None else each.returned + by
    return attrs.evolve(each, called=each.called + by, returned=returned)


# ---- logs ----


@attrs.frozen
class LogModel:
    """A log for the general search: its state is the committed end and the entries below.

    Attributes:
        indexes: where an append of unknown outcome may turn up.
    """

    indexes: tuple[int, ...]
    initial: tuple[int, tuple[tuple[int, bytes], ...]] = (0, ())

    def step(self, state: Any, operation: Operation) -> tuple[Any, ...]:
        end, entries = state
        match operation.action, operation.result:
            case Append(payload=payload), None:
                places = [index for index in self.indexes if index >= end]
                return tuple((index + 1, (*entries, (index, payload))) for index in places)
            case Append(payload=payload), int() as index:
                return ((index + 1, (*entries, (index, payload))),) if index >= end else ()
            case ReadLog(start=start, fresh=fresh), Shown() as shown:
                there = tuple(each for each in entries if start <= each[0] < shown.next)
                in_range = start <= shown.next <= max(start, shown.end)
                fits = in_range and there == shown.entries
                if not fits or (fresh and shown.end < end):
                    return ()
                return ((max(end, shown.end), entries),)
        return (state,)

    def only_looks(self, operation: Operation) -> bool:
        return False

    def hides(self, later: Operation) -> bool:
        return False

    def simplify(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        return operations

    def once(
        self, known: Sequence[Operation], open_ones: Sequence[Operation]
    ) -> dict[Any, list[int]]:
        return {}


def log_model(history: Iterable[Operation]) -> LogModel:
    found = [each.result for each in history if isinstance(each.result, Shown)]
    return LogModel(tuple(sorted({index for shown in found for index, _ in shown.entries})))


@st.composite
def log_executions(draw: st.DrawFn, most: int) -> list[Operation]:
    """What clients of a correct log saw. Payloads may be equal, indexes have gaps."""
    history: list[Operation] = []
    end, entries = 0, []
    ends = [0]
    for number in range(draw(st.integers(1, most))):
        called, returned = draw(intervals(number))
        client = f"c{number}"
        kind = draw(st.sampled_from(["append", "append", "lost", "never", "fresh", "stale"]))
        end += draw(st.sampled_from([0, 0, 0, 1]))
        if kind in ("fresh", "stale"):
            ends.append(end)
            seen = end if kind == "fresh" else draw(st.sampled_from(ends))
            start = draw(st.integers(0, seen + 1))
            upto = draw(st.integers(start, max(start, seen)))
            shown = tuple(each for each in entries if start <= each[0] < upto)
            action = ReadLog(start, kind == "fresh")
            history.append(did(client, called, returned, action, Shown(shown, upto, seen)))
            continue
        payload = draw(st.sampled_from([b"a", b"b", b"c"]))
        if kind == "append":
            history.append(did(client, called, returned, Append(payload), end))
        else:
            history.append(did(client, called, None, Append(payload)))
        if kind != "never":
            entries.append((end, payload))
            end += 1
            ends.append(end)
    return draw(st.permutations(history))


def mutated_log(draw: st.DrawFn, history: list[Operation]) -> list[Operation]:
    """With one index, one part of a read's answer, or the time of one operation changed."""
    at = draw(st.integers(0, len(history) - 1))
    each = history[at]
    what = draw(st.sampled_from(["time", "result", "result"]))
    if what == "time" or each.result is None:
        each = shifted(draw, each)
    elif isinstance(each.result, Shown):
        each = attrs.evolve(each, result=_other_answer(draw, each.result))
    else:
        each = attrs.evolve(each, result=draw(st.integers(0, 6)))
    return [*history[:at], each, *history[at + 1 :]]


def _other_answer(draw: st.DrawFn, shown: Shown) -> Shown:
    what = draw(st.sampled_from(["end", "next", "less", "other", "turned"]))
    if what == "end":
        return attrs.evolve(shown, end=draw(st.integers(0, 6)))
    if what == "next" or not shown.entries:
        return attrs.evolve(shown, next=draw(st.integers(0, 6)))
    entries = list(shown.entries)
    at = draw(st.integers(0, len(entries) - 1))
    if what == "less":
        del entries[at]
    elif what == "other":
        entries[at] = (entries[at][0], draw(st.sampled_from([b"a", b"b", b"c", b"d"])))
    else:
        entries.reverse()
    return attrs.evolve(shown, entries=tuple(entries))
