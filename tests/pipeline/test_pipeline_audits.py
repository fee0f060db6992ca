"""How audits are run: what they look at, what they find, and what the command makes of it."""

from __future__ import annotations

from lines_kit import Boot, events_of
from pyspark.sql import DataFrame, SparkSession

from actors.events import dledger, node
from actors.events.codec import KINDS
from actors.pipeline import verdicts
from actors.pipeline.audits import judging
from actors.pipeline.audits.audit import EventAudit, Evidence
from actors.pipeline.audits.leaders import ONE_LEADER, TERMS_RISE
from actors.pipeline.audits.registry import AUDITS
from actors.pipeline.places import Place
from actors.pipeline.verdicts import WITNESSES_MAX, CheckedRange, OpenBoot

MAINTAINER = "ledger/state_maintainer"


def leads(session: int, term: int, by: str) -> dledger.RoleChanged:
    return dledger.RoleChanged(session=session, role="LEADER", term=term, leader=by)


def evidence_of(spark: SparkSession, *boots: Boot) -> Evidence:
    nowhere = Place("/nowhere")
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
    assert (verdict.verdict, verdict.findings, verdict.severity) == ("violated", 2, "error")
    assert [dict(each) for each in verdict.witnesses] == [
        {"group": "ledger", "term": 1, "leaders": ["n0", "n1"]},
        {"group": "ledger", "term": 2, "leaders": ["n0", "n1"]},
    ]
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


def test_witnesses_are_the_first_and_findings_all_of_them(spark: SparkSession) -> None:
    def numbers(events: DataFrame) -> DataFrame:
        return events.sparkSession.range(3 * WITNESSES_MAX).orderBy("id", ascending=False)

    audit = EventAudit(name="x", claim="X.", severity="warning", kinds=(), query=numbers)
    verdict = judging.judge(audit, evidence_of(spark, *quarrel()))
    assert verdict.findings == 3 * WITNESSES_MAX
    assert [each["id"] for each in verdict.witnesses] == list(range(WITNESSES_MAX))
    assert not verdict.is_failure
    assert verdict.checked.rows == 6


def test_the_registry_is_in_order() -> None:
    names = [audit.name for audit in AUDITS]
    assert len(set(names)) == len(names)
    for audit in AUDITS:
        assert audit.claim.endswith("."), audit.name
        assert audit.name == audit.name.lower().replace(" ", "_")
        if isinstance(audit, EventAudit):
            assert set(audit.kinds) <= set(KINDS), audit.name
