"""An operator's `promote` of an auto-switch group: its controllers elect whom it names."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from replica_set import ReplicaSet, replica_set

from actors.api.failures import RequestRefused
from actors.broker.replica_wishes import ElectMaster
from actors.config import AutoSwitchGroup
from actors.errors import OutcomeUnknown
from actors.node.autoswitch_promotion import chosen
from actors.runtime import ActorRef
from wire.broker import controller as said

BROKERS = {f"n{number}": f"10.0.0.{number}:10911" for number in range(4)}
GROUP = AutoSwitchGroup(name="orders", members=("n0", "n1", "n2", "n3"), learners=("n3",))


async def promote(found: ReplicaSet, at: str, node: str | None = None) -> dict[str, Any]:
    return await found.nodes[at].promote("orders", node, force=False)


async def refusal(
    found: ReplicaSet, at: str, node: str | None = None, *, force: bool = False
) -> str:
    with pytest.raises(RequestRefused) as caught:
        await found.nodes[at].promote("orders", node, force=force)
    text = str(caught.value)
    assert "\n" not in text
    return text


async def test_a_member_of_the_set_is_master_and_open_at_once(autojump_clock: object) -> None:
    async with replica_set() as found:
        first = await found.nodes["n0"].log("orders").append([b"one"])
        done = await promote(found, "n0", "n1")
        assert (done["group"], done["master"], done["old_master"]) == ("orders", "n1", "n0")
        assert (done["number"], done["start_bytes"], done["losses"]) == (2, first.next, [])
        assert done["members"]["n1"]["state"] == "open"
        second = await found.nodes["n1"].log("orders").append([b"two"])
        assert second.first == first.next
        await found.until("n0", lambda status: status.details["in_sync"] == [1, 2])
        back = await promote(found, "n0")  # the only other one
        assert (back["master"], back["old_master"], back["number"]) == ("n0", "n1", 3)
        await found.until("n1", lambda status: status.state == "following")


async def test_what_cannot_be_is_one_line(autojump_clock: object) -> None:
    async with replica_set() as found:
        assert await refusal(found, "n1", "n0") == "n0 is the master of orders already, in epoch 1"
        assert "no --force" in await refusal(found, "n1", "n1", force=True)
        await found.world.kill_node("n1")
        assert "n1 does not live, as the controllers know: start it" in await refusal(
            found, "n0", "n1"
        )
        assert "no other replica of orders that lives is in the sync state set" in await refusal(
            found, "n0"
        )
        await found.until("n0", lambda status: status.details["in_sync"] == [1])
        assert "n1 does not live" in await refusal(found, "n0", "n1")
        assert await found.nodes["n0"].log("orders").append([b"still master"])
        await found.world.kill_node("c0")
        began_s = trio.current_time()
        assert "no controller of orders answers: 10.0.0.1:9878" in await refusal(found, "n0", "n1")
        assert trio.current_time() - began_s < 2 * found.config.answer_timeout_s


async def test_a_killed_master_without_a_successor_is_not_cleared(autojump_clock: object) -> None:
    async with replica_set() as found:
        await found.world.kill_node("n1")
        await found.until("n0", lambda status: status.details["in_sync"] == [1])
        await found.world.kill_node("n0")
        await found.start("n1")
        text = "no replica of the sync state set of orders lives: n0 has to come back"
        assert await refusal(found, "n1") == text
        await found.start("n0")
        await found.until("n0", lambda status: status.state == "open")


async def test_a_controller_that_starts_is_waited_for(autojump_clock: object) -> None:
    async with replica_set() as found:
        await found.world.kill_node("c0")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.start, "c0")
            done = await promote(found, "n1", "n1")
        assert done["master"] == "n1"


async def test_an_election_whose_answer_is_lost_may_have_happened(autojump_clock: object) -> None:
    async with replica_set() as found:
        manager: ActorRef[Any] = found.nodes["n0"].part("orders").manager  # type: ignore[attr-defined]
        asked: list[object] = []

        @attrs.define
        class Cut:
            """Cuts the controller off once an election is asked for."""

            def __getattr__(self, name: str) -> Any:
                return getattr(manager, name)

            async def tell(self, message: object) -> None:
                if isinstance(message, ElectMaster):
                    asked.append(message)
                    await found.world.kill_node("c0")
                await manager.tell(message)

        found.nodes["n0"].part("orders").manager = Cut()  # type: ignore[attr-defined]
        with pytest.raises(OutcomeUnknown, match="it is not known what became of it") as caught:
            await promote(found, "n0", "n1")
        assert asked
        assert "`status` says who is master of orders" in str(caught.value)


def replicas(*in_sync: int, master: int | None = 1, living: tuple[int, ...] = (1, 2, 3, 9)) -> Any:
    def identity(number: int) -> said.ReplicaIdentity:
        address = BROKERS.get(f"n{number - 1}", "192.0.2.9:10911")
        return said.ReplicaIdentity(
            alive=number in living, broker_address=address, broker_id=number, broker_name="orders"
        )

    return said.ReplicasInfo(
        in_sync_replicas=tuple(map(identity, in_sync)),
        not_in_sync_replicas=tuple(identity(each) for each in (1, 2, 3, 9) if each not in in_sync),
        master_broker_id=master,
        master_epoch=7,
    )


@pytest.mark.parametrize(
    ("group", "found", "node", "name"),
    [
        (GROUP, replicas(1, 2, 3), None, "n1"),
        (GROUP, replicas(1, 2, 3), "n2", "n2"),
        (attrs.evolve(GROUP, election_priority={"n2": 1}), replicas(1, 2, 3), None, "n2"),
        (GROUP, replicas(1, 2, 3, living=(1, 3)), None, "n2"),
        (GROUP, replicas(1, 9, 3), None, "n2"),  # the file's before others
        (GROUP, replicas(1, 9), None, "192.0.2.9:10911"),
        (GROUP, replicas(1, 2, master=None), None, "n0"),
        (GROUP, replicas(1, 2, master=1, living=(2,)), None, "n1"),
    ],
)
def test_who_is_chosen(
    group: AutoSwitchGroup, found: said.ReplicasInfo, node: str | None, name: str
) -> None:
    assert chosen(group, BROKERS, found, node).name == name


@pytest.mark.parametrize(
    ("found", "node", "text"),
    [
        (replicas(1, 2), "n2", "n2 is not in the sync state set of orders (n0, n1)"),
        (replicas(1, 2, living=(1,)), "n1", "n1 does not live, as the controllers know"),
        (replicas(1, 2), "n3", "n3 is a learner: it is never elected"),
        (said.ReplicasInfo(), "n1", "n1 is no replica that the controllers of orders know"),
        (said.ReplicasInfo(), None, "no replica of orders is registered with the controllers"),
        (replicas(1), None, "no other replica of orders that lives is in the sync state set (n0)"),
        (
            replicas(1, 9, living=()),
            None,
            "no replica of the sync state set of orders lives: n0 or 192.0.2.9:10911 has to come",
        ),
    ],
)
def test_why_nobody_is_chosen(found: said.ReplicasInfo, node: str | None, text: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        chosen(GROUP, BROKERS, found, node)
    assert text in str(caught.value)
