"""What the commands of a script about a whole DLedger group do: its members as they run on
simulated machines, and their faults.

    members SIZE key=value ...                settings as in `[groups.NAME]`; all are started
    append COUNT to=NAME                      to the leader, or to NAME: one record each
    leads | roles                             who leads; name the members anew
    read NAME ... | records NAME ... | survive NAME ...
    kill NAME ... | power-loss NAME ... | start NAME ... | cut NAME | heal
    disk NAME slow SECONDS | disk NAME heal | wait SECONDS

Who leads first is chance: a script calls that member `a`, the others `b`, `c` ...; `roles` does so
again. Records are numbered in the order in which they were given, so that a reader's view is
reported as `1 to 5`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final

import attrs
import trio
from dledger_words import span
from script_words import split

from actors.errors import NotStored, OutcomeUnknown
from actors.records import decoded
from actors.sim.dledger.ledger_bytes import SimLedgers, body_of, position_of
from actors.sim.dledger.members import SimGroups, committed_everywhere, ledger_config
from actors.sim.world import World
from actors.storage.log.commit_log import segment_path

GROUP: Final = "ledger"
LOOK_S: Final = 0.1
LEADER_WAIT_S: Final = 30.0
"""The others notice a leader's end, and elect: some seconds each."""
SLOW_S: Final = 3600.0
"""A slow disk stays slow until it is healed."""


@attrs.define(eq=False)
class LedgerStage:
    """One script.

    Attributes:
        setting: "ours"; no row of the guarantees is about upstream's.
        world: where everything lives.
    """

    setting: str
    world: World
    groups: SimGroups = attrs.field(init=False)
    _logs: SimLedgers = attrs.field(init=False)
    _node_of: dict[str, str] = attrs.field(factory=dict, init=False)
    _numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1), init=False)

    async def play(self, line: str) -> list[str]:
        """Carry out one command. Gives what it prints."""
        (name, *rest), options = split(line, self.setting)
        found = getattr(self, f"_{name.replace('-', '_')}", None)
        command: Callable[..., Awaitable[list[str]]] | None = found
        assert command is not None, f"no command {name!r}"
        return await command(*rest, **options)

    # ---- a group ----

    async def _members(self, size: str, **settings: Any) -> list[str]:
        network = self.world.network
        network.options = attrs.evolve(network.options, fragment_share=0.0)
        quick = {"heartbeat_interval_s": 0.5}
        config = ledger_config(int(size), {GROUP: {**quick, **settings}})
        self.groups = SimGroups(self.world, config)
        (group,) = config.ledger_groups_of("n0")
        self._logs = SimLedgers(self.groups, group)
        await self.groups.start()
        with trio.fail_after(LEADER_WAIT_S):
            while await committed_everywhere(self.groups, group, -1):  # noqa: ASYNC110
                await trio.sleep(LOOK_S)
        return await self._roles()

    async def _roles(self) -> list[str]:
        leader = await self._leader()
        assert leader is not None, "nobody leads"
        others = [name for name in self.groups.names if name != leader]
        self._node_of = dict(zip("abcde", (leader, *others), strict=False))
        return []

    async def _leader(self) -> str | None:
        """Who leads in the highest term, as soon as anybody does."""
        groups = self.groups
        with trio.move_on_after(LEADER_WAIT_S):
            while True:
                terms = {}
                for name in groups.names:
                    member = groups.running(name)
                    role = None if member is None else member.setups[GROUP].role_status.role
                    if role is not None and groups.leads(name, GROUP):
                        terms[role.term] = name
                if terms:
                    return terms[max(terms)]
                await trio.sleep(LOOK_S)
        return None

    def _alias(self, node: str) -> str:
        return next(alias for alias, name in self._node_of.items() if name == node)

    async def _leads(self) -> list[str]:
        leader = await self._leader()
        return ["nobody leads" if leader is None else f"{self._alias(leader)} leads"]

    # ---- clients ----

    async def _append(self, count: str, to: str = "") -> list[str]:
        """One after the other; how they ended."""
        outcomes: list[str] = []
        for _ in range(int(count)):
            node = self._node_of[to] if to else await self._leader()
            body = b"%d" % next(self._numbers)
            outcomes.append("nobody leads" if node is None else await self._one(node, body))
        return [what if n == 1 else f"{n} x {what}" for what, n in Counter(outcomes).items()]

    async def _one(self, node: str, body: bytes) -> str:
        try:
            await self.groups.heard(node, lambda member: member.parts[GROUP].append((body,)))
        except OutcomeUnknown as error:
            return f"{type(error).__name__}, outcome unknown"
        except NotStored as error:
            return f"{type(error).__name__}, nothing written"
        return "PUT_OK"

    async def _read(self, *aliases: str) -> list[str]:
        """What readers are shown at each of them."""
        lines = []
        for alias in aliases:
            bodies: list[bytes] = []
            start, shown = 0, 1
            while start < shown:
                part = self.groups.node(self._node_of[alias]).parts[GROUP]
                batch = decoded(await part.read(start, 1 << 20, False))
                bodies += [record.body for record in batch.records]
                start, shown = max(batch.next, start + 1), min(batch.acknowledged, batch.end)
            lines.append(f"{alias} shows {_ranges(bodies)}")
        return lines

    # ---- disks ----

    async def _records(self, *aliases: str) -> list[str]:
        """What lies in the files of each, whether it runs or not."""
        return [f"{alias} has {_ranges(self._bodies(alias))}" for alias in aliases]

    async def _survive(self, *aliases: str) -> list[str]:
        """What a power loss now leaves for sure, whatever luck the other pages have."""
        return [
            f"{alias}: {_ranges(self._bodies(alias, durable=True))} survive a power loss for sure"
            for alias in aliases
        ]

    def _bodies(self, alias: str, *, durable: bool = False) -> list[bytes]:
        node, logs = self._node_of[alias], self._logs
        found = []
        for index in itertools.count():
            entry = logs.entry(node, index)
            if not entry or (durable and self._durable(node, entry) != entry):
                return found
            if body_of(entry):
                found.append(body_of(entry))
        raise AssertionError("a log without an end")

    def _durable(self, node: str, entry: bytes) -> bytes:
        place, size = position_of(entry), self._logs.group.data_file_bytes
        path = segment_path(self._logs.layout(node).commit_log, place - place % size)
        return self._logs.disk(node).durable_range(path, place % size, place % size + len(entry))

    # ---- faults ----

    async def _kill(self, *aliases: str) -> list[str]:
        for alias in aliases:
            await self.groups.kill(self._node_of[alias])
        return []

    async def _power_loss(self, *aliases: str) -> list[str]:
        for alias in aliases:
            await self.groups.power_loss(self._node_of[alias])
        return []

    async def _start(self, *aliases: str) -> list[str]:
        await self.groups.start(*(self._node_of[alias] for alias in aliases))
        return []

    async def _cut(self, alias: str) -> list[str]:
        """Nothing passes between it and all others; what was on its way never comes."""
        node = self._node_of[alias]
        self.groups.cut(node)
        for other in self.groups.names:
            if other != node:
                self.groups.reset(node, other)
        await trio.lowlevel.checkpoint()
        return []

    async def _heal(self) -> list[str]:
        self.groups.heal()
        await trio.lowlevel.checkpoint()
        return []

    async def _disk(self, alias: str, what: str, seconds: str = "0") -> list[str]:
        faults = self.world.node(self._node_of[alias]).disk.faults
        if what == "slow":
            faults.slow_syncs(float(seconds), SLOW_S)
        else:
            assert what == "heal", what
            faults.clear()
        await trio.lowlevel.checkpoint()
        return []

    async def _wait(self, seconds: str) -> list[str]:
        await trio.sleep(float(seconds))
        return []


def _ranges(bodies: Iterable[bytes]) -> str:
    """`1 to 5, 7`: runs of numbers, in the order in which they stand."""
    runs: list[list[int]] = []
    for number in map(int, bodies):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(span(first, last) for first, last in runs) or "nothing"
