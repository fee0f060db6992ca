"""Gold against a day made by hand, whose truth is known to the microsecond."""

from __future__ import annotations

import pytest
from lines_kit import SECOND, START_US, Boot, events_of, rows
from pyspark.sql import DataFrame, SparkSession

from actors.events import dledger, ha, node, roles, runtime, store
from actors.pipeline.gold.elections import elections, failovers, role_changes
from actors.pipeline.gold.lag import lag
from actors.pipeline.gold.latency import answered_writes, latency, percentiles
from actors.pipeline.gold.outages import outages
from actors.pipeline.gold.restarts import pressure, restarts
from actors.pipeline.gold.roles import roles as roles_of
from actors.pipeline.gold.throughput import resent, throughput

STORE = "orders/storage/store"
TRANSFER = "orders/group_transfer"
BUSY_WRITES = 600


def at(seconds: float) -> int:
    return START_US + round(seconds * SECOND)


def appended(first: int, end: int, appends: int = 1, records: int = 1) -> store.RecordsAppended:
    return store.RecordsAppended(
        first_bytes=first, next_bytes=end, appends=appends, records=records
    )


def answered(first: int, end: int, appends: int = 1) -> ha.AppendsAcknowledged:
    return ha.AppendsAcknowledged(
        first_bytes=first, next_bytes=end, appends=appends, records=appends
    )


def acked(slave: str, offset: int) -> ha.SlaveAcked:
    return ha.SlaveAcked(slave=slave, connection=1, offset_bytes=offset)


def opened(end: int) -> store.RecoveryFinished:
    return store.RecoveryFinished(
        was_clean=True,
        scanned_from_bytes=0,
        end_bytes=end,
        record_count=0,
        kept_bytes=0,
        reason="",
    )


def role(session: int, name: str, term: int, leader: str) -> dledger.RoleChanged:
    return dledger.RoleChanged(session=session, role=name, term=term, leader=leader)


def rose(index: int) -> dledger.CommittedRose:
    return dledger.CommittedRose(session=1, index=index)


def received(session: int, first: int, end: int) -> store.BytesReceived:
    return store.BytesReceived(session=session, first_bytes=first, next_bytes=end)


def master() -> Boot:
    """n0 leads both groups; it stalls once, then is idle, then is gone."""
    boot = Boot("n0")
    boot.say(0, STORE, opened(0))
    boot.say(0.1, TRANSFER, acked("n1", 0))
    boot.say(0.1, TRANSFER, acked("n2", 0))
    boot.say(0, "ledger/state_maintainer", role(1, "CANDIDATE", 0, ""))
    boot.say(0.5, "ledger/state_maintainer", role(2, "LEADER", 1, "n0"))
    boot.say(1.0, STORE, appended(0, 100))
    boot.say(1.010, TRANSFER, acked("n1", 100))
    boot.say(1.012, TRANSFER, answered(0, 100))
    boot.say(1.2, "ledger/entry_pusher/quorum_ack_checker", rose(10))
    boot.say(1.5, STORE, appended(100, 300, appends=2, records=4))
    boot.say(1.6, STORE, appended(300, 400))
    boot.say(1.62, TRANSFER, acked("n1", 400))
    boot.say(1.63, TRANSFER, answered(100, 400, appends=3))
    boot.say(2.0, STORE, appended(400, 900))
    boot.say(2.2, TRANSFER, acked("n2", 100))
    boot.say(2.5, TRANSFER, acked("n1", 700))
    boot.say(3.0, TRANSFER, acked("n1", 900))
    boot.say(3.1, TRANSFER, answered(400, 900))
    boot.say(10.0, STORE, appended(900, 1000))
    boot.say(10.005, TRANSFER, acked("n1", 1000))
    boot.say(10.01, TRANSFER, answered(900, 1000))
    return boot


def slave() -> Boot:
    """n1 follows, loses its master twice in a row, and leads the ledger after n0."""
    boot = Boot("n1")
    verified = {"session": 1, "number": 0, "end_bytes": 0}
    lost = ha.MasterLost(session=1, reason="broke", detail="", pause_s=0.2)
    boot.say(0.05, "roles/orders", roles.SlaveVerified(master="n0", **verified))
    boot.say(0, "ledger/state_maintainer", role(1, "CANDIDATE", 0, ""))
    boot.say(0.5, "ledger/state_maintainer", role(2, "FOLLOWER", 1, "n0"))
    boot.say(1, STORE, received(1, 0, 100))
    boot.say(1.4, "ledger/entry_pusher/entry_handler", rose(10))
    boot.say(2, STORE, received(1, 100, 400))
    boot.say(2.5, STORE, received(2, 200, 500))
    boot.say(3, "orders/ha_client", lost)
    boot.say(3.5, "orders/ha_client", lost)
    boot.say(4.2, "roles/orders", roles.SlaveVerified(master="n2", **verified))
    boot.say(5.0, "ledger/state_maintainer", role(3, "CANDIDATE", 1, ""))
    boot.say(5.2, "ledger/state_maintainer", role(4, "CANDIDATE", 2, ""))
    boot.say(5.5, "ledger/state_maintainer", role(5, "LEADER", 2, "n1"))
    boot.say(5.7, "ledger/entry_pusher/quorum_ack_checker", rose(11))
    return boot


def troubled() -> Boot:
    """n2 lags in the ledger, and its actors crash and are overrun."""
    boot = Boot("n2")
    boot.say(0.5, "ledger/state_maintainer", role(1, "FOLLOWER", 1, "n0"))
    boot.say(1.5, "ledger/entry_pusher/entry_handler", rose(7))
    boot.say(2, STORE, received(1, 0, 100))
    for number, error in enumerate(("A: x", "B: y"), 1):
        boot.say(2 + number, "orders/dispatcher", runtime.ActorCrashed(error=error, starting=False))
        boot.say(2 + number, "orders/dispatcher", runtime.ActorRestarted(restarts=number), 2)
    exceeded = runtime.RestartIntensityExceeded(child="dispatcher", intensity=3, period_s=30)
    boot.say(4, "orders", exceeded)
    boot.say(5.1, "ledger/state_maintainer", role(2, "FOLLOWER", 2, ""))
    boot.say(6.1, "ledger/entry_pusher/entry_handler", rose(11))
    for lag_s in (1.5, 2.5):
        boot.say(7, "api", runtime.LoopLagged(lag_s=lag_s))
    boot.say(7, "api", runtime.DeadLettered(message_type="M", count=3))
    boot.say(8, "api", runtime.AskTimedOut(message_type="M", timeout_s=1))
    boot.say(70, "api", runtime.AskTimedOut(message_type="M", timeout_s=1))
    dropped = node.EventsDropped(first_seq=boot.seq, last_seq=boot.seq + 8)
    boot.seq += 9
    boot.say(8, "event_log", dropped)
    again = Boot("n2", boot=2)
    again.say(20, STORE, received(1, 100, 150))
    boot.lines += again.lines
    return boot


def busy() -> Boot:
    """600 writes over ten minutes; the one that is number i waits i milliseconds."""
    boot = Boot("n7")
    for number in range(1, BUSY_WRITES + 1):
        place = "busy/storage/store"
        boot.say(number, place, appended(number - 1, number))
        boot.say(number + number / 1000, "busy/group_transfer", answered(number - 1, number))
    return boot


def jumping() -> Boot:
    """Whose clock is set back by an hour between write and answer, then on by 30 years."""
    boot = Boot("n5")
    boot.say(5000, "odd/group_transfer", acked("n6", 0))
    boot.say(5000, "odd/storage/store", appended(0, 10))
    boot.say(1400, "odd/group_transfer", answered(0, 10))
    boot.say(1e9, "odd/storage/store", appended(10, 20))
    return boot


def again() -> Boot:
    """A log that was cut and written anew: two answers reach one end, and the first one counts."""
    boot = Boot("n8")
    boot.say(1, "cut/storage/store", appended(0, 10))
    boot.say(2, "cut/storage/store", appended(10, 20))
    boot.say(3, "cut/group_transfer", answered(0, 20))
    boot.say(9, "cut/group_transfer", answered(10, 20))
    return boot


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return events_of(spark, master(), slave(), troubled(), busy(), jumping(), again())


def test_lag_of_a_slave_by_what_its_master_knows(events: DataFrame) -> None:
    second = START_US // SECOND
    found = rows(lag(events).where("group = 'orders'"), "follower", "second", "lag", "unit")
    assert found == sorted(
        ("n1" if one else "n2", second + after, behind, "bytes")
        for one, lags in (
            (True, {0: 0, 1: 0, 2: 200, 3: 0, 10: 0}),
            (False, {0: 0, 1: 400, 2: 800, 3: 800, 10: 900}),
        )
        for after, behind in lags.items()
    )


def test_lag_of_ledger_members_by_the_highest_index_told(events: DataFrame) -> None:
    second = START_US // SECOND
    found = rows(lag(events).where("group = 'ledger'"), "follower", "second", "lag")
    expected = {"n0": (0, 1, 1), "n1": (0, 0, 0), "n2": (3, 4, 0)}
    assert found == [
        (name, second + after, behind)
        for name, lags in expected.items()
        for after, behind in zip((1, 5, 6), lags, strict=True)
    ]


def test_a_clock_that_jumps_makes_neither_rows_nor_latencies(events: DataFrame) -> None:
    assert rows(lag(events).where("group = 'odd'"), "lag") == [(10,), (20,)]
    assert answered_writes(events).where("group = 'odd'").count() == 0


def test_a_write_is_answered_by_the_first_answer_that_reaches_its_end(events: DataFrame) -> None:
    found = answered_writes(events).where("group = 'orders'")
    waited = {0: 12_000, 0.5: 130_000, 0.6: 30_000, 1: 1_100_000, 9: 10_000}
    assert rows(found, "ts_us", "waited_us") == [(at(1 + t), us) for t, us in waited.items()]
    of_two = answered_writes(events).where("group = 'cut'")
    assert rows(of_two, "ts_us", "waited_us") == [(at(1), 2 * SECOND), (at(2), SECOND)]


def test_sketches_merge_over_minutes(events: DataFrame) -> None:
    by_minute = latency(events).cache()
    assert by_minute.where("group = 'busy'").count() >= 10
    (busy_row,) = percentiles(by_minute).where("group = 'busy'").collect()
    assert busy_row["writes"] == BUSY_WRITES
    assert busy_row["worst_us"] == BUSY_WRITES * 1000
    for rank in (50, 90, 99, 99.9):  # exact: all of them have room in one sketch
        assert abs(busy_row[f"p{rank:g}_us"] / 1000 - BUSY_WRITES * rank / 100) <= 1
    (orders,) = percentiles(by_minute).where("group = 'orders'").collect()
    assert (orders["writes"], orders["records"], orders["p50_us"]) == (5, 8, 30_000)


def test_throughput_by_second_of_who_answered(events: DataFrame) -> None:
    """n0's first commit counts nothing, for nobody told from where it rose."""
    second = START_US // SECOND
    columns = ("group", "node", "second", "acknowledged", "size_bytes")
    found = rows(throughput(events).where("group in ('orders', 'ledger')"), *columns)
    assert found == [
        ("ledger", "n1", second + 5, 1, None),
        ("orders", "n0", second + 1, 4, 400),
        ("orders", "n0", second + 3, 1, 500),
        ("orders", "n0", second + 10, 1, 100),
    ]


def test_roles_of_both_kinds_end_with_the_next_one_or_the_boot(events: DataFrame) -> None:
    columns = ("group", "role", "number", "leader", "from_us", "until_us")
    assert rows(roles_of(events).where("node = 'n1'"), *columns) == [
        ("ledger", "candidate", 0, "", at(0), at(0.5)),
        ("ledger", "candidate", 1, "", at(5), at(5.2)),
        ("ledger", "candidate", 2, "", at(5.2), at(5.5)),
        ("ledger", "follower", 1, "n0", at(0.5), at(5)),
        ("ledger", "leader", 2, "n1", at(5.5), at(5.7)),
        ("orders", "alone", None, "", at(3), at(4.2)),
        ("orders", "slave", 0, "n0", at(0.05), at(3)),
        ("orders", "slave", 0, "n2", at(4.2), at(5.7)),
    ]


def test_elections_count_the_winners_rounds(events: DataFrame) -> None:
    columns = ("node", "term", "rounds", "from_us", "until_us", "took_us")
    assert rows(elections(events), *columns) == [
        ("n0", 1, 1, at(0), at(0.5), 500_000),
        ("n1", 2, 2, at(5), at(5.5), 500_000),
    ]


def test_role_changes_follow_each_other(events: DataFrame) -> None:
    of_n1 = role_changes(events).where("node = 'n1'")
    found = rows(of_n1, "session", "role", "from_us", "until_us")
    assert found == [
        (1, "CANDIDATE", at(0), at(0.5)),
        (2, "FOLLOWER", at(0.5), at(5)),
        (3, "CANDIDATE", at(5), at(5.2)),
        (4, "CANDIDATE", at(5.2), at(5.5)),
        (5, "LEADER", at(5.5), None),
    ]


def test_failovers_are_one_nodes_own_time_without_a_leader_or_master(events: DataFrame) -> None:
    columns = ("group", "node", "before", "after", "from_us", "took_us")
    assert rows(failovers(events), *columns) == [
        ("ledger", "n1", "n0", "n1", at(5), 500_000),
        ("ledger", "n2", "n0", None, at(5.1), None),
        ("orders", "n1", "n0", "n2", at(3), 1_200_000),
    ]


def test_an_outage_has_a_witness_and_idleness_has_none(events: DataFrame) -> None:
    found = outages(events).where("group in ('orders', 'ledger')")
    columns = ("group", "from_us", "took_us", "from_node", "until_node", "waited_us", "witnessed")
    assert rows(found, *columns) == [
        ("ledger", at(1.2), 4_500_000, "n0", "n1", None, True),
        ("orders", at(1.012), 618_000, "n0", "n0", 130_000, True),
        ("orders", at(1.63), 1_470_000, "n0", "n0", 1_100_000, True),
        ("orders", at(3.1), 6_910_000, "n0", "n0", 10_000, False),
    ]
    assert outages(events, 2 * SECOND).where("group = 'orders'").count() == 1


def test_restarts_by_path_with_the_last_error(events: DataFrame) -> None:
    columns = ("path", "crashes", "restarts", "gave_up", "killed", "last_error")
    assert rows(restarts(events), *columns) == [
        ("/n2/orders", 0, 0, 1, 0, None),
        ("/n2/orders/dispatcher", 2, 2, 0, 0, "B: y"),
    ]


def test_pressure_by_path_and_minute(events: DataFrame) -> None:
    minute = START_US // SECOND // 60
    columns = ("minute", "asks_timed_out", "dead_letters", "lags", "worst_lag_s", "events_dropped")
    assert rows(pressure(events), "path", *columns) == [
        ("/n2/api", minute, 1, 3, 2, 2.5, 0),
        ("/n2/api", minute + 1, 1, 0, 0, None, 0),
        ("/n2/event_log", minute, 0, 0, 0, None, 9),
    ]


def test_bytes_that_came_again(events: DataFrame) -> None:
    columns = ("node", "received_bytes", "resent_bytes", "sessions")
    assert rows(resent(events), *columns) == [("n1", 700, 200, 2), ("n2", 150, 0, 2)]
