"""Log files that are deleted for their age: the action, what follows, and what checkers allow."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from test_sim_actions import GROUP, Stage, stage

from actors.events import store
from actors.sim.actions.action import Ground
from actors.sim.classic.actions.expiry import Expire, age
from actors.sim.classic.actions.operator import refill
from actors.sim.classic.atlas import Damage
from actors.sim.classic.judges.derived import first_wrong, underived
from actors.sim.classic.judges.expiry import LOOKS_MAX, OnlyOldExpires, RetentionGoesOn
from actors.sim.classic.judges.validations import validate
from actors.sim.classic.log_bytes import DiskLogBytes
from actors.sim.classic.marks import ClassicTally
from actors.sim.classic.plan import EXPIRY, ClassicPlan
from actors.sim.classic.plan import GROUP as DRAWN
from actors.sim.history import FaultInjected, NodeLooked
from actors.sim.world import SimEvent

SETTINGS = {key: EXPIRY[key] for key in ("delete_when_hours", "clean_resource_interval_s")}
OLD = {**SETTINGS, "file_reserved_time_h": 1, "consume_queue_bytes": 200, "index_units_count": 20}
END = 1 << 20
SETTLED_S = 6.0
FILLER = (0, 0x7FFFFFFF, 0)


async def fill(on: Stage, count: int) -> None:
    for number in range(count):
        await on.cluster.log(GROUP).append([b"old %d;" % number + b"z" * 2000])


async def test_old_files_go_and_whole_logs_are_compared_all_the_same(
    autojump_clock: object,
) -> None:
    async with stage(**OLD) as on:
        checker = OnlyOldExpires(group=on.runner.group, cluster=on.cluster)
        said: list[str] = []
        on.world.on_event.append(lambda seen: said.extend(checker.see(seen)))
        logs = DiskLogBytes(on.cluster, on.runner.group)
        await fill(on, 20)
        await on.cluster.converged(GROUP)
        before = logs.written("n1", 0, END)
        await trio.sleep(SETTLED_S)
        await on.do("at 0.1 expire n2 for 3 extra 2")
        assert on.runner.counts == {"expire": 1}
        offsets = await on.cluster.offsets("n1", GROUP)
        assert 0 < offsets.min < offsets.written
        assert logs.written("n1", 0, END)[: len(before)] == before
        assert logs.durable("n1", 0, offsets.min) == before[: offsets.min]
        assert said == []
        counts = ClassicTally(segment_bytes=on.runner.group.segment_bytes).count(
            on.history.observations
        )
        assert counts["mark file deleted: age"] == 3 * offsets.min // (16 << 10)
        await on.cluster.converged(GROUP)
        await on.cluster.stop()
        validate(on.cluster, on.runner.group, on.history, logs)
        problems = {each.checker for each in on.history.violations}
        assert problems == {"NothingTwice"}  # the stage's own appends are in no history
        on.history.violations.clear()
        await on.cluster.start()


async def test_a_slave_that_needs_what_is_gone_is_emptied(autojump_clock: object) -> None:
    async with stage(**OLD) as on:
        await fill(on, 1)

        async def load() -> None:
            await trio.sleep(0.5)
            await fill(on, 20)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(load)
            await on.do(f"at 0.1 expire n2 for 3 extra {SETTLED_S + 3.0}")
        assert on.runner.counts == {"expire": 1}
        assert on.kinds.count("wiped") == 1
        await on.cluster.converged(GROUP)
        offsets = await on.cluster.offsets("n2", GROUP)
        assert offsets.min > 0
        batch = await on.cluster.log(GROUP, "n2").read(0)
        assert batch.records[0].position == offsets.min
        counts = ClassicTally(segment_bytes=on.runner.group.segment_bytes).count(
            on.history.observations
        )
        assert counts["mark slave needs what expired"] > 0
        assert counts["mark catch-up from what had not expired"] == 1
        logs = DiskLogBytes(on.cluster, on.runner.group)
        assert logs.written("n2", 0, END) == logs.written("n0", 0, END)  # n0 had the rest once
        await refill(on.runner)
        assert on.kinds.count("wiped") == 1  # nobody lacks anything now


async def test_only_the_last_file_is_not_aged_and_a_master_does_not_lag(
    autojump_clock: object,
) -> None:
    async with stage() as on:
        await fill(on, 20)
        written = (await on.cluster.offsets("n0", GROUP)).written
        assert age(on.runner) >= 3 * (written // (16 << 10))
        await on.do("at 0.1 expire n0 for 1 extra 1")
        assert on.runner.counts == {}


async def test_damage_in_a_file_that_has_gone_is_mended(autojump_clock: object) -> None:
    async with stage(**OLD) as on:
        await trio.sleep(SETTLED_S)
        assert age(on.runner)
        await trio.sleep(3.0)
        file = on.cluster.expired.own("n1", GROUP, 0)
        assert file is not None
        good = file.read(0, 100)
        file.flip_bit(50, 0)
        assert file.read(0, 100) != good
        on.runner.atlas.damaged["n1"] = [Damage(50, 51, good[50:51])]
        on.runner.repair("n1")
        assert file.read(0, 100) == good
        await on.cluster.kill("n2")
        disk = on.cluster.world.node("n2").disk
        disk.faults.fail("sync", errno.EIO)  # the operator goes on until it is done
        on.runner.wipe("n2")
        assert on.cluster.expired.own("n2", GROUP, 0) is None
        assert on.cluster.expired.of("n2", GROUP, 0) is not None
        for other in ("n0", "n1"):  # whoever had it is emptied, too: seed 40150
            on.cluster.expired.forget(other)
        assert on.cluster.expired.own("n1", GROUP, 0) is None
        assert on.cluster.expired.of("n2", GROUP, 0) is not None


def young(on: Stage, at: SimEvent) -> None:
    on.cluster.world.node(at.node).skew_ms -= 60_000


def unsynced(on: Stage, at: SimEvent) -> None:
    file = on.cluster.expired.own(at.node, GROUP, 0)
    assert file is not None
    file.write(memoryview(b"new"), 7)


def not_the_first(on: Stage, at: SimEvent) -> None:
    on.cluster.expired.forget(at.node)


def the_last(on: Stage, at: SimEvent) -> None:
    disk = on.cluster.world.node(at.node).disk
    path = f"/data/{at.node}/groups/{GROUP}/commitlog/{16 << 10:020d}"
    disk.inode(path).resize(0)
    disk.sync_now(disk.inode(path), path)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (young, "at the age of"),
        (unsynced, "which was not on its disk"),
        (not_the_first, "begins with"),
        (the_last, "nothing behind it"),
    ],
)
async def test_another_file_may_not_go(
    change: Callable[[Stage, SimEvent], None], text: str, autojump_clock: object
) -> None:
    async with stage(**OLD) as on:
        await trio.sleep(SETTLED_S)
        event: Any = store.SegmentExpired(min_bytes=16 << 10, reason="age")
        place = "/n1/orders/storage/store"
        seen = SimEvent(at_s=1.0, node="n1", boot=1, path=place, incarnation=1, event=event)
        await on.cluster.stop("n1")
        disk, path = on.world.node("n1").disk, f"/data/n1/groups/{GROUP}/commitlog/{0:020d}"
        disk.inode(path).modified_ms -= 3_600_000 - 1000 * 5
        disk.unlink(path)
        on.cluster.expired.see(seen)
        checker = OnlyOldExpires(group=on.runner.group, cluster=on.cluster)
        assert list(checker.see(seen)) == []
        change(on, seen)
        (problem,) = checker.see(seen)
        assert text in problem
        on.runner.wipe("n1")


async def test_a_wrong_date_keeps_nothing(autojump_clock: object) -> None:
    """And the checker objects to a node that keeps its files all the same, without a word."""
    async with stage(**OLD) as on:
        kind = {"group": on.runner.group, "cluster": on.cluster}
        checker, objecting = RetentionGoesOn(**kind), RetentionGoesOn(**kind)
        await fill(on, 20)
        await trio.sleep(SETTLED_S)
        injected = FaultInjected(at_s=trio.current_time(), kind="misdate", where="n1 for 1.00 s")
        assert list(checker.see(injected)) == list(objecting.see(injected)) == []
        await on.do("at 0.1 misdate n1 for 1")
        assert on.runner.counts == {"misdate": 1}
        status = await on.cluster.node("n1").status()
        tree = await on.cluster.node("n1").tree()
        assert status["groups"][GROUP]["first"] > 0
        said = []
        for number in range(LOOKS_MAX):
            look = NodeLooked(at_s=number * 2.0, node="n1", boot=1, status=status, tree=tree)
            assert list(checker.see(look)) == []
            own = {**status["groups"][GROUP], "first": 0}
            kept = attrs.evolve(look, status={**status, "groups": {GROUP: own}})
            said += objecting.see(kept)
        (line,) = said or [""]
        assert line.startswith("n1 keeps old files below ")


async def test_a_bad_sector_in_a_file_that_expires_ends_nobody(autojump_clock: object) -> None:
    async with stage(**OLD) as on:
        await fill(on, 20)
        await trio.sleep(SETTLED_S)
        await on.do("at 0.1 bad_sector n1 for 1")
        assert on.runner.counts == {"bad_sector": 1}
        assert f"n1 read:{errno.EIO}" in [
            seen.where for seen in on.history.observations if isinstance(seen, FaultInjected)
        ]
        assert (await on.cluster.node("n1").status())["groups"][GROUP]["first"] > 0


def test_it_is_drawn_where_files_expire() -> None:
    names = ("n0", "n1")
    assert Expire().nodes(Ground(names=names, duration_s=1.0)) == ()
    assert Expire().nodes(Ground(names=names, duration_s=1.0, expires=True)) == ("n1",)
    plans = [ClassicPlan.draw(str(seed)) for seed in range(60)]
    old = [plan for plan in plans if plan.config.classic_groups[DRAWN].file_reserved_time_h == 1]
    assert 3 <= len(old) <= 20
    assert all(
        any(fault.kind == "expire" for fault in plan.script) <= (plan in old) for plan in plans
    )


@pytest.mark.parametrize(
    ("got", "lacks", "place"),
    [
        ([(1, 10), (2, 20), (3, 30)], 0, None),
        ([(2, 20), (3, 30)], 0, None),
        ([(1, 10), (3, 30)], 0, 1),
        ([(1, 10), (3, 30)], 25, None),
        ([(1, 10), (2, 20)], 25, 2),
        ([], 25, 0),
        ([(3, 30), (1, 10)], 25, 1),
        ([(2, 20), (2, 20), (3, 30)], 25, 1),
    ],
)
def test_an_index_may_lack_what_expired(
    got: list[tuple[int, int]], lacks: int, place: int | None
) -> None:
    """Its first files go; a hole behind them is only where the dispatcher was not waited for."""
    assert first_wrong([(1, 10), (2, 20), (3, 30)], got, begin=25, lacks=lacks) == place


@pytest.mark.parametrize(
    ("got", "place"),
    [
        ([(1, 10), (1, 10), (2, 20)], None),
        ([(1, 10), (2, 20)], None),
        ([(2, 20)], None),
        ([(1, 10), (1, 10), (1, 10), (2, 20)], 2),
    ],
)
def test_of_equal_entries_the_first_may_have_gone(
    got: list[tuple[int, int]], place: int | None
) -> None:
    assert first_wrong([(1, 10), (1, 10), (2, 20)], got, begin=15, lacks=0) == place


def reported(event: Any) -> SimEvent:
    place = f"/n1/{DRAWN}/storage/store"
    return SimEvent(at_s=1.0, node="n1", boot=1, path=place, incarnation=1, event=event)


RECEIVED = reported(store.BytesReceived(session=1, first_bytes=64, next_bytes=99))
EMPTIED = reported(  # a new disk, or a resync that found nothing in common
    store.RecoveryFinished(
        was_clean=True,
        scanned_from_bytes=0,
        end_bytes=0,
        record_count=0,
        kept_bytes=0,
        reason="",
    )
)
EXPIRED = reported(store.SegmentExpired(min_bytes=32, reason="age"))


@pytest.mark.parametrize(
    ("seen", "lacks"),
    [
        ([], 0),
        ([EXPIRED], 0),
        ([reported(store.SegmentExpired(min_bytes=32, reason="age", undispatched_bytes=1))], 32),
        ([RECEIVED], 64),
        ([reported(attrs.evolve(RECEIVED.event, first_bytes=0)), RECEIVED], 0),
        ([reported(attrs.evolve(RECEIVED.event, first_bytes=0)), EMPTIED, RECEIVED], 64),
        ([reported(store.DispatchStarted(from_bytes=48, end_bytes=50, queue_count=0))], 48),
        ([reported(store.DispatchStarted(from_bytes=48, end_bytes=50, queue_count=1))], 0),
        ([EXPIRED, reported(store.QueueRebuilt(topic="t", queue_id=0))], 32),
    ],
)
def test_what_a_node_may_lack(seen: list[Any], lacks: int) -> None:
    group = ClassicPlan.draw("1").config.classic_groups[DRAWN]
    assert underived(group, seen)["n1"] == lacks
