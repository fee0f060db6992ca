"""What a simulated history brings along: its nodes, its clients, its faults, its judges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import trio

from actors.sim.history import History
from actors.sim.machines import SimMachines
from actors.sim.runner import Runner


class Load(Protocol):
    """Clients that append and read."""

    async def run(self, until_s: float) -> None: ...


class Stage(ABC):
    """See the module's text.

    Attributes:
        machines: the nodes, not started.
        history: what is observed, and judged as it comes.
        faults: carries scripts out.
    """

    machines: SimMachines[Any]
    history: History
    faults: Runner

    @abstractmethod
    def loads(self) -> Sequence[Load]:
        """The clients; asked for once, when all nodes are up."""

    @abstractmethod
    async def converge(self, nursery: trio.Nursery) -> None:
        """Return once all are whole, and the same everywhere.

        Args:
            nursery: for what has to go on meanwhile; it is cancelled behind it.

        Raises: NotConverged.
        """

    @abstractmethod
    def judge(self) -> None:
        """Look at what is left when all nodes have stopped."""

    @abstractmethod
    def counts(self) -> Mapping[str, int]:
        """Count what was observed, by the names of the mode's marks."""
