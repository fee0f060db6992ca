"""Upstream's traps run as their scripts say, under both settings, and none is left out."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest
from script_format import differs, parse, render, side_by_side

from actors.config import kinds

_spec = importlib.util.spec_from_file_location("traps", Path(__file__).parents[1] / "traps.py")
assert _spec is not None
assert _spec.loader is not None
traps = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(traps)

sys.path.append(str(Path(__file__).parents[1] / "sim"))
BROKEN = {
    mutation.__name__: mutation
    for mutation in (
        *importlib.import_module("broken_actors").LEDGER_MUTATIONS,
        *importlib.import_module("broken_code").MUTATIONS,
    )
}

SCRIPTS = sorted(traps.FOLDER.glob("*.txt"))
GUARANTEES = sorted(traps.GUARANTEES.glob("*.txt"))
DLEDGER = sorted(traps.DLEDGER.glob("*.txt"))
AUTOSWITCH = sorted(traps.AUTOSWITCH.glob("*.txt"))
ANSWERED_TOO_SOON = ("answer_before_a_quorum", "minority_commits")
COPIED_TO_DISKS = ("copies_n_synced", "policy_4x", "policy_5x_in_sync")
COPIED = (*COPIED_TO_DISKS, "copies_n_written", "policy_5x")
COUNTED_TOO_SOON = ("acknowledge_what_is_written", "leader_counts_what_it_has_written")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_prints_what_it_says(path: Path) -> None:
    """If the new output is right: `python tests/traps.py --write`, and look at the difference."""
    assert render(traps.play(path)) == path.read_text()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_s_head_fits_its_outputs(path: Path) -> None:
    """Outcomes that differ are reported for each setting; equal ones with the reason."""
    script = parse(path.read_text())
    assert script.head[0].startswith(f"{traps.trap_of(path)}: ")
    reported = {who for who in ("upstream", "ours", "both") if script.says(who)}
    assert reported == ({"upstream", "ours"} if differs(script) else {"both"})


@pytest.mark.parametrize("path", GUARANTEES, ids=lambda path: path.stem)
def test_a_crash_leaves_what_the_guarantee_says(path: Path) -> None:
    """If the new output is right: `python tests/traps.py --write`, and look at the difference."""
    assert render(traps.play(path)) == path.read_text()


@pytest.mark.parametrize("path", DLEDGER, ids=lambda path: path.stem)
def test_a_decision_of_dledger_is_as_it_was(path: Path) -> None:
    """If the new output is right: `python tests/traps.py --write`, and look at the difference."""
    assert render(traps.play(path)) == path.read_text()


def autoswitch_trap(path: Path) -> str:
    """The id that a file's name begins with, without its zero."""
    return "T" + path.name.partition("_")[0].lstrip("T0")


@pytest.mark.parametrize("path", AUTOSWITCH, ids=lambda path: path.stem)
def test_a_trap_of_auto_switch_is_as_it_was(path: Path) -> None:
    """If the new output is right: `python tests/traps.py --write`, and look at the difference."""
    script = traps.play(path)
    assert render(script) == path.read_text()
    assert script.head[0].startswith(f"autoswitch-ha.md {autoswitch_trap(path)}: ")
    reported = {who for who in ("upstream", "ours", "both") if script.says(who)}
    assert reported == ({"upstream", "ours"} if differs(script) else {"both"})


def test_every_trap_of_auto_switch_has_a_script_or_a_reason() -> None:
    spec = (Path(__file__).parents[2] / "wire/spec/autoswitch-ha.md").read_text()
    known = re.findall(r"(?m)^\| (T[0-9]+b?) \|", spec)
    scripts = list(map(autoswitch_trap, AUTOSWITCH))
    without = traps.autoswitch_stage.WITHOUT
    assert not without.keys() & set(scripts)
    assert sorted([*scripts, *without]) == sorted(known)


def test_every_guarantee_has_its_crash() -> None:
    """But for upstream's looser rules, which have the traps, and for auto-switch groups, whose
    crashes seeds draw.
    """
    shown = [parse(path.read_text()).says("row") for path in GUARANTEES]
    promised = [row.mode for row in kinds.table()]
    assert sorted(shown) == sorted(
        row for row in promised if "compat" not in row and not row.startswith("autoswitch")
    )


@pytest.mark.parametrize(
    ("name", "looser"),
    [
        *(("ledger_synced", looser) for looser in (*ANSWERED_TOO_SOON, *COUNTED_TOO_SOON)),
        *(("ledger_written", looser) for looser in ANSWERED_TOO_SOON),
        *(("ledger_memory", looser) for looser in ANSWERED_TOO_SOON),
        ("copies_1_synced", "acknowledge_before_own_sync"),
        ("copies_1_written", "acknowledge_before_write"),
        *((name, "acknowledge_before_the_slaves") for name in COPIED),
        *((name, "report_before_sync") for name in COPIED_TO_DISKS),
    ],
)
def test_a_crash_would_show_a_looser_step(
    name: str, looser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In what is printed, or because a member finds something impossible and ends."""
    path = traps.GUARANTEES / f"{name}.txt"
    BROKEN[looser](monkeypatch)
    try:
        printed = render(traps.play(path))
    except ExceptionGroup:
        return
    assert printed != path.read_text()


def test_every_trap_has_a_script_or_a_reason() -> None:
    scripts = traps.paths()
    assert len(scripts) == len(SCRIPTS)
    assert scripts.keys() <= traps.TRAPS.keys()
    assert not scripts.keys() & traps.WITHOUT.keys()
    assert scripts.keys() | traps.WITHOUT.keys() == traps.TRAPS.keys()
    counts = ("T", 33), ("B", 14), ("V", 15)
    assert list(traps.TRAPS) == [f"{kind}{n + 1}" for kind, count in counts for n in range(count)]


def test_the_table_has_a_row_for_every_trap(capsys: pytest.CaptureFixture[str]) -> None:
    assert traps.main([]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 2 + len(traps.TRAPS)
    assert all(row.count("|") == 5 for row in rows)
    assert "| `T03_slave_ahead.txt` | believed" in rows[4]


def test_one_trap_is_played_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert traps.main(["T11"]) == 0
    assert capsys.readouterr().out.startswith("# T11: ")


TEXT = """\
# T0: a head
# both: nothing happens

# why
first a=1
----
printed

second
----
"""


def test_a_script_is_read_and_written_back() -> None:
    script = parse(TEXT)
    assert script.says("both") == "nothing happens"
    assert script.says("ours") == ""
    assert [(step.lead, step.line, step.output) for step in script.steps] == [
        (("# why",), "first a=1", ("printed",)),
        ((), "second", ()),
    ]
    assert render(script) == TEXT
    assert not differs(script)
    with pytest.raises(ValueError, match="line 5: ---- is missing below 'first a=1'"):
        parse(TEXT.replace("a=1\n----", "a=1"))


def test_outputs_are_marked_where_they_differ() -> None:
    assert side_by_side(["a"], ["a"]) == ("a",)
    assert side_by_side(["a"], []) == ("upstream | a", "ours     | (nothing)")
