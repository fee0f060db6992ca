"""How audits are run: what they look at, what they find, and what the command makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import attrs
import pytest
from audit_events_kit import follows, promise
from kept_session import judged_once, no_gold, shared
from lines_kit import Boot, events_of
from logs_kit import Day
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from stores_kit import identity

from actors.events import dledger, node
from actors.events.codec import KINDS
from actors.pipeline import steps, verdicts
from actors.pipeline.__main__ import main
from actors.pipeline.audits import judging, logs, sync_sets
from actors.pipeline.audits.audit import EventAudit, Evidence, Judged
from actors.pipeline.audits.commits import COMMITTED_ON_QUORUM
from actors.pipeline.audits.data_replicas import REPLICAS_EQUAL
from actors.pipeline.audits.judging import AUDITS
from actors.pipeline.audits.leaders import ONE_LEADER, TERMS_RISE
from actors.pipeline.errors import PipelineError
from actors.pipeline.locations import Location
from actors.pipeline.verdicts import WITNESSES_MAX, CheckedRange, OpenBoot, Severity

__all__ = ["judged_once", "no_gold", "shared"]
MAINTAINER = "ledger/state_maintainer"


def leads(session: int, term: int, by: str) -> dledger.RoleChanged:
    return dledger.RoleChanged(session=session, role="LEADER", term=term, leader=by)


def evidence_of(spark: SparkSession, *boots: Boot) -> Evidence:
    nowhere = Location("/nowhere")
    return Evidence(spark=spark, events=events_of(spark, *boots), data=nowhere, out=nowhere)


def quarrel() -> list[Boot]:
    """n0 and n1 lead term 2; n1 falls back to 1 in its second boot, and stops in order."""
    n0, n1, again = Boot("n0"), Boot("n1"), Boot("n1", boot=2)
    n0.say(0, "", node.NodeStarted(cluster="c", version="1", groups=("ledger",)))
    n0.say(1, MAINTAINER, leads(1, 1, "n0"))
    n0.say(2, MAINTAINER, leads(2, 2, "n0"))
    n1.say(3, MAINTAINER, leads(1, 2, "n1"))
    again.say(4, MAINTAINER, leads(1, 1, "n0"))
    again.say(5, "", node.NodeStopped(reason="ordered"))
    return [n0, n1, again]


def test_findings_come_with_witnesses_and_with_what_was_looked_at(spark: SparkSession) -> None:
    evidence = evidence_of(spark, *quarrel())
    verdict = judging.judge(ONE_LEADER, evidence)
    assert (verdict.verdict, verdict.findings, verdict.severity) == ("violated", 1, "error")
    (two,) = verdict.witnesses
    names = ["n0", "n1"]
    assert dict(two) == {"group": "ledger", "term": 2, "leaders": names, "told_by": names}
    assert verdict.checked.rows == 4
    assert verdict.checked.ranges == (
        CheckedRange(node="n0", boot=1, first_seq=2, last_seq=3, events=2),
        CheckedRange(node="n1", boot=1, first_seq=1, last_seq=1, events=1),
        CheckedRange(node="n1", boot=2, first_seq=1, last_seq=1, events=1),
    )
    (fell,) = judging.judge(TERMS_RISE, evidence).witnesses
    assert dict(fell) == {
        "group": "ledger",
        "node": "n1",
        "boot": 2,
        "seq": 1,
        "term": 1,
        "before": 2,
    }
    boots = [OpenBoot(node="n0", boot=1), OpenBoot(node="n1", boot=1)]
    assert list(judging.open_boots(evidence)) == boots


def test_without_rows_nothing_is_held(spark: SparkSession) -> None:
    """And the query, which could find nothing, is not run."""

    def never(_: DataFrame) -> DataFrame:
        raise AssertionError("a query over nothing")

    boot = Boot("n0")
    boot.say(0, "", node.NodeStopped(reason="ordered"))
    audit = EventAudit(
        name="x", claim="X.", severity="error", kinds=("RoleChanged",), query=never, note="why"
    )
    verdict = judging.judge(audit, evidence_of(spark, boot))
    assert (verdict.verdict, verdict.findings, verdict.note) == ("not_applicable", 0, "why")
    assert verdict.checked == verdicts.Checked(rows=0)


@pytest.mark.parametrize(
    "audit", [logs.LOGS_WHOLE, logs.READ_IN_TIME, logs.NOTHING_DROPPED, logs.KINDS_KNOWN]
)
def test_where_the_counts_tell_that_nothing_can_be_found_nothing_is_asked(
    audit: EventAudit, spark: SparkSession
) -> None:
    def never(_: DataFrame) -> DataFrame:
        raise AssertionError("a query that can find nothing")

    verdict = judging.judge(attrs.evolve(audit, query=never), evidence_of(spark, *quarrel()))
    assert (verdict.verdict, verdict.findings, verdict.checked.rows) == ("held", 0, 6)


def test_witnesses_are_the_first_and_findings_all_of_them(spark: SparkSession) -> None:
    def numbers(events: DataFrame) -> DataFrame:
        return events.sparkSession.range(3 * WITNESSES_MAX).orderBy("id", ascending=False)

    audit = EventAudit(name="x", claim="X.", severity="warning", kinds=(), query=numbers)
    verdict = judging.judge(audit, evidence_of(spark, *quarrel()))
    assert verdict.findings == 3 * WITNESSES_MAX
    assert [each["id"] for each in verdict.witnesses] == list(range(WITNESSES_MAX))
    assert not verdict.is_failure
    assert verdict.checked.rows == 6


def test_what_lacks_events_is_not_judged_by_what_is_missing(spark: SparkSession) -> None:
    def everybody(events: DataFrame) -> DataFrame:
        return events.select("node", "boot").distinct()

    n0, n1, again = quarrel()
    del n0.lines[1]
    audit = EventAudit(
        name="x", claim="X.", severity="error", kinds=(), whole=True, query=everybody, note="Why."
    )
    evidence = evidence_of(spark, n0, n1, again)
    verdict = judging.judge(audit, evidence)
    assert verdict.note == "Why. Left out, as events are missing or were changed: n0 boot 1."
    assert [tuple(each.values()) for each in verdict.witnesses] == [("n1", 1), ("n1", 2)]
    assert {each.node for each in verdict.checked.ranges} == {"n1"}

    old = attrs.evolve(audit, needs=("RoleChanged", "GroupConfigured"), whole=False)
    verdict = judging.judge(old, evidence)
    assert (verdict.verdict, verdict.checked.rows) == ("not_applicable", 0)
    assert verdict.note == "Why. There are no events GroupConfigured."
    either = attrs.evolve(
        old, needs=("GroupConfigured or RoleChanged", "GroupOpened or EpochBegun")
    )
    verdict = judging.judge(either, evidence)
    assert verdict.note == "Why. There are no events GroupOpened or EpochBegun."


def test_a_leader_whose_events_are_lost_is_said_not_to_be_judged(spark: SparkSession) -> None:
    """Its disk is gone, and its followers tell of the term; a Java member never logs any."""
    n0, n1 = Boot("n0"), Boot("n1")
    for group, java in (("ledger", ""), ("among", "n2")):
        maintainer, checker = f"{group}/state_maintainer", f"{group}/quorum_ack_checker"
        for boot in (n0, n1):
            boot.say(0, group, promise("dledger", java=java))
            boot.say(1, maintainer, follows(1, "n2"))
        n0.say(2, maintainer, leads(2, 2, "n0"))
        n0.say(3, checker, dledger.CommittedRose(session=2, index=7, holders=("n0", "n1")))
        n1.say(3, maintainer, follows(2, "n0"))
    verdict = judging.judge(COMMITTED_ON_QUORUM, evidence_of(spark, n0, n1))
    assert (verdict.verdict, verdict.checked.rows) == ("held", 2)
    assert verdict.note.endswith(
        "Not judged, as no events of it are here: n2 led ledger in term 1."
    )
    verdict = judging.judge(COMMITTED_ON_QUORUM, evidence_of(spark, *quarrel()))
    assert "Not judged" not in verdict.note


def test_whose_rules_are_looser_stands_in_the_settings_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The event that says it is the first of a boot, and may have expired; and this group is one in
    memory, of which nobody has a log.
    """
    for name in ("n0", "n1"):
        (tmp_path / name / "groups").mkdir(parents=True)
    (tmp_path / "n0" / "identity.json").write_text("{")  # and says nothing
    evidence = attrs.evolve(evidence_of(spark, *quarrel()), data=Location(str(tmp_path)))
    said = []
    for compat in ('"fixed"', '"upstream"'):
        identity(tmp_path, "n1", {}, groups__ledger__compat=compat)
        said.append(judging.judge(ONE_LEADER, attrs.evolve(evidence)))
    assert [verdict.findings for verdict in said] == [1, 0]
    assert said[1].note == "Left out, as upstream's rules promise less: ledger."
    (unread,) = judging.judge(REPLICAS_EQUAL, evidence).witnesses
    assert "n0/identity.json" in str(unread["what"])


def test_a_log_of_two_lives_is_not_judged_by_their_blend(spark: SparkSession) -> None:
    n0, n1, again = quarrel()
    other = Boot("n0")
    other.say(9, "", node.NodeStarted(cluster="c", version="1", groups=()))
    evidence = evidence_of(spark, n0, n1, again, other)
    assert evidence.torn == (("n0", 1),)
    assert {each.node for each in evidence.whole.checked().ranges} == {"n1"}


@attrs.frozen(kw_only=True)
class Blind:
    """An audit that cannot look."""

    error: Exception
    name: str = "blind"
    claim: str = "Nothing is seen."
    severity: Severity = "error"

    def judge(self, _: Evidence) -> Judged:
        raise self.error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PipelineError("n0/identity.json: not a note\nof this program"), "not a note of this"),
        (IsADirectoryError(21, "Is a directory", "feed/x.jsonl"), "Is a directory: 'feed/x.jsonl'"),
    ],
)
def test_an_audit_that_cannot_look_is_a_finding(error: Exception, said: str) -> None:
    """Not the end: the other verdicts would be lost."""
    verdict = judging.judge(Blind(error=error), cast(Evidence, None))
    assert (verdict.verdict, verdict.findings, verdict.checked.rows) == ("violated", 1, 0)
    assert said in str(verdict.witnesses[0]["what"])
    assert "\n" not in str(verdict.witnesses[0]["what"])


def test_no_verdicts_are_left_of_an_earlier_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Location(str(tmp_path))

    def fail(*_: object) -> None:
        raise PySparkException("out of memory")

    monkeypatch.setattr(judging, "run", fail)
    verdicts.write(out, verdicts.Verdicts(made_at_us=1, audits=()))
    with pytest.raises(PySparkException):
        steps.run_audit(cast(SparkSession, None), out, out, lambda _: None)
    with pytest.raises(PipelineError, match="run the step `audit` first"):
        verdicts.read(out)


def test_the_registry_is_in_order() -> None:
    names = [audit.name for audit in AUDITS]
    assert len(set(names)) == len(names)
    for audit in AUDITS:
        assert audit.claim.endswith("."), audit.name
        assert audit.name == audit.name.lower().replace(" ", "_")
        if isinstance(audit, EventAudit):
            needs = [kind for kinds in audit.needs for kind in kinds.split(" or ")]
            assert {*audit.kinds, *needs} <= set(KINDS), audit.name


@pytest.mark.usefixtures("shared", "no_gold", "judged_once")
def test_a_day_is_as_promised(day: Day, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = Location(str(tmp_path / "out"))
    assert main(["audit", str(day.folder), "-o", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = verdicts.read(out)
    assert [each.name for each in found.audits] == [each.name for each in AUDITS]
    over_events = {each.name for each in AUDITS if isinstance(each, EventAudit)}
    elected = {each.name for each in vars(sync_sets).values() if isinstance(each, EventAudit)}
    for verdict in found.audits:
        (line,) = [each for each in lines if f" {verdict.name}: " in each]
        assert line.startswith(f"audit: {verdicts.line_of(verdict)} (")
        assert line.endswith(f", {verdict.seconds:.1f} s)")
        if verdict.name in over_events:
            has_group = verdict.name not in elected  # of an auto-switch group there is none
            assert verdict.verdict == ("held" if has_group else "not_applicable"), verdict
    assert lines[-2] == f"audit: written to {out}/audit/verdicts.json"
    promises = sum(audit.severity == "error" for audit in AUDITS)
    bare = [e.name for e in found.audits if e.verdict == "not_applicable" and e.severity == "error"]
    assert len(bare) == 2 + len(elected)
    of = f"{promises - len(bare)} of {promises} promises held; {len(bare)} could not be judged"
    said = f"audit: {of}, as nothing here tells of them: {', '.join(bare)}; of "
    said += f"{len(AUDITS) - promises} audits that can only warn, none does"
    assert lines[-1] == said, "there are no logs and no feed record beside the events"
    (killed,) = found.open_boots
    assert f"audit: {killed.node}, boot 1: open: it was killed, or is not over" in lines


@pytest.mark.usefixtures("shared", "no_gold")
def test_a_broken_promise_is_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "bad/n1/events/v=1"
    folder.mkdir(parents=True)
    n0, n1, _ = quarrel()
    (folder / "x.jsonl").write_text("\n".join([*n0.lines, *n1.lines, ""]))
    assert main(["audit", str(tmp_path / "bad"), "-o", str(tmp_path / "out")]) == 1
    printed = capsys.readouterr()
    assert printed.err == ""
    witness = "audit:   group=ledger, term=2, leaders=n0 n1, told_by=n0 n1"
    assert witness in printed.out.splitlines()
    (failure,) = verdicts.read(Location(str(tmp_path / "out"))).failures
    assert failure.name == "one_leader_per_term"


@pytest.mark.usefixtures("shared", "no_gold")
def test_logs_without_an_event_are_approved_by_no_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is a file without a byte, or a folder in its place, at which Spark does not even look."""
    folder = tmp_path / "empty/n0/events/v=1"
    folder.mkdir(parents=True)
    (folder / "x.jsonl").write_text("half a line")
    cut = folder / "000001-000000000001.jsonl.gz"
    cut.touch()
    instead = folder / "000001-000000000501.jsonl.gz"
    instead.mkdir()
    assert main(["audit", str(tmp_path / "empty"), "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert f"bronze: {cut}: the file is empty" in said
    is_none = "a folder, or what else is no file, in the place of an event file"
    assert said.count(f"bronze: {instead}: {is_none}") == 1
    assert "bronze: 3 problems in 3 files" in said
    found = {each.name: each for each in verdicts.read(Location(str(tmp_path / "out"))).audits}
    unread = found.pop("every_line_is_an_event")
    assert (unread.verdict, unread.findings) == ("violated", 3)  # half a line, nothing, none
    assert {"file": str(cut), "problem": "the file is empty"} in unread.witnesses
    assert {"file": str(instead), "problem": is_none} in unread.witnesses
    assert {each.verdict for each in found.values()} == {"not_applicable"}
