"""The catalogue's rules hold for every event class, and the codec keeps every event."""

import re
import types
import typing
from typing import Any

import attrs
import pytest

from actors.events import catalogue, codec
from actors.events.codec import UnknownEvent
from actors.events.node import NodeStopped

SCALARS: frozenset[object] = frozenset({int, float, str, bool})
WHO_EMITS = re.compile(r"\b(By|Emitted|emitted)\b")


def wrong_in(cls: type) -> list[str]:
    """What is wrong with an event class, one sentence each."""
    problems = []
    name = cls.__name__
    hints = typing.get_type_hints(cls)
    for field in attrs.fields(cls):
        if field.name in catalogue.RESERVED:
            problems.append(f"{name}.{field.name}: the name belongs to the envelope")
        if field.name.startswith("_"):
            problems.append(f"{name}.{field.name}: a field of an event is public")
        if not _is_allowed(hints[field.name]):
            problems.append(f"{name}.{field.name}: {hints[field.name]} is no type for an event")
    if cls.__dict__.get("__setattr__") is None or not hasattr(cls, "__slots__"):
        problems.append(f"{name} is not @attrs.frozen")
    if not (cls.__doc__ or "").strip():
        problems.append(f"{name} has no docstring")
    return problems


def _is_allowed(hint: object) -> bool:
    """int, float, str, bool, None beside them, and tuples of them."""
    if hint in SCALARS:
        return True
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return all(arg is Ellipsis or _is_allowed(arg) for arg in args)
    if origin in (types.UnionType, typing.Union):
        return all(arg is type(None) or _is_allowed(arg) for arg in args)
    return False


@pytest.mark.parametrize("kind", sorted(codec.KINDS))
def test_every_event_follows_the_rules(kind: str) -> None:
    cls = codec.KINDS[kind]
    assert wrong_in(cls) == []
    assert cls.__name__ == kind
    assert WHO_EMITS.search(cls.__doc__ or ""), "the docstring says who emits it, and when"


def test_a_field_has_one_type_in_all_events() -> None:
    """Tables of events have one column for it, in which it may be null."""
    found: dict[str, set[frozenset[Any]]] = {}
    for cls in codec.KINDS.values():
        for name, hint in typing.get_type_hints(cls).items():
            parts = typing.get_args(hint) or (hint,)
            found.setdefault(name, set()).add(frozenset(parts) - {type(None)})
    assert {name: types for name, types in found.items() if len(types) > 1} == {}


def test_all_rooms_are_in_the_catalogue() -> None:
    assert {"client", "ha", "node", "runtime"} <= set(catalogue.rooms())
    assert {"SlaveAcked", "ActorStarted", "NodeStopped", "APIListening"} <= set(codec.KINDS)


def _example(hint: Any) -> Any:
    """A value of an event field's type that is not its default."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return tuple(_example(arg) for arg in args if arg is not Ellipsis)
    if args:
        return _example(args[0])
    return {int: 2**62, float: 0.1, str: 'ä "\n\\', bool: True}[hint]


def instances() -> list[object]:
    made = []
    for cls in codec.KINDS.values():
        hints = typing.get_type_hints(cls)
        made.append(cls(**{field.name: _example(hints[field.name]) for field in attrs.fields(cls)}))
    return made


@pytest.mark.parametrize("event", instances(), ids=lambda event: type(event).__name__)
def test_every_event_survives_the_codec(event: object) -> None:
    line = codec.LineEncoder("n0", 3).encode(7, "/n0/x", 2, 1_700_000_000_000_000, event)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    logged = codec.decode_line(line)
    assert (logged.node, logged.boot, logged.seq) == ("n0", 3, 7)
    assert (logged.path, logged.incarnation, logged.ts_us) == ("/n0/x", 2, 1_700_000_000_000_000)
    assert logged.event == event
    assert logged.kind == type(event).__name__


def test_a_line_has_the_documented_keys_in_order() -> None:
    line = codec.LineEncoder("n0", 1).encode(1, "/n0", 0, 5, NodeStopped(reason="ordered"))
    assert line == (
        b'{"node":"n0","boot":1,"seq":1,"path":"/n0","incarnation":0,"ts_us":5,'
        b'"kind":"NodeStopped","reason":"ordered"}\n'
    )


def test_an_event_without_fields_is_a_whole_line(monkeypatch: pytest.MonkeyPatch) -> None:
    @attrs.frozen(kw_only=True)
    class Bare:
        """Emitted by nobody."""

    monkeypatch.setitem(codec.KINDS, "Bare", Bare)
    line = codec.LineEncoder("n0", 1).encode(1, "/n0", 0, 5, Bare())
    assert line.endswith(b'"kind":"Bare"}\n')


def test_unknown_kinds_and_fields_are_read() -> None:
    head = b'{"node":"n0","boot":1,"seq":1,"path":"/n0","incarnation":0,"ts_us":5,'
    known = codec.decode_line(head + b'"kind":"NodeStopped","reason":"ordered","later":1}')
    assert known.event == NodeStopped(reason="ordered")
    unknown = codec.decode_line(head + b'"kind":"Later","b":[1],"a":null}')
    assert unknown.event == UnknownEvent(kind="Later", fields=(("b", [1]), ("a", None)))
    assert unknown.kind == "Later"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b'{"node":"n0","boot":1,"seq":1',
        b'{"node":"n0","boot":"1","seq":1,"path":"/","incarnation":0,"ts_us":5,"kind":"X"}',
        b'{"node":"n","boot":1,"seq":1,"path":"/","incarnation":0,"ts_us":5,"kind":"NodeStopped"}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(codec.EventFormatError, match="not an event"):
        codec.decode_line(line)


def test_a_class_outside_the_catalogue_is_refused() -> None:
    @attrs.frozen(kw_only=True)
    class NodeStopped:
        """Bears the name of an event and is none."""

    with pytest.raises(TypeError, match="not in the catalogue"):
        codec.LineEncoder("n0", 1).encode(1, "/n0", 0, 5, NodeStopped())


def test_paths_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "PATHS_KEPT_MAX", 3)
    encoder = codec.LineEncoder("n0", 1)
    for number in range(10):
        line = encoder.encode(number, f"/n0/{number}", 1, 5, NodeStopped(reason="x"))
        assert codec.decode_line(line).path == f"/n0/{number}"


def test_the_rules_find_what_breaks_them() -> None:
    @attrs.frozen(kw_only=True)
    class Broken:
        kind: str
        data: bytes
        names: list[str]
        fine: tuple[int, ...] | None

    @attrs.define
    class Loose:
        """Not frozen."""

    problems = wrong_in(Broken)
    assert [problem.split(":")[0] for problem in problems[:3]] == [
        "Broken.kind",
        "Broken.data",
        "Broken.names",
    ]
    assert problems[3:] == ["Broken has no docstring"]
    assert wrong_in(Loose) == ["Loose is not @attrs.frozen"]
