"""When a node that hangs is given up for another one, and when it is not. Virtual time."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import attrs
import pytest
import trio
import trio.testing
from group_states import status_of

from actors.api.handle import NodeIdentity
from actors.client.requests import SILENT_S
from actors.client.silence import LEADER_SILENT_S, LOOK_S, Silence

Word: TypeAlias = tuple[str, int] | None
"""Whom a member takes for the leader, in which term; None: it hangs, too."""


def identity(node: str) -> NodeIdentity:
    return NodeIdentity(cluster="demo", node=node, boot=1, groups=("a",))


@attrs.define
class Hangs:
    """A client of n0, which owes an answer since `quiet_since_s`."""

    quiet_since_s: float = math.inf
    reasons: list[str] = attrs.field(factory=list)
    identity: NodeIdentity = attrs.field(factory=lambda: identity("n0"))

    async def wait_silent(self, silent_s: float) -> None:
        while trio.current_time() < self.quiet_since_s + silent_s:  # noqa: ASYNC110
            await trio.sleep(0.25)

    def give_up(self, reason: str) -> None:
        self.reasons.append(f"{trio.current_time():g} s: {reason}")


@attrs.define
class Says:
    """A client of another member."""

    word: dict[str, Word]
    node: str
    others: Others

    async def status(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        self.others.looks += 1
        word = self.word[self.node]
        if word is None:
            await trio.sleep_forever()
        assert word is not None
        own = status_of(leads=False, is_open=False, leader=word[0] or "", epoch=word[1])
        return {"groups": {"a": own}}


@attrs.define
class Others:
    """What the others say."""

    word: dict[str, Word]
    asked: list[str] = attrs.field(factory=list)
    looks: int = 0

    @asynccontextmanager
    async def connect_to(self, node: str) -> AsyncIterator[Any]:
        await trio.lowlevel.checkpoint()
        self.asked.append(node)
        if node not in self.word:
            raise ConnectionError(f"cannot reach {node}")
        yield Says(self.word, node, self)

    async def watch(self, client: Hangs, epoch: int | None, for_s: float) -> None:
        silence = Silence(
            client=client,  # type: ignore[arg-type]
            group="a",
            others=("n1", "n2"),
            connect_to=self.connect_to,
            away=(OSError, trio.TooSlowError),
            epoch=epoch,
        )
        with trio.move_on_after(for_s):
            await silence.watch()


LEFT: dict[str, tuple[dict[str, Word], str]] = {
    "another leads": ({"n1": ("n1", 4), "n2": ("n1", 4)}, "n1 leads by term or promotion 4"),
    "one hangs": ({"n1": None, "n2": ("n2", 5)}, "n2 leads by term or promotion 5"),
    "a follower says so": ({"n2": ("n1", 4)}, "n1 leads by term or promotion 4"),
}
KEPT: dict[str, dict[str, Word]] = {
    "they follow it": {"n1": ("n0", 3), "n2": ("n0", 3)},
    "it was elected anew": {"n1": ("n0", 5), "n2": ("n0", 5)},
    "an older leader": {"n1": ("n1", 2), "n2": ("n1", 2)},
    "candidates": {"n1": ("", 4), "n2": ("", 5)},
    "all hang": {"n1": None, "n2": None},
    "nobody there": {},
}


@pytest.mark.parametrize(("word", "why"), LEFT.values(), ids=LEFT)
async def test_a_leader_is_left_for_a_later_one(
    word: dict[str, Word], why: str, autojump_clock: trio.testing.MockClock
) -> None:
    client = Hangs(quiet_since_s=0.0)
    await Others(word).watch(client, 3, 100)
    (reason,) = client.reasons
    assert reason.endswith(f"n0 was silent for 1 s, and {why}")
    assert LEADER_SILENT_S <= trio.current_time() < LEADER_SILENT_S + LOOK_S


@pytest.mark.parametrize("word", KEPT.values(), ids=KEPT)
async def test_a_leader_is_kept(
    word: dict[str, Word], autojump_clock: trio.testing.MockClock
) -> None:
    client, others = Hangs(quiet_since_s=0.0), Others(word)
    await others.watch(client, 3, 100)
    assert client.reasons == []
    assert sorted(set(others.asked)) == ["n1", "n2"]


async def test_an_election_meanwhile_is_seen(autojump_clock: trio.testing.MockClock) -> None:
    client, others = Hangs(quiet_since_s=0.0), Others({"n1": ("n0", 3), "n2": None})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(others.watch, client, 3, 100)
        await trio.sleep(9.9)
        assert client.reasons == []
        others.word["n1"] = ("n1", 4)
    assert trio.current_time() <= 9.9 + LOOK_S
    assert len(client.reasons) == 1


@pytest.mark.parametrize("elected_s", [1.5, 2.1, 6.0])
async def test_who_is_elected_is_seen_soon(
    elected_s: float, autojump_clock: trio.testing.MockClock
) -> None:
    """The client notices no later than a small part of the outage; it waited half a second."""
    client, others = Hangs(quiet_since_s=0.0), Others({"n1": ("n0", 3), "n2": ("n0", 3)})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(others.watch, client, 3, 100)
        await trio.sleep(elected_s)
        others.word["n2"] = ("n1", 4)
    assert trio.current_time() <= elected_s + max(0.05, 0.05 * elected_s)
    assert len(client.reasons) == 1


async def test_others_are_asked_rarely_in_a_long_silence(
    autojump_clock: trio.testing.MockClock,
) -> None:
    client, others = Hangs(quiet_since_s=0.0), Others({"n1": ("n0", 3)})
    await others.watch(client, 3, 1000)
    assert client.reasons == []
    assert others.looks < 1000 / LOOK_S + 50


async def test_who_is_heard_again_is_kept(autojump_clock: trio.testing.MockClock) -> None:
    client, others = Hangs(quiet_since_s=0.0), Others({"n1": ("n0", 3), "n2": ("n0", 3)})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(others.watch, client, 3, 100)
        await trio.sleep(9.9)
        client.quiet_since_s = math.inf  # all is answered
        await trio.sleep(LOOK_S)
        others.asked.clear()
        others.word.update(n1=("n1", 4))
        await trio.sleep(50)
        assert (client.reasons, others.asked) == ([], [])
        client.quiet_since_s = trio.current_time()
        await trio.sleep(SILENT_S + LOOK_S)
        assert len(client.reasons) == 1


async def test_who_is_only_read_from_is_left_for_whoever_answers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    client = Hangs(quiet_since_s=0.0)
    await Others({"n2": ("n0", 3)}).watch(client, None, 100)
    assert client.reasons == ["4 s: n0 was silent for 4 s, and n2 answers"]
    client = Hangs(quiet_since_s=trio.current_time())
    await Others({}).watch(client, None, 100)
    assert client.reasons == []


async def test_nobody_is_asked_while_nothing_is_owed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    client, others = Hangs(), Others({"n1": ("n1", 4)})
    await others.watch(client, 3, 100)
    assert (client.reasons, others.asked) == ([], [])
