"""Which entries a run of kills takes for what a killed Java leader left. No process runs here."""

from __future__ import annotations

from pathlib import Path

import pytest
from interop_ledger_clients import Clients
from interop_ledger_files import LedgerFiles
from interop_ledger_torn import Torn, as_in_the_log, terms_led, torn_entries

from actors.sim.judges.linear.log import Append
from actors.sim.judges.linear.operations import Operation

WHOLE = b"c0 293 c0 293 c0 293 "
TORN = WHOLE[:9] + bytes(len(WHOLE) - 9)
JAVAS = {6}


def log_of(*bodies: bytes, term: int = 6) -> LedgerFiles:
    return LedgerFiles(b"".join(bodies), (term,) * len(bodies), bodies, len(bodies))


def test_the_beginning_of_what_was_not_answered_is_found_and_reported() -> None:
    found = torn_entries(log_of(b"c1 1 ", TORN), [WHOLE, b"c2 9 "], JAVAS)
    assert found == [Torn(1, 6, 9, WHOLE)]
    assert "entry 1 of term 6 was torn in a killed Java leader's file: 9 of 21 bytes" in str(*found)


@pytest.mark.parametrize(
    ("body", "in_doubt", "term"),
    [
        (TORN, [WHOLE], 5),  # a leader of ours
        (TORN, [b"c2 9 "], 6),  # acknowledged, or asked by nobody
        (TORN, [WHOLE, TORN[:9] + b"c0 293 c0 29"], 6),  # of either
        (TORN + b"\0", [WHOLE], 6),
        (b"c1" + TORN[2:], [WHOLE], 6),
        (bytes(len(WHOLE)), [WHOLE], 6),
        (WHOLE[:9] + b"!" * 12, [WHOLE], 6),
        (WHOLE, [WHOLE], 6),
    ],
)
def test_nothing_else_is(body: bytes, in_doubt: list[bytes], term: int) -> None:
    assert torn_entries(log_of(body, term=term), in_doubt, JAVAS) == []


def history() -> Clients:
    class Nobody:
        ours = ("n0",)

    clients = Clients(Nobody())  # type: ignore[arg-type]
    unanswered = Operation(client="c0", action=Append(WHOLE), called=1.0, returned=None)
    clients.operations.append(unanswered)
    return clients


def test_it_is_judged_as_what_it_is_in_the_log() -> None:
    clients, log = history(), log_of(TORN)
    assert "no client appended that" in str(*clients.judge(log.bodies))
    assert clients.in_doubt == [WHOLE]
    torn = torn_entries(log, clients.in_doubt, JAVAS)
    assert clients.judge(log.bodies, as_in_the_log(torn, dict(enumerate(log.bodies)))) == []


def test_the_terms_that_a_java_member_led(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert terms_led(out) == set()
    lines = ["role=CANDIDATE term=5 leader=null", "role=LEADER term=6 leader=n2 begin=0"]
    lines += ["role=FOLLOWER term=7 leader=n0", "role=LEADER term=12 leader=n2 begin=0"]
    out.write_text("\n".join(lines))
    assert terms_led(out) == {6, 12}
