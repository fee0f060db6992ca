"""The first of several that opens. Virtual time."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

import attrs
import pytest
import trio
import trio.testing

from actors.client.race import STAGGER_S, Race, open_race

Opening: TypeAlias = Callable[[], Awaitable[None]]


async def at_once() -> None:
    await trio.lowlevel.checkpoint()


async def refuse() -> None:
    raise ConnectionRefusedError("nobody listens")


AFTER_1_S = partial(trio.sleep, 1)


@attrs.define
class Endpoints:
    """What happens at each, and what did."""

    ways: dict[str, Opening]
    tried: list[tuple[str, float]] = attrs.field(factory=list)
    left: list[str] = attrs.field(factory=list)

    @asynccontextmanager
    async def enter(self, name: str) -> AsyncIterator[str]:
        self.tried.append((name, trio.current_time()))
        try:
            await self.ways[name]()
            yield name
        finally:
            self.left.append(name)

    @asynccontextmanager
    async def race(self, again_s: float | None = None) -> AsyncIterator[Race[str]]:
        async with open_race(
            tuple(self.ways), self.enter, passing=(OSError,), again_s=again_s
        ) as race:
            yield race


async def test_nobody_waits_behind_one_that_hangs(autojump_clock: trio.testing.MockClock) -> None:
    endpoints = Endpoints({"n0": trio.sleep_forever, "n1": trio.sleep_forever, "n2": at_once})
    async with endpoints.race() as race:
        assert await race.first() == "n2"
        assert endpoints.tried == [("n0", 0.0), ("n1", STAGGER_S), ("n2", 2 * STAGGER_S)]
        assert trio.current_time() == 2 * STAGGER_S
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(endpoints.left) == ["n0", "n1"]
    assert endpoints.left[-1] == "n2"


async def test_who_answers_in_time_is_alone(autojump_clock: trio.testing.MockClock) -> None:
    endpoints = Endpoints({"n0": partial(trio.sleep, STAGGER_S / 2), "n1": at_once})
    async with endpoints.race() as race:
        assert await race.first() == "n0"
        await trio.sleep(10)
        assert await race.first() == "n0"  # it stays
    assert endpoints.tried == [("n0", 0.0)]
    assert endpoints.left == ["n0"]


async def test_who_fails_hands_on_at_once(autojump_clock: trio.testing.MockClock) -> None:
    endpoints = Endpoints({"n0": refuse, "n1": refuse, "n2": at_once})
    async with endpoints.race() as race:
        assert await race.first() == "n2"
    assert endpoints.tried == [("n0", 0.0), ("n1", 0.0), ("n2", 0.0)]
    assert trio.current_time() == 0.0


async def test_the_one_that_is_named_is_next(autojump_clock: trio.testing.MockClock) -> None:
    endpoints = Endpoints({"n0": trio.sleep_forever, "n1": at_once, "n2": at_once})

    async def say() -> None:
        race.say("n0", "n2 does", preferred="n2")
        await trio.sleep_forever()

    endpoints.ways["n0"] = say
    async with endpoints.race() as race:
        assert await race.first() == "n2"
    assert [name for name, _ in endpoints.tried] == ["n0", "n2"]


async def test_nobody_opens(autojump_clock: trio.testing.MockClock) -> None:
    endpoints = Endpoints({"n0": refuse, "n1": AFTER_1_S})

    async def late() -> None:
        await trio.sleep(1)
        raise ConnectionResetError("gone")

    endpoints.ways["n1"] = late
    async with endpoints.race() as race:
        assert await race.first() is None
        assert {name: str(reason) for name, reason in race.reasons.items()} == {
            "n0": "nobody listens",
            "n1": "gone",
        }
    assert trio.current_time() == 1.0


async def test_they_are_tried_again_until_the_time_is_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    endpoints = Endpoints({"n0": refuse, "n1": refuse})
    async with endpoints.race(again_s=0.5) as race:
        assert await race.first() is None
        assert trio.current_time() == 0.0
        assert await race.first(until_s=2.2) is None
        assert trio.current_time() == pytest.approx(2.2)
        assert len(endpoints.tried) == 2 * 5
        endpoints.ways["n1"] = at_once
        assert await race.first(until_s=4.0) == "n1"
    assert trio.current_time() == pytest.approx(2.5)


async def test_one_that_opens_too_late_is_left(autojump_clock: trio.testing.MockClock) -> None:
    endpoints = Endpoints({"n0": AFTER_1_S, "n1": partial(trio.sleep, 1 - STAGGER_S)})
    async with endpoints.race() as race:
        found = await race.first()
        await trio.testing.wait_all_tasks_blocked()
        assert endpoints.left == [name for name in endpoints.ways if name != found]
    assert sorted(endpoints.left) == ["n0", "n1"]


async def test_what_fails_in_the_block_comes_out_as_it_is(
    autojump_clock: trio.testing.MockClock,
) -> None:
    endpoints = Endpoints({"n0": at_once})
    with pytest.raises(ConnectionResetError, match=r"^mine$"):
        async with endpoints.race() as race:
            await race.first()
            raise ConnectionResetError("mine")
    assert endpoints.left == ["n0"]
    with pytest.raises(ConnectionResetError, match=r"^mine$"):
        async with Endpoints({"n0": trio.sleep_forever}).race() as race:
            with trio.move_on_after(1):
                await race.first()
            raise ConnectionResetError("mine")


async def test_a_failure_that_does_not_pass(autojump_clock: trio.testing.MockClock) -> None:
    async def fail() -> None:
        await trio.sleep(1)
        raise ValueError("no such version")

    endpoints = Endpoints({"n0": fail, "n1": trio.sleep_forever, "n2": refuse})
    async with endpoints.race() as race:
        with pytest.raises(ValueError, match="no such version"):
            await race.first(until_s=math.inf)
    assert sorted(endpoints.left) == ["n0", "n1", "n2"]


async def test_what_fails_while_it_is_left_is_nobodys(
    autojump_clock: trio.testing.MockClock,
) -> None:
    @asynccontextmanager
    async def enter(name: str) -> AsyncIterator[str]:
        yield name
        raise OSError("in the end")

    async with open_race(("n0",), enter, passing=(OSError,)) as race:
        assert await race.first() == "n0"
