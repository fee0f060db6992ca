"""What stands beside ours in the ledger's tables: who is in which, and how the load is kept up."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import bench_ledger
import bench_ledger_rivals
import pytest
from bench_kit import Figures, workplace
from bench_ledger_rivals import LIBRARIES, RIVALS, Location, Rival, RivalGroup, chosen
from bench_load import WARM_UP_S
from interop_processes import Processes
from rival_pysyncobj import SETTINGS, Answered, Window

ADDRESSES = {"n0": "127.0.1.1:7000", "n1": "127.0.1.2:7000", "n2": "127.0.1.3:7000"}
FAKE = """\
import json, sys
leads, reply = sys.argv[1] == "n1", {"k_per_s": float(len(sys.argv)), "refused": 0}
print("{}", flush=True)
for line in sys.stdin:
    do = json.loads(line)["do"]
    answers = {"status": {"leads": leads, "end": 7}, "append": True}
    print(json.dumps(answers.get(do, reply)), flush=True)
"""
"""A member, n1 the leader, or a client."""


# ---- the window ----


@attrs.define
class Library:
    """On a clock of its own: every append takes a quarter of a second, some are refused."""

    refuses_every: int
    clock_s: float = 100.0
    queue: list[tuple[float, Answered]] = attrs.field(factory=list)
    answered: int = 0

    def submit(self, answered: Answered) -> None:
        self.queue.append((self.clock_s + 0.25, answered))

    def answer(self) -> None:
        """The oldest append."""
        self.clock_s, answered = self.queue.pop(0)
        self.answered += 1
        answered(self.answered % self.refuses_every != 0)


def window_of(library: Library, count: int, seconds: float) -> Window:
    window = Window(library.submit, count, seconds, clock=lambda: library.clock_s)
    window.begin()
    return window


def test_a_window_is_kept_full_until_its_time_is_over() -> None:
    library = Library(refuses_every=5)
    window = window_of(library, 4, 2.0)
    until_s = 100.0 + WARM_UP_S + 2.0
    while library.queue:
        assert len(library.queue) == 4 or library.clock_s >= until_s
        library.answer()
    assert library.answered == 40  # ten quarters of a second
    found = window.end(0.0)
    assert found["refused"] == 8
    # The 5th to the 36th came after the warm-up and before the end; 7 of those were refused.
    assert found["k_per_s"] == pytest.approx((32 - 7) / 2.0 / 1e3)
    assert (found["p50_ms"], found["p99_ms"]) == (250.0, 250.0)


def test_a_window_with_an_append_that_has_no_answer_fails() -> None:
    library = Library(refuses_every=100)
    window = window_of(library, 3, 1.0)
    with pytest.raises(TimeoutError, match="3 of 3 appends have no answer"):
        window.end(0.0)
    while len(library.queue) > 1:
        library.answer()
    with pytest.raises(TimeoutError, match="1 of 3"):
        window.end(0.0)


def test_a_window_in_which_all_is_refused_has_no_latencies() -> None:
    library = Library(refuses_every=1)
    window = window_of(library, 2, 0.5)
    while library.queue:
        library.answer()
    assert window.end(0.0) == {"k_per_s": 0.0, "refused": 8}


# ---- who stands in which table ----


def test_each_stands_in_the_tables_of_what_it_syncs() -> None:
    synced, written = (set(chosen(LIBRARIES, how)) for how in ("synced", "written"))
    assert synced | written == set(RIVALS)
    assert synced - written == {"hashicorp, wal"}
    assert written - synced == {"PySyncObj", "PySyncObj, at once", "PySyncObj, tuned"}
    assert list(chosen(["etcd"], "written")) == ["etcd, wire"]
    assert chosen([], "synced") == {}


@pytest.mark.parametrize("durability", ["synced", "written"])
def test_the_command_lines(durability: str) -> None:
    place = Location("n1", Path("/f/n1"), ADDRESSES, 7001, Path("/p"), durability)
    lines = {
        row: [str(word) for word in rival.words(place)]
        for row, rival in chosen(LIBRARIES, durability).items()
    }
    own, everyone = ADDRESSES["n1"], list(ADDRESSES.values())
    if durability == "written":
        for row, how in (("", "batch"), (", at once", "at-once"), (", tuned", "tuned")):
            assert lines[f"PySyncObj{row}"][2:] == [own, "/f/n1/journal", how, *everyone]
            assert how in SETTINGS
    bolt = {"synced": "bolt", "written": "bolt-nosync"}[durability]
    assert lines["hashicorp, bolt"] == ["/p/hashicorp", own, "/f/n1", bolt, *everyone]
    if durability == "synced":
        assert lines["hashicorp, wal"] == ["/p/hashicorp", own, "/f/n1", "wal", *everyone]
    members = [f"{name}={address}:7001" for name, address in ADDRESSES.items()]
    assert lines["etcd, wire"] == ["/p/etcd", "member", "n1", "/f/n1", durability, *members]


def test_the_versions_in_the_notes_are_those_that_are_fetched() -> None:
    root = Path(bench_ledger_rivals.__file__).parents[2]
    fetched = (bench_ledger_rivals.GO_FOLDER / "go.mod").read_text()
    for module, row in (
        ("hashicorp/raft v", "hashicorp, wal"),
        ("raft-wal v", "hashicorp, wal"),
        ("raft-boltdb/v2 v", "hashicorp, bolt"),
        ("etcd/server/v3 v", "etcd, wire"),
        ("etcd/client/v3 v", "etcd, wire"),
    ):
        version = fetched.partition(module)[2].split()[0]
        assert f" {version} " in f"{RIVALS[row].note} ".replace(",", " ").replace(";", " "), module
    assert (
        f"pysyncobj=={RIVALS['PySyncObj'].note.partition(',')[0]}\n"
        in (root / "constraints.txt").read_text()
    )


def test_who_is_missing_is_left_out_with_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_ledger_rivals.shutil, "which", lambda _: None)
    monkeypatch.setattr(bench_ledger_rivals.importlib.util, "find_spec", lambda _: None)
    assert bench_ledger.libraries("pysyncobj,etcd") == []
    assert capsys.readouterr().out == (
        "pysyncobj left out: pysyncobj is not installed (the extra `bench`)\n"
        "etcd left out: go is not on the PATH\n"
    )
    with pytest.raises(argparse.ArgumentTypeError, match="'raft': expected some of pysyncobj,"):
        bench_ledger.libraries("raft")


def test_only_who_is_there_is_measured_and_has_a_note(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_ledger_rivals.shutil, "which", lambda _: "/usr/bin/go")
    found = bench_ledger.libraries("etcd,hashicorp")
    assert found == ["etcd", "hashicorp"]
    bench_ledger.show_notes(found)
    shown = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in shown if not line.startswith("JSON")] == [
        "hashicorp, wal",
        "hashicorp, bolt",
        "etcd, wire",
    ]


# ---- a group ----


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Path, Processes]]:
    with workplace(tmp_path) as found:
        yield found


@pytest.mark.real_io
@pytest.mark.parametrize("outside", [False, True], ids=["in the leader", "from a client"])
def test_the_load_runs_where_it_belongs(outside: bool, place: tuple[Path, Processes]) -> None:
    folder, processes = place
    programs = folder / "programs"
    programs.mkdir()
    program = programs / "etcd"
    program.write_text(f"#!{sys.executable}\n{FAKE}")
    program.chmod(0o755)
    rival = Rival("etcd", bench_ledger_rivals.BOTH, "", lambda at: [program, at.name], outside)
    hosts = ["127.0.0.1"] * 3
    group = RivalGroup.make(processes, folder / "group", hosts, rival, programs, "synced")
    group.start_all()
    assert (group.leader(), group.wait_even()) == ("n1", 7)
    found = group.load(16, 0.1, 256)
    words = 3 if outside else 2  # "client" and an address, or the member's name
    assert found["k_per_s"] == words
    assert found["leader_us"] >= 0.0
    assert ("client_us" in found) == outside
    assert len(processes.started) == 3 + outside
    table = Figures("appends", ("k_per_s",))
    table.add("ours", k_per_s=6.0)
    table.add("other", **found)
    assert table.ratio("ours", "other", "k_per_s") == 6.0 / words
