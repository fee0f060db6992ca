"""The master's table of slaves and connections."""

from __future__ import annotations

import pytest

from actors.ha.core.extent import LogExtent
from actors.ha.core.slave_table import SlaveStatus, SlaveTable
from actors.ha.core.states import HAConnectionState, Lost

END = LogExtent(0, 1000, 900)


def two_slaves() -> SlaveTable:
    table = SlaveTable(in_sync_gap_bytes=100)
    table.add_slave("n1", "python", counts=True)
    table.add_slave("n2", "java", counts=False)
    return table


def row(table: SlaveTable, slave: str = "n1", now_s: float = 10.0) -> SlaveStatus:
    return next(status for status in table.status(END, now_s) if status.node == slave)


@pytest.mark.checklist(59)
def test_a_slave_that_never_came_is_seen() -> None:
    assert row(two_slaves(), "n2") == SlaveStatus(
        node="n2",
        kind="java",
        counts=False,
        address="",
        connection=0,
        state=HAConnectionState.SHUTDOWN,
        ack_bytes=None,
        next_bytes=None,
        lag_bytes=None,
        in_sync=False,
        bytes_per_s=0,
        sent_bytes=0,
        connected_s=None,
        report_age_s=None,
        last_error="",
    )


@pytest.mark.checklist(59)
def test_a_connection_s_row() -> None:
    table = two_slaves()
    table.opened("n1", 7, "127.0.0.2:4", 1.0)
    assert row(table, now_s=1.5).state == HAConnectionState.READY
    assert table.reported(7, 880, 4.0) is None
    table.sent(7, 950, 70, 8.2)
    table.sent(7, 990, 110, 9.1)
    assert row(table, now_s=9.3) == SlaveStatus(
        node="n1",
        kind="python",
        counts=True,
        address="127.0.0.2:4",
        connection=7,
        state=HAConnectionState.TRANSFER,
        ack_bytes=880,
        next_bytes=990,
        lag_bytes=120,
        in_sync=False,
        bytes_per_s=70,
        sent_bytes=110,
        connected_s=pytest.approx(8.3),
        report_age_s=pytest.approx(5.3),
        last_error="",
    )
    table.reported(7, 901, 9.0)
    assert row(table).in_sync
    table.reported(7, 900, 9.0)
    assert not row(table).in_sync  # exactly the gap is too far, as upstream's strict comparison
    assert table.ending(7, Lost.SILENT, "20 s") == "n1"
    table.ending(7, Lost.BROKEN, "the other socket, later")
    assert table.closed(7) == ("n1", f"{Lost.SILENT.value}: 20 s")
    ended = row(table)
    assert (ended.state, ended.in_sync, ended.connected_s) == (
        HAConnectionState.SHUTDOWN,
        False,
        None,
    )
    assert ended.last_error == f"{Lost.SILENT.value}: 20 s"
    assert table.closed(7) is None
    assert table.ending(7, Lost.BROKEN, "") is None


@pytest.mark.checklist(34)
def test_the_newest_connection_that_spoke_replaces_the_older() -> None:
    table = two_slaves()
    table.opened("n1", 1, "a", 0.0)
    table.reported(1, 10, 0.0)
    table.opened("n1", 2, "b", 1.0)
    assert row(table).connection == 1  # a probe from the slave's address changes nothing
    assert table.reported(2, 20, 2.0) == 1
    assert row(table).connection == 2
    table.ending(1, Lost.REPLACED, "")
    table.closed(1)
    assert (row(table).connection, row(table).last_error) == (2, "")
    assert table.connection_count == 1


def test_an_older_connection_that_speaks_later_is_the_one_to_end() -> None:
    table = two_slaves()
    table.opened("n1", 1, "a", 0.0)
    table.opened("n1", 2, "b", 1.0)
    assert table.reported(2, 20, 2.0) is None
    assert table.reported(1, 10, 3.0) == 1
    assert row(table).connection == 2


def test_a_probe_that_leaves_does_not_hide_why_the_slave_left() -> None:
    table = two_slaves()
    table.opened("n1", 1, "a", 0.0)
    table.reported(1, 10, 0.0)
    table.opened("n1", 2, "probe", 1.0)
    table.ending(2, Lost.PEER_CLOSED, "")
    table.closed(2)
    assert row(table).last_error == ""
    assert row(table).connection == 1
    table.opened("n1", 3, "probe", 1.0)
    table.ending(3, Lost.REPORT_AHEAD, "junk")
    table.closed(3)
    assert row(table).last_error == f"{Lost.REPORT_AHEAD.value}: junk"
    assert table.closed(1) == ("n1", Lost.BROKEN.value)  # nobody said why
    table.opened("n1", 4, "c", 2.0)
    assert row(table).connection == 4  # after the end of the last one a new one is shown at once


def test_news_of_unknown_connections_is_ignored() -> None:
    table = two_slaves()
    assert table.reported(9, 1, 0.0) is None
    table.sent(9, 1, 1, 0.0)
    assert table.connection_count == 0
