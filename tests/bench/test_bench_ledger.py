"""The ledger's tables: who has a turn and when, and what is counted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import bench_ledger
import bench_ledger_appends
import bench_ledger_groups
import bench_ledger_growth
import pytest
from bench_kit import Figures, compiled
from bench_ledger_appends import FIRST_S, PRODUCER, WARM_S, Appends, rows_of
from bench_ledger_groups import Group, JavaGroup, OurGroup
from bench_ledger_rivals import RIVALS, RivalGroup
from interop_processes import PeerFailed, Processes

Call = tuple[str, str, int | str | None, float]
"""Group, interface, outstanding, seconds."""
calls: list[Call] = []
FAKE_NODE = """\
import sys
print("{}", flush=True)
for line in sys.stdin:
    words = line.split()
    print('noise\\n{"end":7}' if words == ["end"] else '{"k_per_s":%s}' % words[1], flush=True)
"""


class Turns:
    """Mixed into a group: takes part without processes.

    Attributes:
        lost_at: its wake of that number finds it in pieces; 0: none does.
        lost: what is raised then.
    """

    name = ""
    lost_at = 0
    lost: Exception = PeerFailed("in pieces")
    wakes = stops = renewals = 0

    def wake(self) -> None:
        self.wakes += 1
        if self.wakes == self.lost_at:
            raise self.lost

    def rest(self) -> None:
        pass

    def stop(self) -> None:
        self.stops += 1

    def idle_percent(self) -> float:
        return 3.0

    def load(self, count: int, seconds: float, size: int) -> dict[str, float]:
        calls.append((self.name, "wire", count, seconds))
        return {"k_per_s": 2.0, "p50_ms": 1.0, "client_us": float(size)}


class Ours(Turns, OurGroup):
    name = "ours"

    def inside(self, do: str, **what: Any) -> dict[str, float]:
        calls.append(("ours", f"inside {do}", what.get("count", what.get("outstanding")), 0.0))
        return {"k_per_s": 40.0, "p50_ms": 1.0}

    def over_api(self, do: str, **what: Any) -> dict[str, float]:
        calls.append(("ours", f"api {do}", what.get("count", what.get("outstanding")), 0.0))
        return {"k_per_s": 20.0, "p50_ms": 1.0}


class Java(Turns, JavaGroup):
    def inside(self, count: int, seconds: float, size: int) -> dict[str, float]:
        calls.append((self.name, "inside", count, seconds))
        return {"k_per_s": 3.0, "p50_ms": 1.0}

    def renew(self) -> bool:
        self.renewals += self.in_memory
        return self.in_memory


class Rival(Turns, RivalGroup):
    pass


def group(kind: Any, name: str, *what: object) -> Any:
    found = kind(Processes(), Path("/nowhere"), {}, *what)
    found.name = name
    return found


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(bench_ledger_appends, "settle", lambda: None)
    calls.clear()
    rivals = ((name, RIVALS[name]) for name in ("hashicorp, wal", "etcd, wire"))
    return {
        "ours": group(Ours, "ours"),
        "Java": group(Java, "Java", {}, ""),
        "Java, batch": group(Java, "Java, batch", {}, ""),
        "Java, memory": group(Java, "Java, memory", {"storeType": "MEMORY"}, ""),
        **{name: group(Rival, name, rival, Path(), "synced", 1) for name, rival in rivals},
    }


def appends(found: dict[str, Any], how: str = "synced") -> Appends:
    return Appends(found, how, lambda: {"p50_ms": 0.25, "p99_ms": 1.0})


# ---- who has a turn ----


def test_each_row_is_loaded_through_its_own_interface(found: dict[str, Any]) -> None:
    for row in rows_of(found).values():
        if row.shapes(128):
            row.run(128, 1.0)
    assert [call[:3] for call in calls] == [
        ("ours", "inside tasks", 128),
        ("ours", "inside producer", 128),
        ("ours", "api tasks", 128),
        ("ours", "api producer", 128),
        ("ours", "wire", 128),
        ("Java", "wire", 128),
        ("Java", "inside", 128),
        ("Java, batch", "wire", 128),
        ("Java, batch", "inside", 128),
        ("Java, memory", "wire", 128),
        ("hashicorp, wal", "wire", 128),
        ("etcd, wire", "wire", 128),
    ]


def test_who_takes_part_in_which_table(found: dict[str, Any]) -> None:
    rows = rows_of(found)
    everyone = {"ours", "ours, client", "ours, wire", "Java", "Java, inside", "Java, batch"}
    everyone |= {"Java, inside, batch", "Java, memory", "hashicorp, wal", "etcd, wire"}
    deep = {"ours, pipelined", "ours, client, pipelined"}
    shapes = {
        shape: {name for name, row in rows.items() if row.shapes(shape)}
        for shape in bench_ledger.SHAPES
    }
    assert shapes == {
        1: everyone,
        16: everyone,
        128: everyone | deep,
        1024: everyone | deep,
        PRODUCER: {"ours", "ours, client"},
    }
    for interface in ("ours", "ours, client"):
        rows[interface].run(PRODUCER, 1.0)
    assert [call[1:3] for call in calls] == [("inside producer", None), ("api producer", None)]


def test_inside_is_who_runs_in_its_leader(found: dict[str, Any]) -> None:
    assert {name for name, row in rows_of(found).items() if row.inside} == {
        *("ours", "ours, pipelined", "Java, inside", "Java, inside, batch", "hashicorp, wal")
    }


def test_all_are_warm_before_the_first_round(found: dict[str, Any]) -> None:
    appends(found).table(16, 2, 0.25)
    first, second = calls[:10], calls[10:20]
    assert len(calls) == 30
    assert [call[:3] for call in first] == [call[:3] for call in second]
    assert second == calls[20:]  # one after the other, in each round again
    timed = {call[:2]: call[3] for call in first if call[0] != "ours"}
    assert timed.pop(("Java, memory", "wire")) == FIRST_S  # it has only just begun again
    assert set(timed.values()) == {WARM_S}
    assert found["Java, memory"].renewals == 1


def test_a_memory_store_begins_again_for_each_table(found: dict[str, Any]) -> None:
    tables = appends(found, "written")
    for shape in (1, 16):
        tables.table(shape, 3, 0.25)
    assert {name: one.renewals for name, one in found.items() if one.renewals} == {
        "Java, memory": 2
    }


def test_what_idle_groups_cost_is_said_and_java_has_its_first_load(
    found: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    appends(found).begin()
    assert calls == [("Java", "wire", 16, FIRST_S), ("Java, batch", "wire", 16, FIRST_S)]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-2:] for line in lines if line.startswith("etcd")] == [["3", "0"]]


LOST = PeerFailed("did not see all of the log everywhere\nits log")
SILENT = TimeoutError()


@pytest.mark.parametrize(
    ("at", "why", "told"),
    [
        *((at, LOST, "did not see all of the log everywhere") for at in range(1, 7)),
        (4, SILENT, "TimeoutError()"),
    ],
)
def test_a_group_that_falls_apart_is_left_out_and_the_others_go_on(
    at: int, why: Exception, told: str, found: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """While it is looked at, warmed up, or in any of its two rows' turns."""
    groups, java = dict(found), found["Java"]
    java.lost_at, java.lost = at, why
    tables = appends(found)
    tables.table(16, 3, 0.0)
    tables.table(1, 3, 0.0)
    assert set(groups) - set(found) == {"Java"}
    assert (java.wakes, java.stops) == (at, 1)
    assert not any(row.group == "Java" for row in tables.rows.values())
    assert {groups[name].stops for name in found} == {0}
    assert found["ours"].wakes == 2 * (1 + 4 * 3)
    printed = capsys.readouterr().out
    assert f"Java left out from here on: {told}\n" in printed


def test_without_ours_there_is_nothing_to_measure(found: dict[str, Any]) -> None:
    found["ours"].lost_at = 3
    with pytest.raises(PeerFailed):
        appends(found).table(16, 3, 0.0)


def test_the_bare_cost_stands_in_the_table_of_one_append(
    found: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    tables = appends(found)
    tables.table(16, 1, 0.0)
    assert "bare" not in capsys.readouterr().out
    tables.table(1, 1, 0.0)
    shown = capsys.readouterr().out
    for row in ("ours", "ours, wire", "ours, client"):
        assert f"\n{row} / bare, p50_ms: 4.00   (wanted: at most 2)\n" in shown


# ---- a group ----


@attrs.define
class Still(Group):
    """Members of a list; everything else is as in a real one."""

    entries: int = 0

    def start(self, name: str) -> None:
        raise AssertionError

    def end(self, name: str) -> int:
        return self.entries

    def store(self, name: str) -> Path:
        raise AssertionError

    def leader(self) -> str:
        return "n0"

    def wait_even(self) -> int:
        return self.entries


@pytest.mark.parametrize("rests", [False, True])
def test_only_who_costs_much_stands_still(rests: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_ledger_groups, "WAKE_S", 0.0)
    done: list[str] = []
    process = SimpleNamespace(
        pause=lambda: done.append("pause"), resume=lambda: done.append("resume")
    )
    one = Still(Processes(), Path(), {})
    one.running, one.rests = {"n0": process}, rests  # type: ignore[dict-item]
    one.rest()
    one.wake()
    assert done == (["pause", "resume"] if rests else [])
    assert RIVALS["PySyncObj, tuned"].rests


def test_what_a_client_of_its_own_costs_is_counted_for_each_append(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench_ledger_groups, "processor_s", lambda process: process.popen)
    one = Still(Processes(), Path(), {})
    members = {name: SimpleNamespace(popen=1.0) for name in ("n0", "n1", "n2")}
    one.running = members  # type: ignore[assignment]
    client = [5.0]

    def run() -> dict[str, float]:
        one.entries += 1000
        members["n0"].popen += 0.25
        members["n2"].popen += 0.25
        client[0] += 0.5
        return {"k_per_s": 1.0}

    costs = {"leader_us": 250.0, "follower_us": 125.0}
    assert one.measured(run, lambda: client[0]) == {"k_per_s": 1.0, **costs, "client_us": 500.0}
    assert one.measured(run) == {"k_per_s": 1.0, **costs}


@pytest.mark.parametrize(("synced", "last"), [(True, 4), (False, 9)])
def test_ours_vouch_for_what_is_as_durable_as_the_table_says(synced: bool, last: int) -> None:
    one = OurGroup(Processes(), Path(), {})
    one.nodes["n1"] = SimpleNamespace(  # type: ignore[assignment]
        ask=lambda do: {"offsets": {"written": 10, "synced": 5}}[do]
    )
    one.synced = synced
    assert (one.vouched("n1"), one.end("n1")) == (last, 9)


@pytest.mark.real_io
def test_a_java_node_is_asked_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes()
    one = JavaGroup(processes, tmp_path, {}, {}, "")
    monkeypatch.setattr(JavaGroup, "leader", lambda _: "n0")
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", FAKE_NODE]
    try:
        for name in ("n0", "n1"):
            one.running[name] = processes.start(name, command, tmp_path, stdin=pipe, stdout=pipe)
            one._answer(one.running[name])
        assert one.end("n0") == 7
        assert one.inside(128, 0.5, 256)["k_per_s"] == 128
    finally:
        processes.end()


@pytest.mark.real_io
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_bare_cost_is_measured_over_two_round_trips(tmp_path: Path) -> None:
    program = str(compiled("roundtrip", tmp_path))

    def files(*more: str) -> set[str]:
        place = tmp_path / "-".join(("at", *more))
        place.mkdir()
        words = [program, str(place), "5", "256", "written", *more]
        done = subprocess.run(words, capture_output=True, check=True, text=True)
        p50_ms, p99_ms = map(float, done.stdout.split())
        assert 0.0 < p50_ms <= p99_ms
        return {each.name for each in place.iterdir()}

    assert files() == {"master", "slave"}
    assert files("relayed") == {"slave"}  # one sync, and nobody else writes
    wrong = subprocess.run([program, str(tmp_path), "5", "256", "written", "other"], check=False)
    assert wrong.returncode == 2


# ---- growth ----


def test_sizes_are_measured_in_alternating_rounds_over_the_same_client(
    found: dict[str, Any],
) -> None:
    del found["Java"]
    figures = Figures("sizes", bench_ledger_growth.COLUMNS)
    given = SimpleNamespace(rounds=2, seconds=0.25)
    bench_ledger_growth.measure_size(found, figures, given, 128, 1000)  # type: ignore[arg-type]
    one_round = [
        ("ours", "inside tasks", 128),
        ("ours", "wire", 128),
        ("Java, batch", "wire", 128),
        ("Java, batch", "inside", 128),
    ]
    assert [call[:3] for call in calls] == 3 * one_round
    assert [call[3] for call in calls if call[1] == "wire"] == [FIRST_S] * 2 + [0.25] * 4
    assert figures.median("Java, batch, 1,000 B", "MB_per_s") == 2.0
    assert figures.median("ours, wire, 1,000 B", "client_us") == 1000.0
    assert {len(runs) for runs in figures.rows.values()} == {2}
