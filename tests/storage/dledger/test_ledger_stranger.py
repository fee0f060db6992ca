"""A member whose saved vote is for a node that is no member says so, and keeps it."""

from __future__ import annotations

import logging

import attrs
import pytest
from ledger_kit import LAYOUT, env_of, finish, sim_disk
from test_ledger_lost import BOTH, CONFIG, GROUP, start, write_vote

from actors.events.dledger import VoteForStranger
from actors.sim.disk import SimDisk
from actors.storage.ledger.ledger import TermVote
from actors.trees.dledger import _ledger
from actors.trees.ledger_setup import LedgerSetup


def reported(disk: SimDisk, store: str, *before: str) -> tuple[TermVote, list[object]]:
    """The vote that a start finds, and its events."""
    events: list[object] = []
    setup = LedgerSetup(
        config=CONFIG,
        node="n0",
        group=attrs.evolve(GROUP, store=store, members_before=before),
        env=env_of(disk),
        registry=None,  # type: ignore[arg-type]
    )
    ledger = finish(_ledger(setup, events.append))
    vote = ledger.vote
    ledger.close(ordered=True)
    return vote, [each for each in events if isinstance(each, VoteForStranger)]


@BOTH
def test_a_vote_for_no_member_is_reported_and_kept(
    store: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = sim_disk()
    start(disk, store).close(ordered=True)
    disk.unlink(LAYOUT.term)
    write_vote(disk, b"voteLeader=n9\ncurrTerm=3\n")
    with caplog.at_level(logging.WARNING, logger="triolog.storage"):
        for _ in range(2):  # at each start
            assert reported(disk, store) == (
                TermVote(3, "n9"),
                [VoteForStranger(term=3, voted_for="n9")],
            )
    lines = [record.getMessage() for record in caplog.records]
    begin = f"{LAYOUT.term}: term 3, vote for n9: the cluster file names no such member"
    assert [line.startswith(begin) for line in lines] == [True, True]


@BOTH
@pytest.mark.parametrize(
    ("vote", "before"), [("", ()), ("n2", ()), ("n9", ("n0", "n1", "n2", "n9"))]
)
def test_other_votes_are_nothing_to_show(
    store: str, vote: str, before: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    disk = sim_disk()
    start(disk, store).close(ordered=True)
    disk.unlink(LAYOUT.term)
    write_vote(disk, b"voteLeader=%s\ncurrTerm=3\n" % vote.encode())
    assert reported(disk, store, *before) == (TermVote(3, vote), [])
    assert caplog.records == []
