"""`rules.toml`: every rule has a test that exists, and every difference its reason."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RULES: list[dict[str, str]] = tomllib.loads((HERE / "rules.toml").read_text())["rule"]
KEYS = {"says", "source", "test"}
DIFFERENT = KEYS | {"differs", "why"}
CLASSES = (
    "DLedgerEntryPusher",
    "DLedgerLeaderElector",
    "DLedgerServer",
)
SECTIONS = ("5.1", "5.2", "5.3", "5.4", "5.4.1", "5.4.2", "8", "figure 2", "figure 3", "figure 8")


def names_in(name: str) -> set[str]:
    """The test functions of a file beside this one."""
    tree = ast.parse((HERE / name).read_text())
    functions = ast.FunctionDef, ast.AsyncFunctionDef
    return {each.name for each in tree.body if isinstance(each, functions)}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["says"][:40])
def test_a_rule_has_a_source_and_a_test(rule: dict[str, str]) -> None:
    assert set(rule) in (KEYS, DIFFERENT)
    assert all(text == text.strip() and text for text in rule.values())
    name, _, test = rule["test"].partition("::")
    assert test.startswith("test_")
    assert test in names_in(name)
    paper = rule["source"].removeprefix("Raft ")
    if paper == rule["source"]:
        assert rule["source"].startswith(CLASSES)
        assert rule["source"].endswith(", 0.3.1.2")
    else:
        assert paper.split(",")[0] in SECTIONS


def test_no_rule_stands_twice() -> None:
    said = [(rule["says"], rule["source"]) for rule in RULES]
    assert len(said) == len(set(said))


def test_each_part_and_each_section_has_rules() -> None:
    sources = {rule["source"] for rule in RULES}
    for method in ("handleVote", "maintainAsCandidate", "sendHeartbeats", "handleHeartBeat"):
        assert any(f"Elector.{method}" in source for source in sources)
    for part in ("EntryDispatcher", "EntryHandler", "QuorumAckChecker"):
        assert any(f"Pusher.{part}" in source for source in sources)
    for section in ("5.1", "5.2", "5.3", "5.4", "8", "figure 2", "figure 3", "figure 8"):
        assert any(source.startswith(f"Raft {section}") for source in sources)


def test_a_name_that_is_no_test_is_noticed() -> None:
    assert "test_no_rule_stands_twice" in names_in("test_dledger_rules.py")
    assert "test_of_nothing" not in names_in("test_dledger_rules.py")
