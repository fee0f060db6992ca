"""The reply of one append on a node: its outcome, its counts, and who is notified."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from actors.errors import NodeStopped, NotEnoughReplicas, ReplicationTimeout
from actors.log import AppendOutcome
from actors.log_types import Receipt
from actors.node.commit_log_part import CommitLogReply
from actors.node.part import GroupCounts
from actors.runtime import Actor, ActorRef, ChildSpec, SupervisorSpec, open_system
from actors.storage.commitlog import store_messages

APPENDED = store_messages.Appended(
    first_bytes=100, last_bytes=300, next_bytes=400, copies=2, durability="synced"
)
RECEIPT = Receipt(first=100, last=300, next=400, count=3, copies=2, durability="synced")


@attrs.define
class Silent(Actor[object]):
    """A store that answers nothing by itself."""

    async def handle(self, message: object) -> None:
        pass


@attrs.frozen
class Asked:
    """Somebody to ask, and what is counted."""

    store: ActorRef[Any]
    counts: GroupCounts = attrs.field(factory=GroupCounts)

    def reply(self, on_done: Callable[[AppendOutcome], None] | None = None) -> CommitLogReply:
        return CommitLogReply(self.counts, self.store, 3, "n0", on_done)


@asynccontextmanager
async def running() -> AsyncIterator[Asked]:
    spec = SupervisorSpec(children=(ChildSpec(name="store", start=Silent),))
    async with open_system("n0", spec) as system:
        yield Asked(system.ref("/n0/store"))


async def test_the_waiting_task_gets_the_receipt(autojump_clock: Any) -> None:
    async with running() as part, trio.open_nursery() as nursery:
        reply = part.reply()
        outcomes: list[object] = []

        async def wait() -> None:
            outcomes.append(await reply.wait())

        nursery.start_soon(wait)
        await trio.sleep(1)
        assert outcomes == []
        assert reply.send(APPENDED)
        await trio.sleep(1)
        assert outcomes == [RECEIPT]
        assert part.counts.acknowledged == 3
        assert not reply.send(APPENDED)
        assert part.counts.acknowledged == 3


async def test_an_answer_that_comes_before_the_wait_is_kept(autojump_clock: Any) -> None:
    async with running() as part:
        reply = part.reply()
        reply.send(APPENDED)
        assert await reply.wait() == RECEIPT


@pytest.mark.parametrize(
    ("error", "unknown", "refused"),
    [(NotEnoughReplicas("none"), 0, 3), (ReplicationTimeout("late", 100, 300), 3, 0)],
)
async def test_an_error_is_counted_by_its_outcome(
    autojump_clock: Any, error: Exception, unknown: int, refused: int
) -> None:
    async with running() as part:
        reply = part.reply()
        reply.fail(error)
        assert await reply.wait() is error
        assert (part.counts.outcome_unknown, part.counts.refused) == (unknown, refused)


async def test_a_store_that_ends_leaves_the_outcome_unknown(autojump_clock: Any) -> None:
    async with running() as part:
        reply = part.reply()
    outcome = await reply.wait()
    assert isinstance(outcome, NodeStopped)
    assert part.counts.outcome_unknown == 3


async def test_a_callback_that_raises_is_logged_and_harms_nobody(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def raises(outcome: object) -> None:
        raise ValueError("a mistake of the appender's")

    async with running() as part:
        with caplog.at_level(logging.ERROR, "triolog.node"):
            assert part.reply(raises).send(APPENDED)
        assert "the callback of an append raised" in caplog.text


async def test_a_callback_gets_the_outcome_once(autojump_clock: Any) -> None:
    async with running() as part:
        outcomes: list[object] = []
        reply = part.reply(outcomes.append)
        reply.send(APPENDED)
        reply.fail(ReplicationTimeout("late"))
        assert outcomes == [RECEIPT]
