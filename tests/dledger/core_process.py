"""What every member of `core_world` is: a process with incarnations, timers and messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
from core_disk import Disk

if TYPE_CHECKING:
    from core_world import World

Step = Callable[[], None]


@attrs.define(eq=False)
class Process:
    """See the module's text."""

    world: World
    name: str
    disk: Disk
    incarnation: int = 0
    up: bool = False
    ticks: dict[str, float] = attrs.field(factory=dict, init=False)

    def later(self, delay_s: float, step: Step) -> None:
        """Take a step after a delay, unless the member has stopped meanwhile."""
        incarnation = self.incarnation

        def only_in_this_incarnation() -> None:
            if self.up and self.incarnation == incarnation:
                step()

        self.world.at(self.world.now_s + delay_s, only_in_this_incarnation)

    def timer(self, key: str, deadline_s: float | None, step: Step) -> None:
        """Take a step at a deadline; a newer timer of the same key replaces this one."""
        if deadline_s is None:
            self.ticks.pop(key, None)
            return
        if self.ticks.get(key) == deadline_s:
            return
        self.ticks[key] = deadline_s

        def if_still_wanted() -> None:
            if self.ticks.get(key) == deadline_s:
                del self.ticks[key]
                step()

        self.later(max(0.0, deadline_s - self.world.now_s), if_still_wanted)

    def send(self, peer: str, step: Callable[[Any], None]) -> None:
        """Take a step at a peer, as the network allows, if neither has been restarted meanwhile."""
        world, there, incarnation = self.world, self.world.members[peer], self.incarnation
        for _ in range(world.copies_of_a_message(self.name, peer)):

            def arrive(target: int = there.incarnation) -> None:
                if (
                    there.up
                    and there.incarnation == target
                    and self.incarnation == incarnation
                    and world.open(self.name, peer)
                ):
                    step(there)

            world.at(world.now_s + world.rng.uniform(0.0, world.faults.delay_max_s), arrive)
