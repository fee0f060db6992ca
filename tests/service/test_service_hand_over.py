"""What a client that appends steadily learns while its group gets another master: no doubt."""

from __future__ import annotations

import trio
import trio.lowlevel
import trio.testing
from test_service_group_backend import cluster_config as with_a_home
from test_service_group_backend import opened
from test_service_ledger import cluster_config as three_nodes

from actors.errors import Closed, NotMaster, NotStored
from actors.log import AppendOutcome
from actors.log_types import Receipt
from actors.node.append import AppendReply
from actors.node.commit_log_part import CommitLogReply
from actors.node.part import GroupCounts
from actors.runtime import Actor, ChildSpec, SupervisorSpec, open_system
from actors.sim.cluster import SimCluster
from actors.storage.commitlog import store_messages

__all__ = ["cluster_config", "three_nodes"]

pytest_plugins = ["actors.sim.plugin"]
cluster_config = with_a_home
EVERY_S = 0.003


async def test_a_steady_appender_is_left_in_no_doubt_by_a_hand_over(cluster: SimCluster) -> None:
    """What the old master had begun is acknowledged, what it had not is known to be not stored."""
    async with opened(cluster, "orders") as (backend, log):
        await log.append([b"first"])
        outcomes: dict[bytes, AppendOutcome] = {}
        promoted = trio.Event()

        async def append(stop: trio.Event) -> None:
            number = 0
            while not stop.is_set():
                body, number = b"%d" % number, number + 1
                nursery.start_soon(submit, body)
                await trio.sleep(EVERY_S)

        async def submit(body: bytes) -> None:
            try:
                record = (body,)
                await backend.submit("orders", record, lambda found: outcomes.update({body: found}))
            except NotStored as error:
                outcomes[body] = error

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append, promoted)
            await trio.sleep(1)
            for node in ("n1", "n2", "n0"):
                await cluster.node(node).promote("orders", node, False)
                await trio.sleep(1)
            promoted.set()
        await trio.sleep(15)
        stored = {body for body, found in outcomes.items() if isinstance(found, Receipt)}
        assert {type(found) for found in outcomes.values()} <= {
            Receipt,
            NotMaster,
            Closed,
            NotStored,
        }
        assert len(stored) > 100
        found: list[bytes] = []
        async with log.reader(start=0) as batches:
            async for batch in batches:
                found += [record.body for record in batch.records]
                if len(found) > len(stored):
                    break
        assert sorted(found) == sorted([b"first", *stored])


class Deaf(Actor[store_messages.Append]):
    async def on_start(self) -> None:
        await trio.lowlevel.checkpoint()

    async def handle(self, message: store_messages.Append) -> None:
        await trio.sleep_forever()


async def test_an_append_that_a_store_never_read_is_not_stored(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """One that it had taken is in doubt; one behind that, and one that came later, are not."""

    def reply() -> AppendReply[store_messages.Appended]:
        return CommitLogReply(GroupCounts(), ref, 1, "n0", on_done=lambda found: None)

    def message(answer: AppendReply[store_messages.Appended]) -> store_messages.Append:
        return store_messages.Append(records=(b"x",), deadline_s=99.0, reply_to=answer)

    child = ChildSpec(name="store", start=Deaf, shutdown_s=0.1)
    async with open_system("n0", SupervisorSpec(children=(child,))) as system:
        ref = system.registry.ref("/n0/store")
        taken, unread = reply(), reply()
        await ref.tell(message(taken))
        await trio.sleep(1)
        await ref.tell(message(unread))
    late = reply()
    kinds = [type(each.outcome).__name__ for each in (taken, unread, late)]
    assert kinds == ["NodeStopped", "Closed", "Closed"]
