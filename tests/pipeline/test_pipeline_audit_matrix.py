"""Audits x mutations: each kind of violation, put into a real run's logs, fires its audits alone.

All mutations are judged by one pass: each has a copy of the run in which nodes and groups bear its
number, and a finding's names say whose it is. `python tests/pipeline/test_pipeline_audit_matrix.py`
writes the matrix into README.md beside this file; a test holds the two together.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from audit_mutations import MUTATIONS
from event_lines_kit import Logs, golden_logs, of_kind, tagged, write_logs
from pyspark.sql import SparkSession

from actors.pipeline import steps
from actors.pipeline.audits import audit, judging
from actors.pipeline.audits.judging import AUDITS
from actors.pipeline.locations import Location
from actors.pipeline.verdicts import Verdict, Verdicts

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- matrix -->\n", "<!-- end -->\n"
TAG = re.compile(r"-x(\d+)")
NAMES = tuple(each.name for each in AUDITS if each.name in {f for m in MUTATIONS for f in m.fires})
"""Audits over events, in the registry's order; those over bytes have tests of their own."""

OF_PAIR = {
    *("one_master_per_epoch", "epochs_never_go_back", "one_set_per_number"),
    "acknowledged_on_the_whole_set",
}
"""Audits of auto-switch groups, which only some mutations put into the run."""


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """What all audits say of all mutated runs together, with every finding as a witness."""
    folder = tmp_path_factory.mktemp("matrix")
    for number, mutation in enumerate(MUTATIONS):
        logs: Logs = golden_logs()
        mutation.apply(logs)
        write_logs(tagged(logs, f"x{number}"), folder / "data", mutation.junk)
    data, out = Location(str(folder / "data")), Location(str(folder / "out"))
    steps.run_bronze(spark, data, out, lambda line: None)
    steps.run_silver(spark, out, lambda line: None)
    judged = [each for each in AUDITS if each.name in NAMES]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "WITNESSES_MAX", 1000)
        return judging.run(spark, out, data, audits=judged)


def fired(verdict: Verdict) -> dict[int, int]:
    """Findings by mutation."""
    found: dict[int, int] = {}
    for witness in verdict.witnesses:
        numbers = set(TAG.findall(json.dumps(witness)))
        assert len(numbers) == 1, f"{verdict.name}: a finding of no one run: {witness}"
        number = int(numbers.pop())
        found[number] = found.get(number, 0) + 1
    return found


@pytest.mark.parametrize("name", NAMES)
def test_an_audit_fires_where_its_claim_is_broken_and_nowhere_else(
    verdicts: Verdicts, name: str
) -> None:
    (verdict,) = (each for each in verdicts.audits if each.name == name)
    expected = {number for number, each in enumerate(MUTATIONS) if name in each.fires}
    assert set(fired(verdict)) == expected
    assert verdict.verdict == "violated"
    assert verdict.findings == len(verdict.witnesses)
    runs = len(expected) if name in OF_PAIR else len(MUTATIONS)
    assert verdict.checked.rows > runs


def test_every_audit_over_events_is_seen_to_fire() -> None:
    over_events = {each.name for each in AUDITS if isinstance(each, audit.EventAudit)}
    assert over_events <= set(NAMES)


def test_the_golden_run_is_worth_it() -> None:
    """Both groups changed hands, two nodes were killed, and all ended in order."""
    logs = golden_logs()
    assert sorted(logs) == ["n0", "n1", "n2"]
    assert [max(line["boot"] for line in lines) for lines in logs.values()] == [2, 2, 1]
    stopped = {(line["node"], line["boot"]) for line in of_kind(logs, "NodeStopped")}
    assert stopped == {("n0", 2), ("n1", 2), ("n2", 1)}
    assert len({line["term"] for line in of_kind(logs, "RoleChanged", role="LEADER")}) > 1
    assert len({line["number"] for line in of_kind(logs, "GroupOpened")}) > 1


def matrix() -> str:
    """As Markdown: a row for each mutation, a column for each audit."""
    heads = [f"| {' | '.join(['', *map(str, range(1, len(NAMES) + 1))])} |"]
    heads.append(f"|{'---|' * (len(NAMES) + 1)}")
    rows = [
        f"| {each.what} | {' | '.join('x' if n in each.fires else '' for n in NAMES)} |"
        for each in MUTATIONS
    ]
    claims = {each.name: f"{each.claim} ({each.severity})" for each in AUDITS}
    legend = [f"{number}. `{name}`: {claims[name]}" for number, name in enumerate(NAMES, 1)]
    return "\n".join([*heads, *rows, "", *legend, ""])


def test_the_readme_has_the_matrix() -> None:
    text = README.read_text()
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == f"\n{matrix()}\n"


def test_the_readme_says_where_the_other_audits_are_seen_to_fire() -> None:
    text = " ".join(README.read_text().split())
    for each in AUDITS:
        if each.name not in NAMES:
            (place,) = re.findall(rf"`{each.name}` in `(test_\w+\.py)`", text)
            assert README.with_name(place).exists()


def write_readme() -> None:
    text = README.read_text()
    before, after = text[: text.index(BEGIN)], text[text.index(END) :]
    README.write_text(f"{before}{BEGIN}\n{matrix()}\n{after}")


if __name__ == "__main__":
    write_readme()
