"""How many members confirm a fresh read, as `check` prints it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.config import load, loads
from actors.config.classic_guarantees import confirmed_by
from actors.config.dledger_kind import DLEDGER

EXAMPLES = Path(__file__).parents[2] / "examples"


def words_of(**changes: Any) -> str:
    return confirmed_by(loads(CLASSIC.format(**changes), "x.toml").groups["orders"])


CLASSIC = """
version = 1
name = "demo"
data_dir = "d"
nodes = {{ n0 = "127.0.0.1", n1 = "127.0.0.2", n2 = "127.0.0.3", n3 = "127.0.0.4" }}
[groups.orders]
mode = "classic"
port = 10912
master = {master}
slaves = [{slaves}]
copies = {copies}
durability = "{durability}"
"""


@pytest.mark.parametrize(
    ("slaves", "copies", "words"),
    [
        ("", 1, "is confirmed by nobody else: no other member can be asked"),
        ("n1", 2, "is confirmed by nobody else, as every append is on all members; after"),
        ("n1", 1, "is confirmed by the node that is read and 1 of 1 other"),
        (
            "n1 n2",
            1,
            "is confirmed by the node that is read and 2 of 2 others",
        ),
        ("n1 n2 n3", 3, "is confirmed by the node that is read and 1 of 3 others"),
        (
            "n1 n2 n3",
            4,
            "is confirmed by nobody else, as every append is on all members; after",
        ),
    ],
)
def test_who_confirms_a_fresh_read(slaves: str, copies: int, words: str) -> None:
    """The README's rule: all members of ours but `copies - 1`."""
    given = ", ".join(f'"{slave}"' for slave in slaves.split())
    found = words_of(master='"n0"', slaves=given, copies=copies, durability="synced")
    assert found.startswith(words)


def test_no_java_broker_confirms_one() -> None:
    slaves = '"n1", { node = "n2", kind = "java" }'
    found = words_of(master='"n0"', slaves=slaves, copies=2, durability="written")
    assert found.startswith("is confirmed by the node that is read and 1 of 1 other")
    master = '{ node = "n0", kind = "java" }'
    found = words_of(master=master, slaves='"n1"', copies=1, durability="written")
    assert found == "is refused: n0 is a Java broker and cannot be asked"


def test_a_majority_confirms_one_of_a_dledger_group() -> None:
    found = DLEDGER.fresh_read(load(EXAMPLES / "3node.toml").groups["ledger"])
    assert found.startswith("is confirmed by the leader and a majority, 2 of 3 members")
