"""What a run of kills takes for upstream's V1, and what for a failure. No process runs here."""

from __future__ import annotations

from typing import Any

import attrs
import interop_ledger_kills
import pytest
from interop_ledger_kills import Report, seeing
from interop_processes import PeerFailed

OURS = "n0"


@attrs.define
class Group:
    """Attributes:
    terms, leader: as members say.
    done: what it was asked to do.
    """

    terms: dict[str, int]
    leader: str
    done: list[tuple[str, str]] = attrs.field(factory=list)
    ours: tuple[str, ...] = (OURS,)

    def term_of(self, name: str) -> int:
        return self.terms[name]

    def leader_of(self, name: str) -> str | None:
        return self.leader if self.terms[name] == self.terms[self.leader] else None

    def kill(self, name: str) -> None:
        self.done.append(("kill", name))

    def start(self, name: str) -> None:
        self.done.append(("start", name))


def wanted(failures: int) -> Any:
    """Fails so many times."""
    outcomes = [PeerFailed("did not see n0 as leader")] * failures

    def ask() -> str:
        if outcomes:
            raise outcomes.pop()
        return "seen"

    return ask


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interop_ledger_kills, "DOWN_MAX_S", 0.0)


def test_a_java_leader_that_sees_no_larger_term_is_ended_and_counted() -> None:
    group, report = Group({"n0": 124, "n1": 123, "n2": 123}, "n2"), Report(1.0)
    found: Any = group
    assert seeing(found, report, wanted(1)) == "seen"
    assert group.done == [("kill", "n2"), ("start", "n2")]
    assert report.shut_out == 1
    assert "shut out: 1" in str(report)


@pytest.mark.parametrize(
    ("terms", "leader"),
    [
        ({"n0": 123, "n1": 123, "n2": 123}, "n2"),
        ({"n0": 123, "n1": 124, "n2": 124}, "n0"),
        ({"n0": 122, "n1": 123, "n2": 123}, "n2"),
        ({"n0": 124, "n1": 123, "n2": -1}, "n0"),
    ],
)
def test_whatever_else_is_not_seen_is_a_failure(terms: dict[str, int], leader: str) -> None:
    found: Any = Group(terms, leader)
    report = Report(1.0)
    with pytest.raises(PeerFailed):
        seeing(found, report, wanted(1))
    assert (found.done, report.shut_out) == ([], 0)
    assert "shut out" not in str(report)


def test_it_is_waited_for_once_more_only() -> None:
    found: Any = Group({"n0": 124, "n1": 123, "n2": 123}, "n2")
    with pytest.raises(PeerFailed):
        seeing(found, Report(1.0), wanted(2))
