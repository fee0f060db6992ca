"""A member that finds no leader says what the election lacks, and when it is over."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing
from group_kit import opened

from actors.dledger.core.election_effects import RoleChanged
from actors.dledger.core.member_state import Role
from actors.dledger.election.peer_signs import LEADERLESS_S, Leaderless
from actors.dledger.rpc.peer_messages import PeerSign
from actors.dledger.rpc.rpc_messages import Sender

NOBODY = "g: n0 has found no leader for"
SILENT = PeerSign(peer="n1", silent=True, heard_s=None, refusal="")
WELL = PeerSign(peer="n2", silent=False, heard_s=1.0, refusal="")
JOINS = PeerSign(peer="n2", silent=False, heard_s=1.0, refusal="", joins=True)
REFUSES = PeerSign(peer="n3", silent=False, heard_s=1.0, refusal="answers UNKNOWN_GROUP")


def role(name: Role, leader: str = "") -> RoleChanged:
    return RoleChanged(session=1, role=name, term=1, leader=leader)


def candidate() -> Leaderless:
    found = Leaderless(Sender(group="g", self_id="n0"))
    found.took(5.0, role(Role.CANDIDATE))
    return found


def test_a_store_that_takes_nothing_is_said_first(caplog: pytest.LogCaptureFixture) -> None:
    """All disks are full: the others answer, and elect nobody for long."""
    candidate().look(5.0 + LEADERLESS_S, [WELL, SILENT], joins=False, full="no room: a.data")
    (reported,) = caplog.messages
    assert reported.endswith("10 s: it takes no entries (no room: a.data); n1 does not answer")


@pytest.mark.parametrize(
    ("signs", "joins", "words"),
    [
        ([WELL, SILENT], False, "n1 does not answer"),
        ([SILENT, JOINS], False, "n1 does not answer; n2 is new or lacks its log, which takes"),
        ([JOINS], True, "n0, n2 are new or lack their logs, which takes the votes of all"),
        ([REFUSES, WELL], False, "n3 refuses it"),
        ([WELL], False, "the others answer, and elect nobody"),
    ],
)
def test_what_an_election_lacks_is_said(
    signs: list[PeerSign], joins: bool, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = candidate()
    found.look(5.0 + LEADERLESS_S - 0.1, signs, joins=joins)
    assert caplog.messages == []
    found.look(5.0 + LEADERLESS_S, signs, joins=joins)
    (line,) = caplog.messages
    assert line.startswith(f"{NOBODY} 10 s: {words}")
    assert caplog.records[0].levelno == logging.WARNING


def test_it_is_said_once_and_again_when_it_has_changed(caplog: pytest.LogCaptureFixture) -> None:
    found = candidate()
    for now_s in range(6, 60):
        found.took(now_s, role(Role.CANDIDATE))  # in a further term
        found.look(now_s, [SILENT if now_s < 17 else WELL], joins=False)
    assert caplog.messages == [
        f"{NOBODY} 10 s: n1 does not answer",
        f"{NOBODY} 20 s: the others answer, and elect nobody",
    ]


@pytest.mark.parametrize(
    ("now", "words"),
    [(role(Role.LEADER, "n0"), "leads"), (role(Role.FOLLOWER, "n2"), "follows n2")],
)
def test_its_end_is_said_if_it_was(
    now: RoleChanged, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = candidate()
    found.took(6.0, now)
    found.look(70.0, [SILENT], joins=False)  # it has a leader
    found.took(80.0, role(Role.CANDIDATE))
    found.look(91.0, [SILENT], joins=False)
    found.took(92.0, now)
    found.took(93.0, now)
    assert caplog.messages == [
        f"{NOBODY} 11 s: n1 does not answer",
        f"g: n0 {words}, after 12 s without a leader",
    ]


async def test_a_member_without_a_majority_says_so(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(started=False) as group:
        await group.start("n0")
        await trio.sleep(60)
        (line,) = (each for each in caplog.messages if "n0 has found no leader for 1" in each)
        assert line.endswith("n1, n2 do not answer")
        await group.start("n1")
        leader = await group.leader()
        await trio.sleep(1)
        whom = "leads" if leader == "n0" else f"follows {leader}"
        (line,) = (each for each in caplog.messages if "without a leader" in each)
        assert line.startswith(f"ledger: n0 {whom}, after ")
        assert not [each for each in caplog.messages if "n1 has found" in each]
