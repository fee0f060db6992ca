"""What every member of `core_world` has: lives, timers that end with them, and messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
from core_disk import Disk

if TYPE_CHECKING:
    from core_world import World

Step = Callable[[], None]


@attrs.define(eq=False)
class Life:
    """See the module's text."""

    world: World
    name: str
    disk: Disk
    life: int = 0
    up: bool = False
    ticks: dict[str, float] = attrs.field(factory=dict, init=False)

    def later(self, delay_s: float, step: Step) -> None:
        """Not if the member has stopped meanwhile."""
        life = self.life

        def only_in_this_life() -> None:
            if self.up and self.life == life:
                step()

        self.world.at(self.world.now_s + delay_s, only_in_this_life)

    def timer(self, key: str, deadline_s: float | None, step: Step) -> None:
        """One per key; a newer one replaces it."""
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
        """As the network pleases, and only between the same two lives."""
        world, there, life = self.world, self.world.members[peer], self.life
        for _ in range(world.copies_of_a_message(self.name, peer)):

            def arrive(target: int = there.life) -> None:
                if (
                    there.up
                    and there.life == target
                    and self.life == life
                    and world.open(self.name, peer)
                ):
                    step(there)

            world.at(world.now_s + world.rng.uniform(0.0, world.faults.delay_max_s), arrive)
