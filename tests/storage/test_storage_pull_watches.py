"""Who waits for records is woken when a read would give some, and not before."""

import random

import attrs
import pytest
import trio
from trio.testing import MockClock

from actors.log_types import Offsets
from actors.runtime import Actor, ActorRef, ChildSpec, SupervisorSpec, open_system
from actors.sim.disk import SimDisk
from actors.storage.commitlog import pull_service, store_messages
from actors.storage.commitlog.pull_service import PullService
from wire.files.commit_log import RECORD_BYTES_MAX


@attrs.define
class EmptyStore(Actor[store_messages.Message]):
    """A store of which only the end is known."""

    async def handle(self, message: store_messages.Message) -> None:
        if isinstance(message, store_messages.GetRange):
            message.reply_to.send(
                store_messages.LogRange(
                    min_bytes=0,
                    written_bytes=0,
                    synced_bytes=0,
                    segment_bytes=1 << 20,
                    folder="/data/commitlog",
                )
            )


async def woken(ref: ActorRef[pull_service.Message], above: int) -> Offsets | None:
    """What a watch says within a second."""
    with trio.move_on_after(1):
        return await ref.ask(
            Offsets,
            lambda reply_to: pull_service.WatchOffsets(above=above, reply_to=reply_to),
            timeout_s=5,
        )
    return None


@pytest.mark.parametrize(("synced_only", "readable"), [(True, 100), (False, 200)])
async def test_a_slave_that_lags_wakes_nobody_for_what_it_does_not_hold(
    synced_only: bool, readable: int, autojump_clock: MockClock
) -> None:
    disk = SimDisk(random.Random(1))
    spec = SupervisorSpec(
        children=(
            ChildSpec(name="store", start=EmptyStore),
            ChildSpec(
                name="pull",
                start=lambda: PullService(
                    disk=disk,
                    store_ref=refs["store"],
                    master="n0",
                    record_bytes_max=RECORD_BYTES_MAX,
                    synced_only=synced_only,
                ),
            ),
        )
    )
    refs: dict[str, ActorRef[store_messages.Message]] = {}

    async with open_system(
        "n1", lambda registry: (refs.update(store=registry.ref("/n1/store")), spec)[1]
    ) as system:
        pull = system.ref("/n1/pull")
        await pull.tell(store_messages.LogGrew(min_bytes=0, written_bytes=200, synced_bytes=100))
        await pull.tell(pull_service.Acknowledged(offset_bytes=900))
        offsets = await woken(pull, readable - 1)
        assert offsets is not None
        assert offsets.acknowledged == 900
        assert await woken(pull, readable) is None
        await pull.tell(store_messages.LogGrew(min_bytes=0, written_bytes=1000, synced_bytes=1000))
        assert await woken(pull, 899) is not None
        assert await woken(pull, 900) is None, "what is not acknowledged is not shown"
