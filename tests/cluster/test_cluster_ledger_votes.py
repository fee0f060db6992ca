"""Why a DLedger member elects nobody, as people read it."""

from __future__ import annotations

from typing import Any

import pytest
from ledger_samples import follower, member, members
from status_samples import said

from actors.client.leading import NamedLeader
from actors.cluster.terminal import frame, plain_lines


def lone(*states: str) -> dict[str, Any]:
    """A candidate of five that has asked peers, which are so."""
    peers = [
        {"node": f"n{number}", "matched_index": -1, "state": state, "reason": ""}
        for number, state in enumerate(states, 1)
    ]
    names = [f"n{number}" for number in range(5)]
    return follower(role="candidate", leader="", term=0, members=names, peers=peers)


LACKS = "1 of 4 others answers, 2 are needed"


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (("silent",) * 4, "0 of 4 others answer, 2 are needed"),
        (("answers", "silent", "refused", "silent"), LACKS),
        (("answers", "silent", "answers", "silent"), ""),
        ((), ""),
        (("joins", "answers", "silent", "answers"), ""),
        (("joins", "joins", "joins", "joins"), ""),
        (
            ("joins", "answers", "silent", "silent"),
            "2 of 4 others answer, 3 are needed, as 1 of them is new or lacks its log",
        ),
        (
            ("joins", "joins", "silent", "joins"),
            "3 of 4 others answer, 4 are needed, as 3 of them are new or lack their logs",
        ),
    ],
)
def test_a_candidate_says_how_many_answer(states: tuple[str, ...], words: str) -> None:
    own = said(lone(*states))
    assert own.troubles == ((words,) if words else ())
    assert said(lone(*states) | {"role": "leader", "open": True}).troubles == ()


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (("answers", "refused", "answers", "refused"), "2 of 4 others answer, 3 are needed"),
        (
            ("answers", "silent", "answers", "silent"),
            "waits for the first start of n2, n4, if its group is new: 2 of 4 others answer, 3 are"
            " needed",
        ),
        (("answers", "answers", "answers", "silent"), ""),
        (("answers", "joins", "answers", "answers"), ""),
    ],
)
def test_who_is_new_needs_one_more(states: tuple[str, ...], words: str) -> None:
    own = said(lone(*states) | {"joining": "is new"})
    assert own.troubles == tuple(filter(None, [words, "is new"]))
    assert NamedLeader.of(own).lacks == "; ".join(own.troubles)


def test_nobody_leads_without_a_majority() -> None:
    alone = members(member("n0", lone("answers", "silent", "silent", "silent")))
    (line,) = plain_lines(alone, {})
    assert line.startswith(f"0:00:12 ledger: no leader answers: n0: {LACKS}; n0 ")
    assert LACKS in frame(alone, {}, (), width=160, height=40, colour=False)


def test_a_member_that_lacks_its_log_waits_for_no_first_start() -> None:
    facts = lone("joins", "silent", "joins", "silent")
    lost = said({**facts, "joining": "lacks its group's log: its vote counts only with all others"})
    assert lost.troubles[0].startswith("2 of 4 others answer, 4 are needed")
