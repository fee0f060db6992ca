"""Runs of three controllers and three replicas, from a seed: processes that are killed, machines
that lose power or stand still, links that are cut, masters that change their sync state sets. What
was decided and told is judged after each:

OneLog: all controllers apply the same events in the same order.
ElectedFromTheSet: who is elected was in the sync state set before, or is the first of all.
TheMasterIsInTheSet: no change of the set leaves out the master of that moment.
ToldWhatWasDecided: a role that a replica takes is one that was decided.
NothingPromisedIsLost: a change of the set that was answered as done is decided.
NothingOld: an answer tells of no older epoch than one that was decided before it was asked for.
RolesAscend: a replica takes roles of ascending epochs, from its start on.
IdsStay: an id belongs to one store, and a store keeps its id; none is lost.
Converges: once all is mended, there is a living master, all replicas have its role, and the
controllers know the same sets.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

import attrs
import pytest
import trio
from controller_kit import NAME
from controllers_world import Broker, Controllers, StreamOver
from replicas_world import ReplicaNode, replicas

from actors.controller.core.broker_sets import BrokerSets
from actors.controller.machine import ControllerMachine
from actors.events import broker as broker_events
from actors.group_status import group_statuses
from actors.state_machine import LogEntry
from wire.broker import controller as said
from wire.broker import controller_events as changes
from wire.broker.codes import ResponseCode
from wire.broker.controller_events import decode_event

STEPS = 15
PAUSE_MAX_S = 8.0
"""Between two faults."""
DOWN_MAX_S = 14.0
"""How long a machine is away at the most; more than a replica's announced time."""
MENDED_S = 60.0
"""Within which all is well once all faults have ended."""
ANSWER_S = 4.0
READ_S = 20.0
"""Longer than a controller stands still: it answers then what it was asked before."""
FAILS = 0.2
"""The share of changes of a role that fail."""


class Objection(AssertionError):
    """A judge has seen what must not happen."""


@attrs.define
class Truth:
    """What was decided, by the entries that the controllers apply.

    Attributes:
        sets: as they are after all of them.
        bodies: of the entries, by index.
        altered: the numbers and members of sync state sets that masters asked for.
        epochs: by epoch, the master, None for nobody, and when the first controller applied it.
    """

    sets: BrokerSets = attrs.field(factory=BrokerSets)
    bodies: dict[int, bytes] = attrs.field(factory=dict)
    epochs: dict[int, tuple[int | None, float]] = attrs.field(factory=dict)
    altered: set[tuple[int, tuple[int, ...]]] = attrs.field(factory=set)
    objections: list[str] = attrs.field(factory=list)

    def applied(self, entry: LogEntry) -> None:
        """A controller applies an entry."""
        known = self.bodies.setdefault(entry.index, entry.body)
        if known != entry.body:
            self.objections.append(f"OneLog: {entry} after {known!r}")
        if known is not entry.body or any(index > entry.index for index in self.bodies):
            return
        before, change = self.sets.get(NAME), decode_event(entry.body)
        if change is None:
            return
        self.sets.apply(change)
        after = self.sets.get(NAME)
        assert after is not None
        match change:
            case changes.ElectMaster(new_master_broker_id=key):
                self.epochs[after.master_epoch] = after.master_id, trio.current_time()
                if key is not None and before and before.in_sync and key not in before.in_sync:
                    self.objections.append(f"ElectedFromTheSet: {key} of {before.in_sync}")
            case changes.AlterSyncStateSet(new_sync_state_set=members):
                self.altered.add((after.in_sync_epoch, after.in_sync))
                if after.master_id is not None and after.master_id not in members:
                    self.objections.append(
                        f"TheMasterIsInTheSet: {members} while {after.master_id} is master"
                    )


@attrs.define
class Run:
    """One history.

    Attributes:
        down: machines without a process, or that stand still.
        promised: sync state sets that a master was told are decided, by their number.
        counts: of faults and decisions, by name.
    """

    group: Controllers
    replicas: list[ReplicaNode]
    rng: random.Random
    truth: Truth
    down: set[str] = attrs.field(factory=set)
    identities: dict[str, int] = attrs.field(factory=dict)
    promised: set[tuple[int, tuple[int, ...]]] = attrs.field(factory=set)
    counts: dict[str, int] = attrs.field(factory=dict)

    async def play(self) -> None:
        for node in self.replicas:
            await node.start()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._judge_always)
            for name in sorted(self.group.nodes):
                nursery.start_soon(self._ask_always, nursery, name)
            nursery.start_soon(self._alter_always)
            steps: list[Callable[[], Awaitable[None]]] = [
                self._kill_controller, self._kill_replica, self._pause, self._cut, self._reset,
                self._power_loss, self._kill_all, self._kill_replica,
                self._old_leader, self._old_leader, self._old_leader,
            ]  # fmt: skip
            for step in (*steps, *self.rng.choices(steps, k=STEPS - len(steps))):
                self.counts[step.__name__] = self.counts.get(step.__name__, 0) + 1
                await trio.sleep(self.rng.uniform(0.1, PAUSE_MAX_S))
                await step()
            self.group.world.network.heal_all()
            await self._converges()
            nursery.cancel_scope.cancel()
        self._judge()

    # ---- faults ----

    async def _away(self, name: str) -> None:
        """Have a machine without a process start one after a while."""
        await trio.sleep(self.rng.uniform(0.0, DOWN_MAX_S))
        await self._start(name)

    async def _start(self, name: str) -> None:
        node = self._replica(name)
        if node is None:
            await self.group.start(name)
        else:
            await node.start()
        self.down.discard(name)

    def _replica(self, name: str) -> ReplicaNode | None:
        return next((each for each in self.replicas if each.name == name), None)

    async def _kill_controller(self) -> None:
        name = self.rng.choice(sorted(self.group.nodes))
        self.down.add(name)
        await self.group.kill(name)
        await self._away(name)

    async def _kill_replica(self) -> None:
        masters = [node for node in self.replicas if self._is_master(node)]
        among = masters if masters and self.rng.random() < 0.6 else self.replicas
        name = self.rng.choice(among).name
        self.down.add(name)
        await self.group.world.kill_node(name)
        await self._away(name)

    async def _power_loss(self) -> None:
        name = self.rng.choice([*sorted(self.group.nodes), *(each.name for each in self.replicas)])
        self.down.add(name)
        self.group.nodes.pop(name, None)
        await self.group.world.power_loss(name)
        await self._away(name)

    async def _kill_all(self) -> None:
        names = [*sorted(self.group.nodes), *(each.name for each in self.replicas)]
        self.rng.shuffle(names)
        for name in names:
            self.down.add(name)
            self.group.nodes.pop(name, None)
            await self.group.world.kill_node(name)
        for name in names:
            await trio.sleep(self.rng.uniform(0.0, 2.0))
            await self._start(name)

    async def _pause(self) -> None:
        name = self.rng.choice([*sorted(self.group.nodes), *(each.name for each in self.replicas)])
        self.down.add(name)
        self.group.world.pause_node(name)
        await trio.sleep(self.rng.uniform(0.0, DOWN_MAX_S))
        self.group.world.resume_node(name)
        self.down.discard(name)

    async def _cut(self) -> None:
        names = [*sorted(self.group.nodes), *(each.name for each in self.replicas)]
        one, *others = self.rng.sample(names, k=self.rng.randint(2, len(names)))
        for other in others:
            if self.rng.random() < 0.5:
                self.group.world.network.cut_both(one, other)
            else:
                self.group.world.network.cut(*self.rng.sample([one, other], k=2))
        await trio.sleep(self.rng.uniform(0.0, DOWN_MAX_S))
        self.group.world.network.heal_all()

    async def _old_leader(self) -> None:
        """The controller that leads is away from the others alone, or stands still; meanwhile the
        master of the set is killed, at the old leader's or at the next one's time.
        """
        name = next((each for each in sorted(self.group.nodes) if self._leads(each)), None)
        if name is None:
            return
        stands_still = self.rng.random() < 0.5
        network = self.group.world.network
        if stands_still:
            self.down.add(name)
            self.group.world.pause_node(name)
        else:
            for other in sorted(set(self.group.nodes) - {name}):
                network.cut_both(name, other)
        await trio.sleep(self.rng.choice([self.rng.uniform(0.0, 2.0), self.rng.uniform(6.5, 9.0)]))
        killed = next((node for node in self.replicas if self._is_master(node)), None)
        if killed is not None:
            self.down.add(killed.name)
            await self.group.world.kill_node(killed.name)
        await trio.sleep(self.rng.uniform(1.0, 6.0))
        if stands_still:
            self.group.world.resume_node(name)
            self.down.discard(name)
        network.heal_all()
        if killed is not None:
            await self._away(killed.name)

    def _leads(self, name: str) -> bool:
        return self.group.nodes[name].groups["dledger"].role_statuses["controllers"].is_open

    def _is_master(self, node: ReplicaNode) -> bool:
        role = node.view.role
        return (
            node.name not in self.down and role is not None and role.master == node.view.broker_id
        )

    async def _reset(self) -> None:
        one = self.rng.choice(sorted(self.group.nodes))
        other = self.rng.choice(self.replicas).name
        self.group.world.network.reset(one, other)

    # ---- what masters do, and who asks ----

    async def _alter_always(self) -> None:
        """Each master wants other sync state sets, of whoever has its epoch."""
        while True:
            await trio.sleep(self.rng.uniform(0.2, 1.5))
            for node in self.replicas:
                if self._is_master(node) and node.view.role is not None:
                    await self._alter(node, node.view.role.epoch)

    async def _alter(self, node: ReplicaNode, epoch: int) -> None:
        own = node.view.broker_id
        assert own is not None
        followers = {
            each.view.broker_id
            for each in self.replicas
            if each.view.role is not None and each.view.role.epoch == epoch
        }
        others = sorted(each for each in followers if each not in (None, own))
        members = {own, *self.rng.sample(others, k=self.rng.randint(0, len(others)))}
        with trio.move_on_after(ANSWER_S):
            for name in sorted(self.group.nodes):
                try:
                    broker = await self.group.connect(own, name)
                    found = self.truth.sets.get(NAME)
                    number = 0 if found is None else found.in_sync_epoch
                    answer = await broker.alter(*sorted(members), epoch=number, master_epoch=epoch)
                    if answer.header.code == ResponseCode.SUCCESS:
                        altered = said.decode_sync_state_set(answer.body)
                        self.promised.add((altered.sync_state_set_epoch, altered.sync_state_set))
                    broker.hang_up()
                except (OSError, trio.BrokenResourceError, StreamOver):
                    pass

    async def _ask_always(self, nursery: trio.Nursery, name: str) -> None:
        """Ask a controller again and again who is master, also while it has yet to answer."""
        idle: list[Broker] = []
        while True:
            await trio.sleep(self.rng.uniform(0.05, 0.6))
            nursery.start_soon(self._ask, name, idle)

    async def _ask(self, name: str, idle: list[Broker]) -> None:
        """Ask once; the answer may not be old.

        Args:
            idle: connections that are open already.
        """
        asked_s = trio.current_time()
        try:
            with trio.fail_after(READ_S):
                broker = idle.pop() if idle else await self.group.connect(0, name)
                code, info, _ = await broker.info()
        except (OSError, trio.BrokenResourceError, StreamOver, trio.TooSlowError):
            return
        idle.append(broker)
        if code != ResponseCode.SUCCESS:
            return
        decided = self.truth.epochs.items()
        newest = max((key for key, (_, at_s) in decided if at_s < asked_s), default=0)
        if (info.master_epoch or 0) < newest:
            raise Objection(
                f"NothingOld: {name} tells of epoch {info.master_epoch} at {asked_s:.2f},"
                f" {newest} was decided before"
            )
        self.counts["answers"] = self.counts.get("answers", 0) + 1

    # ---- judges ----

    async def _judge_always(self) -> None:
        while True:
            self._judge()
            await trio.sleep(0.05)

    def _judge(self) -> None:
        for objection in self.truth.objections:
            raise Objection(objection)
        for node in self.replicas:
            taken = [
                event.epoch
                for event in node.events[node.since_start :]
                if isinstance(event, broker_events.ReplicaRoleTaken)
            ]
            if taken != sorted(set(taken)):
                raise Objection(f"RolesAscend: {node.name} takes the roles of epochs {taken}")
            for event in node.seen(broker_events.ReplicaRoleTaken):
                master, _ = self.truth.epochs.get(event.epoch, (None, 0.0))
                if master != event.master_id:
                    raise Objection(
                        f"ToldWhatWasDecided: {node.name} follows {event.master_id} of epoch"
                        f" {event.epoch}, decided was {master}"
                    )
            broker_id = node.view.broker_id
            if broker_id is not None and self.identities.setdefault(node.name, broker_id) != (
                broker_id
            ):
                raise Objection(f"IdsStay: {node.name} is {broker_id} now")
        if len(set(self.identities.values())) < len(self.identities):
            raise Objection(f"IdsStay: {self.identities}")

    async def _converges(self) -> None:
        with trio.move_on_after(MENDED_S):
            while not await self._is_well():  # noqa: ASYNC110
                await trio.sleep(0.2)
            self.counts["epochs"] = len(self.truth.epochs)
            if lost := self.promised - self.truth.altered:
                raise Objection(f"NothingPromisedIsLost: {sorted(lost)}")
            self.counts["altered"] = len(self.promised)
            found = self.truth.sets.get(NAME)
            if found is None or sorted(found.replicas) != [1, 2, 3]:
                raise Objection(f"IdsStay: three stores have {found}")
            return
        views = [(node.name, node.view) for node in self.replicas]
        raise Objection(f"Converges: {views}, decided {self.truth.epochs}")

    async def _is_well(self) -> bool:
        newest = max(self.truth.epochs, default=0)
        master = self.truth.epochs.get(newest, (None, 0.0))[0]
        roles = [node.view.role for node in self.replicas]
        if master is None or any(role is None or role.epoch != newest for role in roles):
            return False
        known = set()
        for node in list(self.group.nodes.values()):
            details = group_statuses(await node.status())["controllers"].details
            (found,) = details["broker_sets"] or [{}]
            known.add((found.get("epoch"), found.get("master"), found.get("in_sync_epoch")))
        return len(known) == 1


async def run(seed: int) -> Run:
    """Play one history. Raises: Objection, perhaps in a group."""
    truth, apply = Truth(), ControllerMachine.apply

    def observed(self: ControllerMachine, entries: Sequence[LogEntry]) -> Sequence[object]:
        for entry in entries:
            truth.applied(entry)
        return apply(self, entries)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ControllerMachine, "apply", observed)
        async with replicas(count=3, of=3, seed=seed) as (group, nodes):
            rng = random.Random(f"controller run {seed}")
            for node in nodes:
                node.fails = lambda: rng.random() < FAILS
            history = Run(group, nodes, rng, truth)
            await history.play()
            return history
