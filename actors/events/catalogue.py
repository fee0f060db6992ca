"""The catalogue: every event class of every room, found by itself.

A room's events live in one module of this package (`runtime`, `store`, `ha`, `client`, `node`).
Every public attrs class of such a module is an event; its class name is its `kind`. So a new event
needs its class and nothing else, and none can be emitted that readers do not know.
"""

from __future__ import annotations

import importlib
import pkgutil
import types

import attrs

import actors.events as package

NOT_ROOMS = frozenset({"catalogue", "codec", "sink"})
"""Modules of this package that hold no event classes."""

RESERVED = frozenset({"node", "boot", "seq", "path", "incarnation", "ts_us", "kind"})
"""The envelope's keys stand in the same flat line, so no event field may bear their names."""


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


def _is_event(module: types.ModuleType, name: str, value: object) -> bool:
    return (
        isinstance(value, type)
        and value.__module__ == module.__name__
        and not name.startswith("_")
        and attrs.has(value)
    )
