"""The controllers' state machine: events, snapshots, and a group of three members that runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import pytest
import trio
from controller_kit import NAME, apply, living, recorded_events, recorded_sets

import actors
from actors.config import ClusterConfig, DLedgerGroup, validate
from actors.controller import machine
from actors.controller.core.broker_sets import BrokerSet
from actors.controller.machine import FORMAT, ControllerMachine
from actors.env import Env
from actors.errors import StorageError, TriologError
from actors.log_types import Receipt
from actors.sim.world import open_world
from actors.state_machine import LogEntry
from wire.broker import controller as said
from wire.broker import controller_events as events
from wire.errors import RemoteProtocolError

GROUP: Final = "sets"
NODES: Final = {"n0": "10.0.0.1", "n1": "10.0.0.2", "n2": "10.0.0.3"}
Decide: TypeAlias = Callable[[ControllerMachine], events.ControllerEvent | None]


def entries(*bodies: bytes) -> list[LogEntry]:
    return [LogEntry(index, 1, body) for index, body in enumerate(bodies)]


def loaded(data: bytes, chunk_bytes: int = 7) -> ControllerMachine:
    found = ControllerMachine()
    for _ in found.load(
        iter([data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)])
    ):
        pass
    return found


def test_recorded_events_make_the_recorded_sets() -> None:
    found = ControllerMachine()
    bodies = [body for body in recorded_events() if body]
    assert found.apply(entries(*bodies)) == [None] * len(bodies)
    assert list(found.sets) == list(recorded_sets())


def test_what_is_no_event_changes_nothing_and_is_said() -> None:
    found = ControllerMachine()
    found.apply(entries(*recorded_events()))
    before = list(found.sets)
    results = found.apply(
        entries(b"\0\7{}", events.encode_event(events.ElectMaster(broker_name=NAME)))
    )
    assert isinstance(results[0], RemoteProtocolError)
    assert results[1] is None
    assert list(found.sets) != before
    assert found.sets.get(NAME) == recorded_and_cleared()


def recorded_and_cleared() -> BrokerSet | None:
    sets = recorded_sets()
    sets.apply(events.ElectMaster(broker_name=NAME))
    return sets.get(NAME)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1 << 20])
def test_a_snapshot_holds_all(chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "STEP_SETS", 2)
    found = ControllerMachine()
    found.apply(entries(*recorded_events()))
    for number in range(5):
        event = found.sets.apply_id(apply(1, name=f"set {number}\n")).event
        assert event is not None
        found.apply(entries(events.encode_event(event)))
    again = loaded(b"".join(found.save()), chunk_bytes)
    assert list(again.sets) == list(found.sets)
    assert len(list(again.sets)) == 6


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "begins with b''"),
        (b"another\n", "begins with b'another'"),
        (FORMAT[:-1], "ends within a line"),
        (FORMAT + b"{", "ends within a line"),
        (FORMAT + b"{}\n", "missing required field"),
        (FORMAT + b'{"cluster":"C","name":"b","in_sync":"x"}\n', "in_sync"),
    ],
)
def test_another_snapshot_is_refused_and_changes_nothing(data: bytes, what: str) -> None:
    found = ControllerMachine(recorded_sets())
    with pytest.raises(StorageError, match=what):
        for _ in found.load(iter([data] if data else [])):
            pass
    assert list(found.sets) == list(recorded_sets())


def test_it_knows_whether_it_leads() -> None:
    found = ControllerMachine()
    found.leader_started(3)
    found.leader_stopped(2)
    assert found.term == 3
    found.leader_stopped(3)
    assert found.term is None


def config() -> ClusterConfig:
    group = DLedgerGroup(
        name=GROUP, members=tuple(NODES), data_file_bytes=64 << 10, index_file_bytes=64 << 10
    )
    found = ClusterConfig(
        name="sim", data_dir="/data", nodes=NODES, groups={GROUP: group}, api_port=None
    )
    validate(found)
    return found


async def test_three_members_agree_through_the_death_of_a_leader(autojump_clock: object) -> None:
    machines: dict[str, ControllerMachine] = {}
    nodes: dict[str, actors.Node] = {}

    def main_of(name: str) -> Callable[..., object]:
        def make() -> ControllerMachine:
            machines[name] = ControllerMachine()
            return machines[name]

        async def main(env: Env, task_status: trio.TaskStatus[actors.Node]) -> None:
            async with actors.open_node(config(), name, env=env, machines={GROUP: make}) as node:
                task_status.started(node)
                await trio.sleep_forever()

        return main

    async with open_world("controllers") as world:
        for name, host in NODES.items():
            world.add_node(name, host)
        for name in NODES:
            nodes[name] = await world.start_node(name, main_of(name))

        async def leader() -> str:
            while True:
                for name, each in machines.items():
                    if each.term is not None and name in nodes:
                        return name
                await trio.sleep(0.1)

        async def change(decide: Decide) -> None:
            """Have the leader decide, append and apply."""
            while True:
                name = await leader()
                event = decide(machines[name])
                if event is None:
                    return
                try:
                    receipt: Receipt = (
                        await nodes[name].log(GROUP).append([events.encode_event(event)])
                    )
                except TriologError:
                    await trio.sleep(0.5)
                else:
                    assert receipt.results == (None,)
                    return

        with trio.fail_after(300):
            for broker_id in (1, 2):
                await change(
                    lambda each, broker_id=broker_id: each.sets.apply_id(apply(broker_id)).event
                )
            ask = said.ElectMaster(broker_name=NAME, broker_id=1)
            await change(lambda each: each.sets.elect(ask, living(1, 2)).event)
            dead = await leader()
            await world.kill_node(dead)
            del nodes[dead], machines[dead]
            wanted = said.SyncStateSet(sync_state_set=(1, 2), sync_state_set_epoch=1)
            alter = said.AlterSyncStateSet(broker_name=NAME, master_broker_id=1, master_epoch=1)
            await change(lambda each: each.sets.alter(alter, wanted, living(1, 2)).event)
            nodes[dead] = await world.start_node(dead, main_of(dead))
            await change(
                lambda each: each.sets.elect(said.ElectMaster(broker_name=NAME), living(2)).event
            )
            while len({repr(list(each.sets)) for each in machines.values()}) > 1:  # noqa: ASYNC110
                await trio.sleep(0.1)
        found = machines[dead].sets.get(NAME)
        assert found is not None
        epochs = found.master_epoch, found.in_sync_epoch
        assert (found.master_id, found.in_sync, epochs) == (2, (2,), (2, 3))
