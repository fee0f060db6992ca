"""What a page says first, and of what it says that nothing is known."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from facts_kit import at, boot, facts, line, span, verdict

from actors.pipeline.report import cells
from actors.pipeline.report.answer import answer, incomplete
from actors.pipeline.report.facts import Facts, Line, MissingLog, OutageCount
from actors.pipeline.report.page import page
from actors.pipeline.report.summary import summary
from actors.pipeline.report.time_axis import US, Stretch, TimeAxis
from actors.pipeline.report.unknown import masked, missing_logs, unknown_times
from actors.pipeline.verdicts import Verdicts

LOST, CUT = "nothing_acknowledged_lost", "nothing_acknowledged_cut"


def judged(*audits: Any) -> Facts:
    return facts(verdicts=Verdicts(made_at_us=0, audits=audits))


def said(found: Facts) -> list[tuple[str, str]]:
    return [(each.text, each.kind) for each in answer(found)]


@pytest.mark.parametrize(
    ("audits", "sentences"),
    [
        ((), [("No audit was made.", "not_applicable")]),
        ((verdict(LOST), verdict(CUT)), [("Nothing acknowledged was lost.", "held")]),
        (
            (verdict(LOST, "not_applicable"), verdict("one_leader_per_term")),
            [("Nothing here tells whether anything was lost.", "not_applicable")],
        ),
        (
            (verdict(LOST), verdict(CUT, "violated")),
            [(f"What was acknowledged is missing: {CUT}.", "violated")],
        ),
        (
            (
                verdict(LOST),
                verdict("one_leader_per_term", "violated"),
                verdict("no_events_dropped", "violated", severity="warning"),
            ),
            [
                ("Nothing acknowledged was lost.", "held"),
                ("1 promise is broken: one_leader_per_term.", "violated"),
                ("1 warning: no_events_dropped.", "warning"),
            ],
        ),
    ],
)
def test_the_first_sentence_is_about_losses(
    audits: tuple[Any, ...], sentences: list[tuple[str, str]]
) -> None:
    assert said(judged(*audits))[: len(sentences)] == sentences


def test_before_the_verdicts_nothing_is_said_to_be_safe() -> None:
    early = attrs.evolve(judged(), is_judged=False)
    assert said(early)[0][0] == "Whether anything acknowledged was lost is being judged."
    assert "Nothing acknowledged was lost" not in page(early)
    assert page(early).count("The verdicts follow.") == 2
    assert "No audit was made" not in page(early)


def test_who_was_behind_is_said_with_when_and_by_how_much() -> None:
    """The kit's n2 lacks up to 9.4 MB for some seconds; n1 of the ledger up to 60,000 entries."""
    texts = [text for text, _ in said(facts())]
    assert "n1 was up to 60,000 entries of ledger behind, 08:00:21 to 08:00:23." in texts
    assert "n2 was up to 9.4 MB of orders behind, 08:00:41 to 08:00:44." in texts
    quiet = facts(lag=(line("orders", "n1", "bytes", 900, 900),))
    assert "No follower was far behind." in [text for text, _ in said(quiet)]


def test_what_stood_still_is_counted() -> None:
    counts = OutageCount(outages=7, pauses=2, worst_us=19_600_000)
    texts = [text for text, _ in said(facts(all_outages={"": counts}))]
    wanted = "Writes stood still 7 times for 1 s or longer, 2 times for less, the longest 19.6 s."
    assert texts[-1] == wanted
    never = [text for text, _ in said(facts(all_outages={}))]
    assert never[-1] == "Writes stood still 0 times for 1 s or longer."


def test_missing_logs_are_in_the_headline_and_for_programs() -> None:
    absent = verdict(
        "every_node_has_a_log", "violated", severity="warning", witnesses=({"node": "n9"},)
    )
    found = attrs.evolve(
        judged(verdict(LOST), absent), missing=(MissingLog(node="n2", before_us=at(32 * 60)),)
    )
    assert incomplete(found) == ["n2 before 08:32", "n9"]
    wanted = "Incomplete, as events are missing: n2 before 08:32, n9."
    assert (wanted, "warning") in said(found)
    assert page(found).index(wanted) < page(found).index("<main>")
    assert summary(found, "r")["summary"]["incomplete"] == ["n2 before 08:32", "n9"]
    assert {"text": wanted, "kind": "warning"} in summary(found, "r")["answer"]


def test_a_log_that_begins_after_others_have_named_its_node_is_missing_before() -> None:
    boots = [boot("n0", 1, 0, 600), boot("n1", 1, 0, 600), boot("n2", 1, 300, 500)]
    named = {"n0": (at(1), at(600)), "n2": (at(5), at(590)), "j0": (at(0), at(600))}
    assert missing_logs(boots, named) == (
        MissingLog(node="n2", before_us=at(300), after_us=at(500)),
    )
    assert missing_logs(boots, {"n2": (at(290), at(520))}) == (), "clocks differ"


LEADS = span("ledger", "n0", "follower", 0, 400, 3)
"""Somebody follows n0; see `at`."""


def test_unknown_is_when_somebody_follows_a_node_without_events() -> None:
    others = [boot("n1", 1, 0, 600), boot("n2", 1, 0, 600)]
    follows = [attrs.evolve(LEADS, node="n1"), attrs.evolve(LEADS, node="n2", until_us=at(390))]
    none_of_it = unknown_times(follows, others)
    assert none_of_it == {"ledger": ((at(0), at(400)),)}
    late = [*others, boot("n0", 2, 360, 600)]
    assert unknown_times(follows, late) == {"ledger": ((at(0), at(360)),)}
    whole = [*others, boot("n0", 1, 0, 395)]
    assert unknown_times(follows, whole) == {}, "killed, and followed for some seconds"
    restarted = [*others, boot("n0", 1, 0, 100), boot("n0", 2, 200, 395)]
    assert unknown_times(follows, restarted) == {}, "between two boots it did not run"
    lost_boot = [*others, boot("n0", 1, 0, 100), boot("n0", 3, 200, 395)]
    assert unknown_times(follows, lost_boot) == {"ledger": ((at(130), at(200)),)}
    known = [*follows, attrs.evolve(LEADS, node="n1", role="leader", from_us=at(100))]
    assert unknown_times(known, others) == {"ledger": ((at(0), at(100)),)}


def test_what_is_unknown_is_no_zero() -> None:
    curve = line("ledger", "", "entries", *[5.0] * 60)
    cut = masked(curve, ((at(10), at(20)),))
    by_second = dict(cut.points)
    assert by_second[at(9)] == 5.0
    assert by_second[at(10)] is None
    assert at(15) not in by_second
    assert by_second[at(20)] == 5.0
    begins = masked(curve, ((at(0), at(20)),))
    assert begins.points[0] == (at(20), 5.0), "it begins with what is known"
    assert masked(curve, ((at(0), at(99)),)).points == ()


def test_unknown_times_are_hatched_and_count_for_no_mean() -> None:
    axis = TimeAxis((Stretch(at(0), at(600)),))
    points = tuple((at(second), 8.0) for second in range(0, 600, 2))
    curve = Line(group="ledger", name="", unit="entries", points=points)
    unknown = {"ledger": ((at(0), at(300)),)}
    found = facts(
        axis=axis, throughput=(masked(curve, unknown["ledger"]),), unknown=unknown, roles=()
    )
    (row,) = cells.rates(found)
    assert row["mean_per_s"] == 8.0
    made = page(found)
    assert "unknown: events are missing" in made
    assert "What ledger did is not known 08:00 to 08:05." in made
    assert "unknown: events are missing" not in page(facts())
    assert summary(found, "r")["summary"]["unknown"] == {"ledger": [[at(0), at(300)]]}


def test_a_moment_of_the_kit_is_eight_in_the_morning() -> None:
    assert at(0) % (86_400 * US) == 8 * 3600 * US
