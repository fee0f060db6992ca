"""Verdicts as a file: what was written is read, and what is none is refused in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import attrs
import pytest

from actors.pipeline import verdicts
from actors.pipeline.errors import PipelineError
from actors.pipeline.locations import Location
from actors.pipeline.verdicts import Checked, CheckedLog, CheckedRange, OpenBoot, Verdict, Verdicts
from actors.readable import counted

RANGE = CheckedRange(node="n0", boot=2, first_seq=3, last_seq=9, events=4)
LOG = CheckedLog(group="orders", node="n0", records=4, size_bytes=400, first=0, last=300)
HELD = Verdict(
    name="one_leader_per_term",
    claim="No term had two leaders.",
    severity="error",
    verdict="held",
    findings=0,
    witnesses=(),
    checked=Checked(rows=4, ranges=(RANGE,)),
    seconds=0.25,
)
BROKEN = attrs.evolve(
    HELD,
    name="other",
    verdict="violated",
    findings=1,
    checked=Checked(rows=4, ranges=(RANGE,), logs=(LOG,)),
    witnesses=({"term": 3, "leaders": ["n0", "n1"], "note": None},),
    note="seen",
)
ALL = Verdicts(
    made_at_us=1_800_000_000_000_000,
    audits=(HELD, BROKEN, attrs.evolve(BROKEN, severity="warning")),
    open_boots=(OpenBoot(node="n0", boot=2),),
)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_was_written_is_read(tmp_path: Path, scheme: str) -> None:
    out = Location(f"{scheme}{tmp_path}/out")
    verdicts.write(out, attrs.evolve(ALL, audits=()))
    assert str(verdicts.write(out, ALL)) == f"{scheme}{tmp_path}/out/audit/verdicts.json"
    assert verdicts.read(out) == ALL
    assert ALL.failures == (BROKEN,)
    assert sorted(each.name for each in (tmp_path / "out/audit").iterdir()) == ["verdicts.json"]


def test_the_file_has_the_agreed_keys(tmp_path: Path) -> None:
    verdicts.write(Location(str(tmp_path)), ALL)
    note = json.loads((tmp_path / "audit/verdicts.json").read_text())
    assert sorted(note) == ["audits", "made_at_us", "open_boots", "version"]
    assert note["version"] == 1
    assert note["open_boots"] == [{"node": "n0", "boot": 2}]
    assert note["audits"][1] == {
        "name": "other",
        "claim": "No term had two leaders.",
        "severity": "error",
        "verdict": "violated",
        "findings": 1,
        "witnesses": [{"term": 3, "leaders": ["n0", "n1"], "note": None}],
        "checked": {
            "rows": 4,
            "ranges": [{"node": "n0", "boot": 2, "first_seq": 3, "last_seq": 9, "events": 4}],
            "logs": [
                {
                    "group": "orders",
                    "node": "n0",
                    "records": 4,
                    "size_bytes": 400,
                    "first": 0,
                    "last": 300,
                }
            ],
        },
        "note": "seen",
        "seconds": 0.25,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no verdicts here; run the step `audit` first"),
        ("{", "not a note of this program"),
        ('{"version": 2}', "of version 2; this program reads 1"),
        ("{}", "of version None"),
        ('{"version": 1}', "not verdicts: Object missing required field"),
        ('{"version": 1, "made_at_us": "now", "audits": []}', r"\$.made_at_us"),
        ('{"version": 1, "made_at_us": 1, "audits": [{"severity": "bad"}]}', "not verdicts: "),
    ],
)
def test_what_is_no_verdicts_is_one_line(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "audit").mkdir()
        (tmp_path / "audit/verdicts.json").write_text(text)
    with pytest.raises(PipelineError, match=words) as caught:
        verdicts.read(Location(str(tmp_path)))
    assert "\n" not in str(caught.value)


def test_no_rows_is_no_approval() -> None:
    assert verdicts.word_for(0, 0) == "not_applicable"
    assert verdicts.word_for(0, 1) == "held"
    assert verdicts.word_for(1, 0) == "violated"


def test_lines_for_people() -> None:
    assert verdicts.line_of(HELD) == "held           one_leader_per_term: 4 rows of 1 boot"
    assert verdicts.line_of(BROKEN) == "violated       other: 4 rows of 1 boot, 1 finding"
    assert verdicts.line_of(ALL.audits[2]).startswith("warning ")
    logs = attrs.evolve(HELD, checked=Checked(rows=4, logs=(LOG,)))
    assert verdicts.line_of(logs) == "held           one_leader_per_term: 4 rows of 1 log"
    bare = attrs.evolve(HELD, checked=Checked(rows=0), verdict="not_applicable")
    assert verdicts.line_of(bare) == "not applicable one_leader_per_term: 0 rows"
    assert verdicts.witness_text(BROKEN.witnesses[0]) == "term=3, leaders=n0 n1, note=None"
    assert verdicts.witness_text({"node": "n\n1", "a": ["\x1b"]}) == "node=n\\u000a1, a=\\u001b"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1234, "1,234 rows")]
)
def test_one_is_no_plural(number: int, text: str) -> None:
    assert counted(number, "row") == text
    assert counted(number, "row", "rows") == text


BARE = attrs.evolve(HELD, name="bare", verdict="not_applicable")
WARNINGS = (attrs.evolve(BARE, severity="warning"), attrs.evolve(BROKEN, severity="warning"))


@pytest.mark.parametrize(
    ("audits", "said"),
    [
        ((HELD, HELD), "all 2 promises held"),
        ((HELD, BROKEN), "1 of 2 promises is broken: other"),
        ((BROKEN, HELD, BROKEN), "2 of 3 promises are broken: other, other"),
        (
            (HELD, BROKEN, BARE),
            "1 of 3 promises is broken: other; 1 could not be judged, as nothing here tells of"
            " them: bare",
        ),
        (
            (HELD, BARE, BARE),
            "1 of 3 promises held; 2 could not be judged, as nothing here tells of them: bare,"
            " bare",
        ),
        (
            (BARE, attrs.evolve(BARE, name="two")),
            "0 of 2 promises held; 2 could not be judged, as nothing here tells of them: bare, two",
        ),
    ],
)
def test_the_last_line_says_what_came_out(audits: tuple[Verdict, ...], said: str) -> None:
    """Warnings are no promises, and are named."""
    assert verdicts.line_of_all(attrs.evolve(ALL, audits=audits)) == said
    both = attrs.evolve(ALL, audits=(*audits, *WARNINGS))
    assert verdicts.line_of_all(both) == f"{said}; of 2 audits that can only warn, 1 does: other"
    calm = attrs.evolve(ALL, audits=(*audits, WARNINGS[0]))
    assert verdicts.line_of_all(calm) == f"{said}; of 1 audit that can only warn, none does"


def test_a_file_is_synced_before_it_has_its_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, synced = tmp_path / "out" / "note", []
    real = os.fsync

    def seen(handle: int) -> None:
        synced.append((Path(os.readlink(f"/proc/self/fd/{handle}")).name, place.exists()))
        real(handle)

    monkeypatch.setattr(os, "fsync", seen)
    Location(str(place)).write_bytes(b"all of it")
    assert synced == [("note.new", False), ("out", True)]
    assert place.read_bytes() == b"all of it"
    assert [each.name for each in place.parent.iterdir()] == ["note"]
