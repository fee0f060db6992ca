"""Gold and the timeline of an auto-switch group: roles, times without a master, sets and cuts."""

from __future__ import annotations

import attrs
import pytest
from facts_kit import at as moment
from facts_kit import facts, span
from lines_kit import SECOND, START_US, Boot, events_of, rows
from pyspark.sql import DataFrame, SparkSession

from actors.events import broker, ha, roles
from actors.pipeline.gold.elections import failovers
from actors.pipeline.gold.roles import roles as roles_of
from actors.pipeline.gold.turns import TURNS, turns
from actors.pipeline.report import timeline
from actors.pipeline.report.facts import Turn

TRANSFER = "orders/group_transfer"


def at(seconds: float) -> int:
    return START_US + round(seconds * SECOND)


def in_set(number: int, *ids: int) -> ha.SyncStateSetTaken:
    return ha.SyncStateSetTaken(in_sync=ids, set_epoch=number)


def given(role: str, epoch: int, master: str) -> ha.RoleGiven:
    return ha.RoleGiven(role=role, epoch=epoch, master=master)


def first_master() -> Boot:
    """n0 leads, loses its lease, is deposed and follows what it has to be cut for."""
    boot = Boot("n0")
    boot.say(0, "owners/orders", given("master", 1, "n0"))
    boot.say(1, "orders/epochs", ha.EpochBegun(epoch=1, start_bytes=0))
    boot.say(1, TRANSFER, in_set(1, 1))
    boot.say(1.5, TRANSFER, ha.LeaseChanged(epoch=1, holds=True))
    boot.say(2, TRANSFER, in_set(2, 1, 2))
    boot.say(3, TRANSFER, in_set(3, 1, 2, 3))
    boot.say(4, TRANSFER, in_set(4, 1, 2))
    boot.say(5, TRANSFER, ha.LeaseChanged(epoch=1, holds=False))
    boot.say(6, TRANSFER, ha.LeaseChanged(epoch=1, holds=True))
    boot.say(8, "owners/orders", given("slave", 2, "n1"))
    failed = broker.RoleNotTaken(epoch=2, reason="the disk is full")
    boot.say(8.5, "replicas/orders/replicas_manager", failed)
    boot.say(9, "owners/orders", ha.LogCutAsked(epoch=2, written_bytes=90, end_bytes=60))
    follows = roles.SlaveVerified(session=1, master="n1", number=2, end_bytes=60)
    boot.say(10, "orders/ha_client", follows)
    boot.say(20, "orders/ha_client", ha.OffsetReported(session=1, offset_bytes=60))
    return boot


def second_master() -> Boot:
    """n1 follows, and is elected: the set that it begins with is no change."""
    boot = Boot("n1")
    boot.say(0, "owners/orders", given("slave", 1, "n0"))
    follows = roles.SlaveVerified(session=1, master="n0", number=1, end_bytes=0)
    boot.say(2, "orders/ha_client", follows)
    lost = ha.MasterLost(session=1, reason="closed", detail="", pause_s=0.1)
    boot.say(7, "orders/ha_client", lost)
    boot.say(7.1, "owners/orders", given("master", 2, "n1"))
    boot.say(7.5, "orders/epochs", ha.EpochBegun(epoch=2, start_bytes=60))
    boot.say(7.5, TRANSFER, in_set(5, 2))
    boot.say(20, TRANSFER, in_set(6, 1, 2))
    return boot


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return events_of(spark, first_master(), second_master())


def test_roles_are_taken_as_epochs_begin_and_masters_are_followed(events: DataFrame) -> None:
    found = rows(roles_of(events).select("node", "role", "number", "leader", "from_us", "until_us"))
    assert sorted(found, key=lambda row: (row[0], row[4])) == [
        ("n0", "alone", None, "", at(0), at(1)),
        ("n0", "master", 1, "n0", at(1), at(5)),
        ("n0", "fenced", None, "n0", at(5), at(6)),
        ("n0", "master", 1, "n0", at(6), at(8)),
        ("n0", "alone", None, "", at(8), at(10)),
        ("n0", "slave", 2, "n1", at(10), at(20)),
        ("n1", "alone", None, "", at(0), at(2)),
        ("n1", "slave", 1, "n0", at(2), at(7)),
        ("n1", "alone", None, "", at(7), at(7.5)),
        ("n1", "master", 2, "n1", at(7.5), at(20)),
    ]


def test_a_replica_is_without_a_master_until_it_is_one_or_follows_one(events: DataFrame) -> None:
    found = rows(failovers(events).select("node", "before", "after", "took_us"))
    assert sorted(found) == [("n0", "n0", "n1", 2 * SECOND), ("n1", "n0", "n1", SECOND // 2)]


def test_what_happened_beside_roles(events: DataFrame) -> None:
    found = rows(turns(events).select("node", "at_us", "what", "detail"))
    assert sorted(found, key=lambda row: (row[0], row[1])) == [
        ("n0", at(2), "set grows", "1 2"),
        ("n0", at(3), "set grows", "1 2 3"),
        ("n0", at(4), "set shrinks", "1 2"),
        ("n0", at(5), "lease ends", "in epoch 1"),
        ("n0", at(8.5), "role not taken", "the disk is full"),
        ("n0", at(9), "log cut", "from 90 to 60"),
        ("n1", at(20), "set grows", "1 2"),
    ]
    assert {what for _, _, what, _ in found} == TURNS.keys() == timeline.TURNS.keys()


def test_the_timeline_has_a_mark_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(*turns: Turn) -> str:
        spans = (span("pair", "n0", "master", 0, 60, 1),)
        picture = timeline.timeline(attrs.evolve(facts(), roles=spans, turns=turns))
        assert picture is not None
        return str(picture.wide)

    moments = [
        Turn(group="pair", node="n0", at_us=moment(10.0 + number), what=what, detail=f"d{number}")
        for number, what in enumerate(TURNS)
    ]
    whole = drawn(*moments)
    for number, what in enumerate(TURNS):
        assert f"pair, n0: {what}, d{number}, " in whole
        assert what not in drawn()
    assert "elsewhere" not in drawn(attrs.evolve(moments[0], node="elsewhere"))
