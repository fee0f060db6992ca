"""The comparison counts what is lost, and its table says what a run has shown."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial

import attrs
import compare
import compare_run
import compare_script
import pytest
from compare import cell, kill_figures, killing, scripted, show, table
from compare_audit import Audit, ReadLog, audit, read_back
from compare_load import STRANGE, Acked, body_of, number_of
from compare_run import Run
from compare_script import SCRIPT, Hit, Stage, outages, read_script, title
from compare_sim import simulate

from actors.sim.actions.script import parse_fault

TINY = "at 0.5 kill leader for 3 extra 0.5\nat 4 cut leader follower for 0.5\n"
NODES = ("n0", "n1", "n2")


def acked(number: int, asked_s: float, ended_s: float, position: int) -> Acked:
    return Acked(number, asked_s, asked_s, ended_s, position)


HEARD = [acked(number, float(number), number + 0.5, 10 * number) for number in range(5)]
LOG: ReadLog = [(10 * number, number) for number in range(5)]


def judged(**doctored: ReadLog) -> Audit:
    return audit(HEARD, [7], {**everywhere(LOG), **doctored})


def everywhere(log: ReadLog) -> dict[str, ReadLog]:
    return dict.fromkeys(NODES, log)


# ---- the audit ----


def test_a_good_log() -> None:
    with_unknown = [*LOG, (50, 7)]
    logs = everywhere(with_unknown)
    for found in (judged(), audit(HEARD, [7], logs)):
        assert found == Audit(acknowledged=5, unknown=1, lost=0, reordered=0, strange=0)
        assert found.good


@pytest.mark.parametrize(
    ("log", "lost", "strange"),
    [
        (LOG[:-1], 1, 0),
        (LOG[:2] + LOG[3:], 1, 0),
        ([], 5, 0),
        ([*LOG[:2], (20, 3), (30, 2), LOG[4]], 2, 0),
        ([*LOG[:4], (40, STRANGE)], 1, 1),
        ([*LOG, (50, 4)], 0, 1),
        ([*LOG, (50, 6)], 0, 1),
        ([*LOG, (50, 7), (60, 7)], 0, 1),
    ],
    ids=["tail", "hole", "empty", "swapped", "damaged", "twice", "never", "unknown twice"],
)
def test_a_doctored_log_of_one_member(log: ReadLog, lost: int, strange: int) -> None:
    found = judged(n2=log)
    assert (found.lost, found.strange) == (lost, strange)
    assert not found.good


def test_an_answer_before_one_that_is_older_is_reordered() -> None:
    late = [*HEARD, acked(8, 9.0, 9.5, 35)]
    log = sorted([*LOG, (35, 8)])
    found = audit(late, [], everywhere(log))
    assert (found.lost, found.reordered, found.good) == (0, 1, False)


def test_appends_under_way_together_stand_in_any_order() -> None:
    together = [acked(0, 0.0, 2.0, 10), acked(1, 1.0, 3.0, 0)]
    found = audit(together, [], everywhere([(0, 1), (10, 0)]))
    assert found.good


def test_a_body_says_its_number() -> None:
    assert number_of(body_of(12)) == 12
    for wrong in (b"", body_of(12)[:-1], body_of(12)[:-1] + b"x", b"x" + body_of(12)[1:]):
        assert number_of(wrong) == STRANGE


# ---- outages and the table ----


def test_an_outage_ends_with_an_append_that_was_asked_for_after_it() -> None:
    hits = [Hit(parse_fault("at 0 kill leader"), at_s) for at_s in (0.5, 2.2, 4.5)]
    assert outages(HEARD, hits) == [pytest.approx(1.0), pytest.approx(1.3), None]


def test_the_script_has_every_kind_and_says_when_the_operator_acts() -> None:
    script = read_script(SCRIPT, "0")
    assert {fault.kind for fault in script} == {"kill", "pause", "cut"}
    assert [fault.at_s for fault in script] != [fault.at_s for fault in read_script(SCRIPT, "1")]
    rows = [title(fault) for fault in script]
    assert rows[0] == "kill leader, promote 2 s later"
    assert rows[-1] == "cut leader - follower"


def test_cells() -> None:
    assert cell([1.0, 2.0, 6.0], "outage ms: x") == "2 / 6"
    assert cell([1000.4, 2000.0, 6000.0], "appends/s") == "2000 / 1000"
    assert cell([1.0, None, None], "outage ms: x") == "inf / inf"
    assert cell([0], "acknowledged lost") == "0"
    assert cell([], "appends/s") == "-"


def test_what_only_one_contender_has_is_a_dash_for_the_other() -> None:
    lines = table("head", {"a": [{"x": 1.0}], "b": [{"y": 2.0}]})
    assert [line.split() for line in lines[:4]] == [
        ["head"],
        ["a", "b"],
        ["x", "1", "-"],
        ["y", "-", "2"],
    ]
    assert all(line.startswith("JSON ") for line in lines[4:])


def run_of(found: Audit) -> Run:
    hits = [Hit(parse_fault("at 1 kill leader"), 1.0), Hit(parse_fault("at 2 kill leader"), 2.0)]
    return Run(calm=[0.1], calm_s=2.0, hits=hits, outages=[0.2, None], again_bytes=5, audit=found)


def test_a_fault_that_comes_twice_has_two_rows() -> None:
    rows = run_of(judged()).figures(timed=True)
    assert rows["appends/s"] == 0.5
    assert rows["outage ms: kill leader"] == 200.0
    assert rows["outage ms: kill leader (2)"] is None


def test_a_table_with_a_lost_record_is_not_good(capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = run_of(judged()), run_of(judged(n1=LOG[1:]))
    assert show("head", {"a": [good]}, kill_figures)
    assert not show("head", {"a": [good], "b": [good, bad]}, kill_figures)
    assert "acknowledged lost" in capsys.readouterr().out


# ---- in simulation ----


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_script, "REST_S", 0.5)


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize("contender", ["classic", "dledger fast"])
def test_a_tiny_run(contender: str) -> None:
    run = simulate(contender, "0", scripted(TINY, "0"))
    rows = run.figures(timed=False)
    kill, cut = "outage ms: kill leader, promote 0.5 s later", "outage ms: cut leader - follower"
    assert list(rows)[:2] == [kill, cut]
    assert run.audit.good
    assert run.audit.acknowledged > 0
    assert None not in run.outages


@pytest.mark.usefixtures("_soon")
def test_a_lost_record_of_a_run_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def doctored(stage: Stage) -> Mapping[str, ReadLog]:
        logs = await read_back(stage)
        return {**logs, "n1": logs["n1"][1:]}

    monkeypatch.setattr(compare_run, "read_back", doctored)
    run = simulate("classic", "0", scripted("at 0.1 pause follower for 0.2\n", "0"))
    assert run.audit.lost == 1
    assert run.figures(timed=False)["acknowledged lost"] == 1


def test_killed_leaders_rejoin() -> None:
    run = simulate("dledger fast", "0", killing(2, "0"))
    assert run.audit.good
    assert len(run.outages) == 2
    *each, counts = kill_figures(run)
    assert [list(figures) for figures in each] == [["outage ms"]] * 2
    assert counts["killed and rejoined"] == 2


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its parts are called with what it was sent, and a bad run is its exit code."""
    asked: list[str] = []

    def fake(found: Audit, name: str, seed: str, faults: object) -> Run:
        asked.append(f"{name} {seed}")
        return run_of(found)

    words = ["compare.py", "--parts", "sim", "--seeds", "2", "--first", "5"]
    monkeypatch.setattr("sys.argv", [*words, "--contenders", "classic,dledger"])
    monkeypatch.setattr(compare, "simulate", partial(fake, judged()))
    assert compare.main() == 0
    assert asked == ["classic 5", "dledger 5", "classic 6", "dledger 6"]
    assert "simulated, 2 seeds" in capsys.readouterr().out
    monkeypatch.setattr(compare, "simulate", partial(fake, judged(n0=[])))
    assert compare.main() == 1


def test_positions_decide_whatever_the_order_of_answers() -> None:
    shuffled = random.Random("0").sample(HEARD, len(HEARD))
    assert audit(shuffled, [7], everywhere(LOG)) == judged()
    moved = [attrs.evolve(HEARD[0], position=45), *HEARD[1:]]
    assert audit(moved, [7], everywhere([*LOG[1:], (45, 0)])).reordered == 4
