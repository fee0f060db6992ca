"""What the table of outages says is what the nodes' events say; the run itself, once, for real."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from bench_autoswitch_faults import COLUMNS, KILLED, STOPPED, Fault, measure_faults, stages

from actors.events import controller, ha
from actors.events.codec import LoggedEvent
from actors.events.node import NodeStarted

BEGUN_S = 1000.0


def logged(at_s: float, node: str, event: Any) -> LoggedEvent:
    ts_us = round((BEGUN_S + at_s) * 1e6)
    return LoggedEvent(
        node=node, boot=1, seq=1, path=f"/{node}", incarnation=1, ts_us=ts_us, event=event
    )


def silent(broker_id: int) -> controller.ReplicaSilent:
    return controller.ReplicaSilent(cluster="c", broker="b", broker_id=broker_id, reason="gone")


def changed(*members: int) -> controller.SyncStateSetChanged:
    return controller.SyncStateSetChanged(
        cluster="c", broker="b", in_sync=members, epoch=3, master_epoch=2
    )


ELECTED = controller.MasterElected(
    cluster="c", broker="b", broker_id=2, address="a", epoch=2, asked_by="the controller"
)
EVENTS = [
    logged(-1.0, "c0", silent(2)),
    logged(-0.5, "n1", ha.LeaseChanged(epoch=1, holds=True)),
    logged(0.1, "c0", silent(1)),
    logged(0.2, "c0", ELECTED),
    logged(0.25, "n0", ha.RoleGiven(role="slave", epoch=2, master="n1")),
    logged(0.3, "n1", ha.RoleGiven(role="master", epoch=2, master="n1")),
    logged(0.4, "n1", ha.LeaseChanged(epoch=2, holds=True)),
    logged(0.6, "c0", changed(1, 2)),
    logged(3.0, "n0", NodeStarted(cluster="c", version="0", process=2, groups=("orders",))),
    logged(3.2, "c0", changed(2)),
    logged(3.5, "c0", changed(1, 2)),
    logged(3.7, "c0", changed(1, 2)),
    logged(9.0, "c0", silent(2)),
]


@pytest.mark.parametrize(
    ("what", "again_s", "last"),
    [(KILLED, 1.0, {"loaded_s": 2.0, "back_s": 0.5}), (STOPPED, 0.55, {"back_s": 0.05})],
    ids=[KILLED, STOPPED],
)
def test_the_stages_of_an_outage(what: str, again_s: float, last: dict[str, float]) -> None:
    """A set that was whole before the node was back is not its return."""
    fault = Fault(what, "n0", BEGUN_S, BEGUN_S + 0.45, BEGUN_S + again_s, BEGUN_S + 4.0)
    first = {"silent_s": 0.1, "elected_s": 0.2, "told_s": 0.3, "opened_s": 0.4, "answered_s": 0.45}
    assert stages(fault, EVENTS) == pytest.approx(first | last)


def test_what_no_event_says_is_left_out() -> None:
    fault = Fault(KILLED, "n0", BEGUN_S, BEGUN_S + 60.0, BEGUN_S + 60.0, BEGUN_S + 60.0)
    assert stages(fault, EVENTS[:3]) == pytest.approx({"silent_s": 0.1, "answered_s": 60.0})


def test_a_master_is_killed_and_one_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = os.getpid()
    host = f"127.{40 + pid % 200}.{pid // 200 % 250}"  # no other run of these tests has it
    measure_faults(tmp_path, host, kills=1, stops=1, seed=1)
    said = capsys.readouterr().out
    (head,) = (line for line in said.splitlines() if line.split() == list(COLUMNS))
    assert head
    for row in (KILLED, STOPPED):
        assert f'"row": "{row}", "rounds": 1' in said
    assert "acknowledged, each there once" in said
