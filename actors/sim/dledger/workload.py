"""Clients of DLedger groups: they append, give up, read from any member, and record what they saw.

Every body is unique in its run; in a group with a state machine it is a command. An append whose
outcome no client learned stays open: its records may turn up, or not.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import attrs
import trio

from actors.config import DLedgerGroup
from actors.errors import NotMaster, NotStored, OutcomeUnknown, TriologError
from actors.log_types import Batch, Receipt
from actors.records import decoded
from actors.sim.dledger.machine import (
    COUNTERS,
    REGISTERS,
    decode_command,
    draw_action,
    encode_command,
)
from actors.sim.dledger.members import SimGroups, SimMember
from actors.sim.history import (
    AppendAnswered,
    AppendAsked,
    AppendRefused,
    AppendUnknown,
    History,
    MachineRead,
    Observation,
    OffsetsSeen,
    RecordsRead,
)
from actors.sim.judges.linear.registers import CompareAndSet, Read, Write
from actors.sim.workload import WorkloadOptions

READ_TIMEOUT_S: Final = 2.0
DEPOSED_PAUSE_S: Final = 0.3
BATCH_MAX: Final = 100
"""A bound on the records of an append, each of which writes a value of its own."""
MACHINE_SHARE: Final = 0.6
"""The share of reads that ask a state machine, where there is one."""


def draw_options(rng: random.Random) -> WorkloadOptions:
    """Draw a workload of another character for every seed, with five clients at least."""
    return WorkloadOptions(
        appenders=rng.randint(3, 5),
        pause_mean_s=rng.choice([0.7, 1.5, 3.0]),
        batch_max=rng.choice([1, 3, 8]),
        body_mean_bytes=rng.choice([20, 300, 1200]),
        give_up_share=rng.choice([0.0, 0.1, 0.3]),
        readers=rng.randint(2, 3),
        read_pause_mean_s=1.5,
    )


@attrs.define(eq=False)
class LedgerWorkload:
    """The clients of one group.

    Attributes:
        groups: the members that they ask.
        group: the group.
        history: records what they saw.
        options: how busy they are.
        rng: the source of their decisions.
        numbers: the numbers of operations, which all groups of a run share.
    """

    groups: SimGroups
    group: DLedgerGroup
    history: History
    options: WorkloadOptions
    rng: random.Random
    numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1))
    _leader: str = attrs.field(default="", init=False)
    _found: dict[str, Hashable] = attrs.field(
        factory=dict, init=False
    )  # by key, the value that was seen last

    async def run(self, until_s: float) -> None:
        """Run all clients until virtual time `until_s`; return when each has its answer."""
        async with trio.open_nursery() as nursery:
            for number in range(self.options.appenders):
                rng = random.Random(f"{self.rng.random()}:c{number}")
                nursery.start_soon(self._append, f"{self.group.name}/c{number}", rng, until_s)
            for number in range(self.options.readers):
                rng = random.Random(f"{self.rng.random()}:r{number}")
                nursery.start_soon(self._read, rng, number == 0, until_s)
            rng = random.Random(f"{self.rng.random()}:deposed")
            nursery.start_soon(self._read_deposed, rng, until_s)

    async def append_now(self, bodies: tuple[bytes, ...]) -> int:
        """Append once, to the leader, and record it. Returns: the last index; -1 without a
        receipt.
        """
        return await self._one_append("last", self.rng, bodies, trio.CancelScope())

    async def append_some(self, rng: random.Random, count: int, size_bytes: int) -> int:
        """Append `count` records of about that size, as `append_now` does."""
        number = next(self.numbers)
        bodies = tuple(
            body + rng.randbytes(size_bytes) for body in self._bodies(rng, number, count)
        )
        return await self.append_now(bodies)

    # ---- appending ----

    async def _append(self, client: str, rng: random.Random, until_s: float) -> None:
        options = self.options
        while trio.current_time() < until_s:
            await trio.sleep(rng.expovariate(1 / options.pause_mean_s))
            count = rng.randint(1, options.batch_max)
            bodies = self._bodies(rng, next(self.numbers), count)
            scope = trio.CancelScope()
            if rng.random() < options.give_up_share:
                scope.deadline = trio.current_time() + rng.choice([0.0, 0.001, 0.005, 0.1, 1.0])
            await self._one_append(client, rng, bodies, scope)

    def _bodies(self, rng: random.Random, number: int, count: int) -> tuple[bytes, ...]:
        return tuple(self._body(rng, number, each) for each in range(count))

    def _body(self, rng: random.Random, number: int, each: int) -> bytes:
        size = min(
            int(rng.expovariate(1 / self.options.body_mean_bytes)), self.options.body_max_bytes
        )
        padding = rng.randbytes(size)
        name = f"{number}.{each}"
        if not self.groups.with_machines:
            return f"{name};".encode() + padding
        key, action = draw_action(rng, number * BATCH_MAX + each, self._found)
        return encode_command(name, key, action, padding)

    def _learn(self, bodies: tuple[bytes, ...], receipt: Receipt) -> None:
        """Remember the values that registers had: a compare-and-set may still find them."""
        for body, result in zip(bodies, receipt.results, strict=False):
            match decode_command(body), result:
                case (key, Write(value=value)), _:
                    self._found[key] = value
                case (key, CompareAndSet(value=value)), True:
                    self._found[key] = value
                case (key, Read()), int() | None if not isinstance(result, bool):
                    self._found[key] = result

    def _guess(self, rng: random.Random) -> str:
        """Return the likely leader: the member that answered last, or any."""
        return self._leader or rng.choice(self.group.members)

    async def _one_append(
        self, client: str, rng: random.Random, bodies: tuple[bytes, ...], scope: trio.CancelScope
    ) -> int:
        number, group = next(self.numbers), self.group.name
        fields = {"client": client, "operation": number}
        self.history.now(AppendAsked, **fields, bodies=bodies, group=group)
        name, last = self._guess(rng), -1
        answer: Callable[..., Observation] = partial(AppendUnknown, error="given up")
        try:
            with scope:
                try:
                    receipt = await self.groups.heard(
                        name, lambda member: member.parts[group].append(bodies)
                    )
                    self._leader, last = name, receipt.last
                    self._learn(bodies, receipt)
                    answer = partial(AppendAnswered, receipt=receipt)
                except NotStored as refused:
                    self._leader = (isinstance(refused, NotMaster) and refused.hint) or ""
                    answer = partial(AppendRefused, error=repr(refused))
                except OutcomeUnknown as unknown:
                    self._leader, answer = "", partial(AppendUnknown, error=repr(unknown))
        finally:  # also where the client is stopped: the records may turn up
            self.history.now(answer, **fields)
        return last

    # ---- reading ----

    async def _read(self, rng: random.Random, fresh: bool, until_s: float) -> None:
        positions = [0]
        while trio.current_time() < until_s:
            await trio.sleep(rng.expovariate(1 / self.options.read_pause_mean_s))
            name = self._guess(rng) if fresh else rng.choice(self.group.members)
            with trio.move_on_after(READ_TIMEOUT_S):
                try:
                    if self.groups.with_machines and rng.random() < MACHINE_SHARE:
                        # A deposed leader may still believe that it leads.
                        asked = rng.choice([name, rng.choice(self.group.members)])
                        await self._one_value(rng, asked)
                    else:
                        await self._one_read(rng, name, positions, fresh)
                except NotMaster as refused:
                    self._leader = refused.hint or ""
                except TriologError:
                    self._leader = ""  # it is off, was killed meanwhile, or cannot say

    async def _read_deposed(self, rng: random.Random, until_s: float) -> None:
        """While several members believe that they lead, read from each: a client may not have
        learned of the newest.
        """
        name = self.group.name
        while trio.current_time() < until_s:
            await trio.sleep(rng.expovariate(1 / DEPOSED_PAUSE_S))
            leaders = [each for each in self.group.members if self.groups.leads(each, name)]
            for leader in leaders if len(leaders) > 1 else ():
                with trio.move_on_after(READ_TIMEOUT_S), suppress(TriologError):
                    await self._one_read(rng, leader, [0], True)

    async def _one_read(
        self, rng: random.Random, name: str, positions: list[int], fresh: bool
    ) -> None:
        groups, group, history = self.groups, self.group.name, self.history
        boot = groups.world.node(name).boots
        asked = len(history.observations)
        offsets = await groups.heard(name, lambda member: member.offsets(group))
        fields: dict[str, Any] = {"node": name, "boot": boot, "group": group}
        history.now(OffsetsSeen, **fields, asked=asked, offsets=offsets)
        start = max(offsets.min, rng.choice([positions[-1], rng.choice(positions)]))
        size = rng.choice([1, 1000, 100_000])
        asked = len(history.observations)
        batch = await groups.heard(name, partial(_ask, group, start, size, fresh))
        seen = RecordsRead(
            at_s=trio.current_time(), **fields, asked=asked, start=start, batch=batch, fresh=fresh
        )
        if (await groups.heard(name, lambda member: member.offsets(group))).min <= start:
            history.add(seen)  # else it was led past entries that have expired meanwhile
        if batch.next > positions[-1]:
            positions.append(batch.next)

    async def _one_value(self, rng: random.Random, name: str) -> None:
        groups, group, history = self.groups, self.group.name, self.history
        key = rng.choice([*REGISTERS, *COUNTERS])
        boot = groups.world.node(name).boots
        asked = len(history.observations)
        value = await groups.heard(name, lambda member: member.fresh_value(group, key))
        fields: dict[str, Any] = {"node": name, "boot": boot, "group": group}
        history.now(MachineRead, **fields, asked=asked, key=key, value=value)


async def _ask(group: str, start: int, size: int, fresh: bool, member: SimMember) -> Batch:
    if fresh:
        return await member.fresh_read(group, start, size)
    return decoded(await member.parts[group].read(start, size, False))
