"""The part of a node's tree that keeps its store, for tests of stores of either kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest

from actors.errors import TriologError
from actors.runtime import (
    ActorDown,
    AutoShutdown,
    ChildSpec,
    Registry,
    Restart,
    Strategy,
    SupervisorSpec,
)
from actors.sim.disk import SimDisk, SimFile
from actors.sim.disk.fence import FencedDisk


@attrs.define
class Machine:
    """A process on a simulated disk, which it sees through a fence."""

    disk: Any
    registry: Registry = attrs.field(init=False)
    fence: FencedDisk = attrs.field(init=False)

    def kill(self) -> None:
        """The process ends: nothing that it still does has an effect."""
        self.fence.fence()
        self.disk.kill()

    def power_loss(self) -> None:
        """The machine loses power under the process."""
        self.fence.fence()
        self.disk.power_loss()


def store_tree(
    syncer: Callable[[], Any],
    store: Callable[[], Any],
    *,
    before: tuple[ChildSpec, ...] = (),
    behind: tuple[ChildSpec, ...] = (),
) -> SupervisorSpec:
    """As in `actors.trees`: a crash of the store or of its syncer ends the node."""
    storage = SupervisorSpec(
        strategy=Strategy.ONE_FOR_ALL,
        children=tuple(
            ChildSpec(name=name, start=start, restart=Restart.TEMPORARY, significant=True)
            for name, start in (("syncer", syncer), ("store", store))
        ),
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
    )
    kept = ChildSpec(name="storage", start=storage, restart=Restart.TEMPORARY, significant=True)
    return SupervisorSpec(
        strategy=Strategy.REST_FOR_ONE,
        children=(*before, kept, *behind),
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
    )


def leaves(error: BaseException) -> list[BaseException]:
    """The errors of nested groups."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves(each)]
    return [error]


@contextmanager
def dying() -> Iterator[None]:
    """What a block raises whose machine may die under it."""
    try:
        yield
    except (OSError, TriologError):
        pass
    except BaseExceptionGroup as group:
        others = [e for e in leaves(group) if not isinstance(e, OSError | TriologError | ActorDown)]
        if others:
            raise


class Died(Exception):
    """The process of a test."""


def die_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Let every operation that changes the disk raise once `steps` of them were done."""
    left = [steps]
    for kind, names in (
        (SimFile, ("pwrite", "resize", "sync")),
        (SimDisk, ("unlink", "rmtree", "mkdir", "rename", "sync_dir")),
    ):
        for name in names:
            real = getattr(kind, name)

            def counted(*args: Any, real: Any = real) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    raise Died
                return real(*args)

            monkeypatch.setattr(kind, name, counted)
