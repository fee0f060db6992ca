"""What a script's commands do: a simulated cluster, its faults, and raw peers beside it.

A stage plays one script under one setting. Outputs are coarse on purpose (outcomes, whole records,
offsets that the script itself chose), so that they hold whatever the schedule.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio
from script_core import CoreCommands
from script_raw import ADDRESSES, BODY_BYTES, LOOK_S, PORT, QUIET_S, RawCommands
from script_words import Options, split

from actors.config import ClassicGroup, ClusterConfig, MasterNode, SlaveNode, loads, validate
from actors.env.protocols import Address
from actors.errors import ConfigError, NotStored, OutcomeUnknown, TriologError
from actors.ha import client_messages
from actors.sim.classic.judges.derived import queue_units
from actors.sim.cluster import SMALL, SimCluster
from actors.sim.machines import DATA_DIR
from actors.sim.world import World
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import segment_bases, segment_path
from actors.trees.group_setup import GroupPaths
from wire.files.commit_log import RecordHead, scan_heads

GROUP = "orders"
READ_BYTES = 1 << 20


@attrs.define(eq=False)
class Stage:
    """One script under one setting.

    Attributes:
        setting: "upstream" or "ours".
        world: where everything lives.
        nursery: for raw peers.
    """

    setting: str
    world: World
    nursery: trio.Nursery
    cluster: SimCluster = attrs.field(init=False)
    _raw: RawCommands = attrs.field(init=False)
    _core: CoreCommands = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._raw = RawCommands(self.world, self.nursery, lambda: self._append("1"))
        self._core = CoreCommands(self._compat())

    async def play(self, line: str) -> list[str]:
        """Carry out one command. Gives what it prints."""
        words, options = split(line, self.setting)
        name, *rest = words
        if self._raw.knows(name):
            return await self._raw.play(name, *rest)
        found = [getattr(who, f"_{name.replace('-', '_')}", None) for who in self._who()]
        command: Callable[..., Awaitable[list[str]]] | None = next(filter(None, found), None)
        assert command is not None, f"no command {name!r}"
        return await command(*rest, **options)

    def _who(self) -> tuple[object, ...]:
        return self, self._raw, self._core

    def _compat(self) -> Options:
        return {"compat": "upstream"} if self.setting == "upstream" else {}

    # ---- a cluster ----

    async def _cluster(
        self,
        slaves: int = 2,
        java: str = "",
        latency_ms: float = 0.5,
        any_hour: bool = False,
        **settings: Any,
    ) -> list[str]:
        """n0 is the master, n1 ... its slaves; those in `java` are raw ends in the script's hand.
        Ours are started. With `any_hour` old files go whatever the clock shows.
        """
        if any_hour:
            settings["delete_when_hours"] = tuple(range(24))
        names = ["n0", *(f"n{number + 1}" for number in range(slaves))]
        kind = {name: "java" if name in java.split(",") else "python" for name in names}
        group = ClassicGroup(
            name=GROUP,
            master=MasterNode("n0", kind["n0"]),
            slaves=tuple(SlaveNode(name, kind[name]) for name in names[1:]),
            port=PORT,
            **{**SMALL, **self._compat(), **settings},
        )
        config = ClusterConfig(
            name="script",
            data_dir=DATA_DIR,
            nodes={name: ADDRESSES[name] for name in names},
            groups={GROUP: group},
            api_port=8790,
        )
        validate(config)
        self.world.network.options = attrs.evolve(
            self.world.network.options,
            fragment_share=0.0,
            latency_min_s=latency_ms / 1000,
            latency_mean_s=latency_ms / 1000,
        )
        self.cluster = SimCluster(self.world, config)
        for name, address in ADDRESSES.items():
            if name not in self.cluster.names:
                self.world.network.add_host(name, address)
        await self.cluster.start()
        if kind["n0"] == "python":
            await self._until_followed()
        return []

    async def _until_followed(self) -> None:
        """Until the master knows all slaves of ours."""
        wanted = len(self.cluster.names) - 1

        async def followed() -> bool:
            return sum(row["in_sync"] for row in await self._rows()) >= wanted

        with trio.fail_after(60.0):
            while not await followed():  # noqa: ASYNC110
                await trio.sleep(LOOK_S)

    async def _rows(self) -> list[Any]:
        status = await self.cluster.node(self._master_name).status()
        peers = status["groups"][GROUP]["peers"]
        return [{"node": peer["node"], **peer["details"]} for peer in peers]

    @property
    def _master_name(self) -> str:
        return self.cluster.config.groups[GROUP].master

    async def _append(
        self, count: str, how: str = "", size: int = BODY_BYTES, within: float = 0.0
    ) -> list[str]:
        """So many appends of one record, one after the other or `at-once`; how they ended."""
        outcomes: list[str] = []
        log = self.cluster.log(GROUP)

        async def one() -> None:
            try:
                await log.append([b"a" * size])
            except OutcomeUnknown as error:
                outcomes.append(f"{error.status}, outcome unknown")
            except NotStored as error:
                outcomes.append(f"{error.status}, nothing written")
            else:
                outcomes.append("PUT_OK")

        began_s = trio.current_time()
        if how == "at-once":
            async with trio.open_nursery() as nursery:
                for _ in range(int(count)):
                    nursery.start_soon(one)
        else:
            for _ in range(int(count)):
                await one()
        lines = [_times(outcome, times) for outcome, times in Counter(outcomes).items()]
        if within:
            late = trio.current_time() - began_s > within
            lines.append(f"{'not ' if late else ''}within {within:g} s")
        return lines

    async def _read(self, name: str) -> list[str]:
        batch = await self.cluster.log(GROUP, name).read(0, max_bytes=READ_BYTES)
        return [f"{len(batch.records)} records are shown"]

    async def _records(self, *names: str) -> list[str]:
        """Whole records in the logs on the disks, whether the nodes run or not."""
        return [f"{name}: {len(self._heads(name))} records" for name in names]

    async def _survive(self, *names: str) -> list[str]:
        """Whole records that a power loss now leaves, whatever luck the other pages have."""
        return [
            f"{name}: {len(self._heads(name, durable=True))} records survive a power loss for sure"
            for name in names
        ]

    async def _queue_offsets(self, name: str) -> list[str]:
        """Each record's number in its queue, and how many the queue has units for."""
        numbers = " ".join(str(head.queue_offset) for head in self._heads(name))
        disk, layout = self.world.node(name).disk, self._layout(name)
        units = queue_units(disk, layout.consume_queue)
        return [
            f"records are numbered {numbers}",
            f"the queue shows {len(units.get((GROUP, 0), ()))} of them",
        ]

    def _layout(self, name: str) -> StoreLayout:
        return StoreLayout(self.cluster.config.group_dir(name, GROUP))

    def _heads(self, name: str, *, durable: bool = False) -> list[RecordHead]:
        disk, folder = self.world.node(name).disk, self._layout(name).commit_log
        found: list[RecordHead] = []
        for base in segment_bases(disk, folder) if disk.exists(folder) else ():
            path = segment_path(folder, base)
            data = disk.durable(path) if durable else disk.inode(path).read(0, READ_BYTES)
            found += scan_heads(data or b"", physical_offset=base)[0]
        return found

    # ---- nodes and faults ----

    async def _kill(self, *names: str) -> list[str]:
        for name in names:
            await self.cluster.kill(name)
        await self._wait(QUIET_S)
        return []

    async def _power_loss(self, *names: str) -> list[str]:
        for name in names:
            await self.cluster.power_loss(name)
        await self._wait(QUIET_S)
        return []

    async def _start(self, *names: str) -> list[str]:
        await self.cluster.start(*names)
        return await self._wait(1.0)

    async def _lose_log(self, name: str) -> list[str]:
        """Remove the group's files of a node that is off."""
        self.world.node(name).disk.rmtree(self.cluster.config.group_dir(name, GROUP))
        return []

    async def _promote(self, name: str) -> list[str]:
        """At an operator's word, whoever is silent."""
        await self.cluster.node(name).promote(GROUP, name, True)
        return []

    async def _master_by_file(self, name: str) -> list[str]:
        """Stop in order, make `name` the master in the cluster file, start."""
        await self.cluster.stop()
        config = self.cluster.config
        group = config.groups[GROUP]
        slaves = tuple(SlaveNode(each) for each in group.members if each != name)
        changed = attrs.evolve(group, master=MasterNode(name), slaves=slaves)
        self.cluster.config = attrs.evolve(config, groups={GROUP: changed})
        await self.cluster.start()
        await self._until_followed()
        return []

    async def _cut(self, name: str) -> list[str]:
        """Nothing passes between a node and all others, either way; the master gives it up."""
        self.cluster.cut(name)
        group = self.cluster.config.groups[GROUP]
        return await self._wait(group.ha_housekeeping_interval_s + 1.0)

    async def _heal(self) -> list[str]:
        self.cluster.heal()
        return await self._wait(10.0)

    async def _disk(self, name: str, what: str, *rest: str) -> list[str]:
        """`fail OPERATION ERRNO PATH-PART`, `slow SECONDS FOR-SECONDS` or `heal`."""
        faults = self.world.node(name).disk.faults
        match what, rest:
            case "fail", (operation, code, part):
                number = getattr(errno, code)
                faults.fail(operation, number, path_part=part, times=1_000_000)  # type: ignore[arg-type]
            case "slow", (extra_s, for_s):
                faults.slow_syncs(float(extra_s), float(for_s))
            case _:
                faults.clear()
        return []

    async def _wait(self, seconds: str | float) -> list[str]:
        await trio.sleep(float(seconds))
        return []

    async def _died(self, name: str) -> list[str]:
        """What a node has died of."""
        failure = self.world.node(name).take_failure()
        if failure is None:
            return [f"{name} runs" if self.cluster.runs(name) else f"{name} is off"]
        leaves = _leaves(failure)
        return [f"{name} died: {'StorageError' if 'StorageError' in leaves else sorted(leaves)}"]

    # ---- looking ----

    async def _slaves(self) -> list[str]:
        """The master's rows."""
        return [
            f"{row['node']}: {row['state']}, acknowledged {row['ack_bytes']}"
            + (", in sync" if row["in_sync"] else "")
            + (f"; before: {row['last_error']}" if row["last_error"] else "")
            for row in await self._rows()
        ]

    async def _client(self, name: str) -> list[str]:
        """A slave's own side."""
        own = (await self.cluster.node(name).status())["groups"][GROUP]
        last, state = own["link"]["error"], own["link"]["details"]["state"]
        return [
            f"{state}, {'' if own['diverged'] else 'not '}called diverged",
            *([f"before: {last}"] if last else []),
        ]

    async def _connections(self) -> list[str]:
        status = await self.cluster.node(self._master_name).status()
        return [f"{status['groups'][GROUP]['details']['connections_count']} open connections"]

    async def _events(self, kind: str) -> list[str]:
        count = sum(type(seen.event).__name__ == kind for seen in self.world.events)
        return [f"{kind}: {'seen' if count else 'never'}"]

    async def _check(self, setting: str, *words: str) -> list[str]:
        """What `check` says of a group with this line in it."""
        text = (
            'version = 1\nname = "s"\ndata_dir = "/d"\nnodes = { n0 = "10.0.0.1", n1 = "10.0.0.2" }'
            '\n[groups.orders]\nmode = "classic"\nmaster = "n0"\nslaves = ["n1"]\n'
        )
        more = "".join(f'{key} = "{value}"\n' for key, value in self._compat().items())
        line = f"{setting} {' '.join(words)}".replace(":", "=").replace("+", "\n")
        try:
            loads(f"{text}{more}{line}\n", "f.toml")
        except ConfigError as error:
            return list(error.problems)
        return ["accepted"]

    async def _set_master(self, name: str, master: str) -> list[str]:
        """Tell a slave's client another address of its master."""
        node = self.cluster.node(name)
        assert node._system is not None
        ref = node._system.ref(GroupPaths(f"/{name}/{GROUP}").ha_client)
        await ref.tell(client_messages.SetMaster(address=Address(ADDRESSES[master], PORT)))
        return await self._wait(1.0)


def _times(what: str, count: int) -> str:
    return what if count == 1 else f"{count} x {what}"


def _leaves(error: BaseException) -> set[str]:
    if isinstance(error, BaseExceptionGroup):
        return set().union(*(_leaves(each) for each in error.exceptions))
    return {type(error).__name__}


ERRORS = (TriologError, OSError)
"""What a command may fail with as its outcome; all else is the script's mistake."""
