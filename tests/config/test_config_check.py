"""What `check` prints, and the promises that it and `guarantees.md` make from one source."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from actors.config import check, kinds, load, loads, members, model

EXAMPLE = Path(__file__).parents[2] / "tests" / "three_nodes.toml"

PAGE = """\
cluster demo
  data in DIR/NODE
  an ordered stop sends slaves what they lack for 10 s at most, then takes at most 30 s
  a node that does not answer for 10 s counts as silent

nodes
  n0  127.0.0.1  master of orders
  n1  127.0.0.2  slave of orders
  n2  127.0.0.3  slave of orders

memory for records, at most
  n0   orders: append_pending_bytes, waiting and in work   128 MiB
  n1   orders: receive_pending_bytes, waiting and in work  32 MiB
  n2   orders: receive_pending_bytes, waiting and in work  32 MiB
  n0   API                                                 1 MiB
  all                                                      193 MiB

listening
  n0  127.0.0.1:10912  slaves of orders
  n0  DIR/n0/api.sock  API
  n1  DIR/n1/api.sock  API
  n2  DIR/n2/api.sock  API

group orders
  kind                    classic, copies = 2, durability = "synced"
  an append returns when  2 distinct nodes have it, the master among them, each on its disk
  and then survives       loss of any one node: the furthest slave has it; power loss of all nodes
  a fresh read            is confirmed by the node that is read and 1 of 2 others, asked since it \
came; after `promote --force` by all
  an append waits         at most 3 s, then its outcome is unknown
  an idle link            has a heartbeat every 5 s and ends after 20 s of silence
  a slave connects        within 5 s, again after 0.2 s, then after twice as long each time, \
up to 5 s
  frames                  at most 1 MiB, no rate limit
  files                   64 MiB each, deleted 72 h after the last write; appends are refused \
above 90% of the disk
  a record                holds at most 4 MiB"""


def test_page_of_the_example() -> None:
    found = attrs.evolve(load(EXAMPLE), data_dir="DIR")
    sockets = {node: f"DIR/{node}/api.sock" for node in found.nodes}
    more = (check.MemoryBound(node="n0", what="API", size_bytes=1 << 20),)
    assert check.render(found, sockets, more) == PAGE


def test_what_may_surprise_is_said() -> None:
    text = EXAMPLE.read_text().replace('"n2"]', '{ node = "n2", kind = "java" }]')
    found = loads(text.replace("[groups", 'n3 = "127.0.0.9"\n[groups', 1), "f")
    assert check.warnings(found) == (
        "group orders: n2 is a Java slave: written only, it does not count towards copies",
        "group orders: every slave is needed: while one is away, appends time out",
        "node n3: in no group, it only serves its API",
    )
    page = check.render(found, {})
    assert page.endswith("\n  ".join(["to know", *check.warnings(found)]))
    assert "n2  127.0.0.3  Java, not run here: slave of orders" in page


def test_machines_that_cannot_ask_each_other() -> None:
    here = load(EXAMPLE)
    apart = attrs.evolve(here, nodes={"n0": "192.0.2.1", "n1": "192.0.2.2", "n2": "192.0.2.3"})
    [line] = check.warnings(apart)
    assert line == (
        "no api_port: nodes on different machines cannot ask each other: there NO MASTER OF orders"
        " WILL TAKE APPENDS, and a slave that cannot ask its master shows no records"
    )
    page = check.render(apart, {})
    assert page.split("to know\n")[1].startswith(f"  {line}")
    assert check.warnings(here) == ()
    [line] = check.warnings(attrs.evolve(apart, api_port=9000))
    assert line.startswith("api_port: reads pass for any program at a member's address")


def test_a_loopback_address_beside_others() -> None:
    here = load(EXAMPLE)
    mixed = attrs.evolve(here, nodes=here.nodes | {"n0": "192.0.2.1"}, api_port=9000)
    assert check.warnings(mixed)[0] == (
        "n1, n2 are reached from one machine only, by loopback addresses, and n0 by others:"
        " members on other machines never find them"
    )


def test_no_slaves_where_no_group_has_any() -> None:
    five = load(EXAMPLE.parents[1] / "examples" / "dledger5.toml")
    apart = {name: f"192.0.2.{number}" for number, name in enumerate(five.nodes, 1)}
    page = check.render(attrs.evolve(five, nodes=apart), {})
    assert "an ordered stop sends followers what they lack for 10 s" in page
    assert "no api_port: nodes on different machines cannot ask each other" in page
    assert "slave" not in page
    both = load(EXAMPLE.parents[1] / "examples" / "3node.toml")
    assert "sends slaves and followers what they lack" in check.render(both, {})


def test_records_that_the_api_does_not_carry() -> None:
    here = load(EXAMPLE)
    (group,) = here.groups.values()
    large = attrs.evolve(here, groups={"orders": attrs.evolve(group, max_message_bytes=5 << 20)})
    assert check.warnings(large) == (
        "group orders: the API takes and shows records of 4 MiB; larger ones are for programs that"
        " embed the node, over the API they are TooLarge",
    )


def test_ports_of_masters_and_api() -> None:
    found = attrs.evolve(load(EXAMPLE), api_port=9000)
    assert [(use.address, use.port) for use in check.ports(found)] == [
        ("127.0.0.1", 10912),
        ("127.0.0.1", 9000),
        ("127.0.0.2", 9000),
        ("127.0.0.3", 9000),
    ]


def group(**keys: object) -> model.ClassicGroup:
    return model.ClassicGroup(name="g", master="n0", **keys)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "returns_when", "holds_after"),
    [
        (
            group(),
            "the master has it on its disk",
            "a crash and restart of the master's process; power loss",
        ),
        (
            group(durability="written"),
            "the master has it in its page cache",
            "a crash and restart of the master's process; not power loss",
        ),
        (
            group(slaves=("n1", "n2"), copies=3, durability="written"),
            "3 distinct nodes have it, the master among them, each in its page cache",
            "loss of any 2 nodes: the furthest slave has it; not power loss of all nodes",
        ),
    ],
)
def test_promises(given: model.ClassicGroup, returns_when: str, holds_after: str) -> None:
    promise = kinds.guarantee_of(given)
    assert (promise.returns_when, promise.holds_after) == (returns_when, holds_after)


def test_notes() -> None:
    [note] = kinds.guarantee_of(group(slaves=("n1",), copies=1)).notes
    assert note.startswith("asynchronous")
    [note] = kinds.guarantee_of(group(compat="upstream")).notes
    assert note.startswith("compat")
    java = (members.SlaveNode("n1", "java"),)
    notes = kinds.guarantee_of(group(slaves=java, durability="written")).notes
    assert notes[0] == "n1 is a Java slave: it counts as soon as it has written"


def test_a_java_master_promises_by_itself() -> None:
    given = model.ClassicGroup(name="g", master=members.MasterNode("n0", "java"), slaves=("n1",))
    promise = kinds.guarantee_of(given)
    assert "brokerRole" in promise.returns_when
    assert "synced bytes only" in promise.holds_after


def test_guarantees_md_promises_the_same() -> None:
    assert kinds.markdown() in (EXAMPLE.parents[1] / "actors/config/guarantees.md").read_text()


def test_its_table_has_every_kind() -> None:
    rows = kinds.markdown().splitlines()
    assert rows[0] == "| Group | An append returns when | Holds after | Judged by |"
    assert len(rows) == 2 + 4 + 4 + 4 + 5
    assert all(row.count("|") == 5 for row in rows)


def test_every_promise_names_who_judges_it() -> None:
    """By name: a promise of the configuration cannot import the simulator."""
    root = EXAMPLE.parents[1]
    judges = "".join(
        (root / path).read_text()
        for path in (
            "actors/sim/classic/judges/checkers.py",
            "actors/sim/classic/judges/survival.py",
            "actors/sim/classic/judges/validations.py",
            "actors/sim/dledger/judges/checkers.py",
            "actors/sim/autoswitch/judges.py",
        )
    )
    for row in kinds.table():
        assert row.judges
        for judge in row.judges:
            known = f"class {judge}:" in judges or f'("{judge}", ' in judges
            assert known or (root / judge).is_file(), judge


@pytest.mark.parametrize(
    ("keys", "returns_when", "holds_after"),
    [
        (
            {"ack_policy": "4.x"},
            "the master and its furthest slave have it, each on its disk; with no slave, or"
            " 268435456 bytes behind, it ends at once with SLAVE_NOT_AVAILABLE: stored, outcome"
            " unknown",
            "loss of any one node: the furthest slave has it; power loss of all nodes",
        ),
        (
            {"ack_policy": "5.x"},
            "the master has it on its disk",
            "a crash and restart of the master's process; power loss",
        ),
        (
            {"ack_policy": "5.x", "in_sync_replicas": 2, "enable_slave_acting_master": True},
            "2 distinct nodes have it, the master among them, each on its disk; refused while"
            " fewer are in sync",
            "loss of any one node: the furthest slave has it; power loss of all nodes",
        ),
        (
            {
                "ack_policy": "5.x",
                "in_sync_replicas": 3,
                "min_in_sync_replicas": 2,
                "enable_slave_acting_master": True,
                "enable_auto_in_sync_replicas": True,
                "durability": "written",
            },
            "as many nodes as are in sync, 3 at most have it, at least 2, each in its page cache;"
            " refused before it is written while fewer are in sync",
            "loss of any one node: the furthest slave has it; not power loss of all nodes",
        ),
        (
            {"ack_policy": "5.x", "min_in_sync_replicas": 3, "all_ack_in_sync_state_set": True},
            "all nodes that are in sync have it, at least 3, each on its disk; refused before it"
            " is written while fewer are in sync",
            "loss of any 2 nodes: the furthest slave has it; power loss of all nodes",
        ),
        (
            {"copies": 2, "compat": "upstream"},
            "2 distinct nodes have it, the master among them, each on its disk (slaves: in the"
            " page cache)",
            "as RocketMQ's: every report is believed, so what one slave alone has, or nobody, may"
            " have been answered; not power loss of the master and its slaves",
        ),
    ],
)
def test_promises_of_upstream_s_policies(
    keys: dict[str, object], returns_when: str, holds_after: str
) -> None:
    promise = kinds.guarantee_of(group(slaves=("n1", "n2"), **keys))
    assert (promise.returns_when, promise.holds_after) == (returns_when, holds_after)
    policy = keys.get("ack_policy")
    assert ('ack_policy = "' in promise.mode) == (policy is not None)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1536, "1.5 KiB"),
        (1 << 30, "1 GiB"),
        (5 << 40, "5 TiB"),
    ],
)
def test_size(count: int, text: str) -> None:
    assert check.size(count) == text
