"""The catalogue: every event class of every room, found by itself.

A room's events live in one module of this package (`runtime`, `store`, `ha`, `client`, `node`).
Every public attrs class of such a module is an event; its class name is its `kind`. So a new event
needs its class and nothing else, and none can be emitted that readers do not know.
"""

from __future__ import annotations

import importlib
import pkgutil
import types
import typing

import attrs

import actors.events as package

NOT_ROOMS = frozenset({"catalogue", "codec", "sink"})
"""Modules of this package that hold no event classes."""

RESERVED = frozenset({"node", "boot", "seq", "path", "incarnation", "ts_us", "kind"})
"""The envelope's keys stand in the same flat line, so no event field may bear their names."""

_SCALARS: frozenset[object] = frozenset({int, float, str, bool})


class CatalogueError(TypeError):
    """An event class breaks the catalogue's rules."""


def rooms() -> tuple[str, ...]:
    """The names of the modules that hold event classes, sorted."""
    names = {found.name for found in pkgutil.iter_modules(package.__path__)}
    return tuple(sorted(names - NOT_ROOMS))


def collect() -> dict[str, type]:
    """Every event class by its kind, by room and name. Raises: CatalogueError for a name twice."""
    kinds: dict[str, type] = {}
    for room in rooms():
        module = importlib.import_module(f"{package.__name__}.{room}")
        for name, cls in sorted(vars(module).items()):
            if _is_event(module, name, cls):
                if name in kinds:
                    raise CatalogueError(f"{name} is in {kinds[name].__module__} and in {room}")
                kinds[name] = cls
    return kinds


def check(cls: type) -> list[str]:
    """What is wrong with an event class, one sentence each. A test checks the catalogue."""
    problems = []
    name = cls.__name__
    hints = typing.get_type_hints(cls)
    for field in attrs.fields(cls):
        if field.name in RESERVED:
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


def _is_event(module: types.ModuleType, name: str, value: object) -> bool:
    return (
        isinstance(value, type)
        and value.__module__ == module.__name__
        and not name.startswith("_")
        and attrs.has(value)
    )


def _is_allowed(hint: object) -> bool:
    """int, float, str, bool, None beside them, and tuples of them."""
    if hint in _SCALARS:
        return True
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return all(arg is Ellipsis or _is_allowed(arg) for arg in args)
    if origin in (types.UnionType, typing.Union):
        return all(arg is type(None) or _is_allowed(arg) for arg in args)
    return False
