"""`mode = "autoswitch"`: its keys, what is wrong with them, and what its groups promise."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals_kit import HEAD, NODES, lines

from actors.config import AutoSwitchGroup, check, load, loads, settings, stated
from actors.config.autoswitch_kind import AUTOSWITCH
from actors.config.autoswitch_rules import WITH_TWO
from actors.config.model import ClusterConfig

EXAMPLES = Path(__file__).parents[2] / "examples"
GROUP = '[groups.orders]\nmode = "autoswitch"\nmembers = ["n0", "n1", "n2"]\n'
FAR = 'controllers = ["127.0.0.9:9878"]\n'
BASE = HEAD + NODES + GROUP
TWO = BASE.replace(', "n2"]', "]") + FAR


def group_of(config: ClusterConfig) -> AutoSwitchGroup:
    group = config.groups["orders"]
    assert isinstance(group, AutoSwitchGroup)
    return group


def read(text: str) -> AutoSwitchGroup:
    return group_of(loads(text, "f.toml"))


def test_the_example_of_two() -> None:
    config = load(EXAMPLES / "autoswitch.toml")
    group = group_of(config)
    assert (group.members, group.min_in_sync_replicas) == (("n0", "n1"), 1)
    assert config.controllers_of(group) == ("127.0.0.3:30912",)
    assert all(line.count("\n") == 0 for line in check.warnings(config))
    assert "min_in_sync_replicas = 1" in check.render(config, {})


def test_the_example_of_five() -> None:
    config = load(EXAMPLES / "autoswitch5.toml")
    group = group_of(config)
    assert (len(group.members), group.min_in_sync_replicas) == (5, 2)
    hosts = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
    assert config.controllers_of(group) == tuple(f"{host}:30932" for host in hosts)
    others = [load(EXAMPLES / name) for name in ("3node.toml", "dledger5.toml", "autoswitch.toml")]
    taken = {use.port for other in others for use in check.ports(other)}
    assert not taken & {use.port for use in check.ports(config)}
    assert config.data_dir not in {other.data_dir for other in others}


def test_an_own_list_of_controllers_is_taken_before_the_table() -> None:
    config = loads(BASE + FAR + '[controllers]\nnodes = ["n0"]\nport = 9878\n', "f.toml")
    assert config.controllers_of(group_of(config)) == ("127.0.0.9:9878",)


@pytest.mark.parametrize(
    ("members", "learners", "least"),
    [
        (["n0"], [], 1),
        (["n0", "n1"], ["n1"], 1),
        (["n0", "n1", "n2"], [], 2),
        (["n0", "n1", "n2", "n3"], ["n3"], 2),
    ],
)
def test_the_least_number_in_the_set_by_default(
    members: list[str], learners: list[str], least: int
) -> None:
    group = AutoSwitchGroup(name="g", members=tuple(members), learners=tuple(learners))
    assert group.min_in_sync_replicas == group.sure_copies == least


def test_who_leads_is_no_key_and_no_setting() -> None:
    group = read(BASE + FAR)
    led = group.led_by("n1")
    assert (group.master, led.master, led.follows_java) == ("", "n1", False)
    assert group.led_by("java").follows_java
    assert led.role_of("n0") == led.role_of("n1")
    assert stated(led) == stated(group)
    (line,) = lines(BASE + FAR + 'present_master = "n1"\n')
    assert line.startswith("f.toml: key groups.orders.present_master: expected a known key")


def test_a_priority_is_read_and_kept() -> None:
    text = BASE + FAR + "election_priority = { n1 = 3 }\n"
    assert dict(read(text).election_priority) == {"n1": 3}
    kept = settings(loads(text, "f.toml"))
    assert kept["groups.orders.election_priority.n1"] == "3"
    assert hash(read(text)) == hash(read(text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            BASE,
            "groups.orders.controllers: expected addresses of controllers here, or [controllers]"
            " in this file, found neither",
        ),
        (TWO, f"groups.orders.min_in_sync_replicas: expected {WITH_TWO}, found nothing"),
        (
            TWO + "min_in_sync_replicas = 3\n",
            "groups.orders.min_in_sync_replicas: expected at most 2, the number of replicas that"
            " are no learners, found 3",
        ),
        (
            BASE + FAR + 'learners = ["n2"]\nmin_in_sync_replicas = 3\n',
            "groups.orders.min_in_sync_replicas: expected at most 2, the number of replicas that"
            " are no learners, found 3",
        ),
        (
            BASE + FAR + "in_sync_replicas = 2\n",
            "groups.orders.in_sync_replicas: expected nothing unless all_ack_in_sync_state_set ="
            " false, found 2",
        ),
        (
            BASE + FAR + "all_ack_in_sync_state_set = false\nin_sync_replicas = 4\n",
            "groups.orders.in_sync_replicas: expected at most 3, the number of replicas that are"
            " no learners, found 4",
        ),
        (
            BASE.replace('"n2"]', '"n7"]') + FAR,
            'groups.orders.members[2]: expected one of the nodes n0, n1, n2, found "n7"',
        ),
        (
            BASE.replace('"n2"]', '"n1"]') + FAR + "min_in_sync_replicas = 1\n",
            'groups.orders.members[2]: expected each member once, found "n1" again',
        ),
        (
            HEAD + NODES + GROUP.replace('"n0", "n1", "n2"', "") + FAR,
            "groups.orders.members: expected at least one node, found none",
        ),
        (
            TWO + 'learners = ["n2"]\nmin_in_sync_replicas = 1\n',
            'groups.orders.learners[0]: expected one of the members n0, n1, found "n2"',
        ),
        (
            BASE + FAR + 'learners = ["n2", "n2"]\nmin_in_sync_replicas = 1\n',
            'groups.orders.learners[1]: expected each learner once, found "n2" again',
        ),
        (
            BASE + FAR + 'learners = ["n0", "n1", "n2"]\n',
            "groups.orders.learners: expected a member that is no learner: learners are never"
            " elected, found all",
        ),
        (
            BASE + FAR + 'learners = ["n2"]\nmin_in_sync_replicas = 1\n'
            "election_priority = { n2 = 1 }\n",
            'groups.orders.election_priority.n2: expected one of n0, n1, found "n2"',
        ),
        (
            BASE + FAR + "election_priority = { n2 = -1 }\n",
            "groups.orders.election_priority.n2: expected an integer from 0 to 2147483647,"
            " found -1",
        ),
        (
            BASE + FAR + "election_priority = 1\n",
            "groups.orders.election_priority: expected a table, found 1",
        ),
        (
            BASE + 'controllers = ["192.0.2.1:9878"]\n',
            "groups.orders.controllers[0]: expected an address that n0 reaches from 127.0.0.1: one"
            ' of them is a loopback address, found "192.0.2.1:9878"',
        ),
        (
            BASE + 'controllers = ["[::1]:9878"]\n',
            "groups.orders.controllers[0]: expected an address that n0 reaches from 127.0.0.1: one"
            ' is IPv4, the other IPv6, found "[::1]:9878"',
        ),
        (
            BASE.replace('"127.0.0.3"', '"127.0.0.2"') + FAR,
            "nodes.n2: expected another address than n1's: both listen on port 10912, found"
            ' "127.0.0.2"',
        ),
        (
            BASE + FAR + "broker_port = 10914\n",
            "groups.orders.broker_port: expected neither 10912, the group's port, nor 10914, found"
            " 10914",
        ),
        (
            BASE + '[controllers]\nnodes = ["n0"]\nport = 10912\n',
            "port: expected a port of its own on node n0, found 10912",
        ),
        (
            BASE + '[controllers]\nnodes = ["n0"]\nport = 10909\n',
            "broker_port: expected it and the port 2 below not among 10909 of group controllers on"
            " node n0, found 10911",
        ),
    ],
)
def test_what_is_wrong_is_one_line(text: str, problem: str) -> None:
    (line,) = lines(text)
    assert problem in line


@pytest.mark.parametrize(
    ("keys", "returns_when", "holds_after"),
    [
        (
            "min_in_sync_replicas = 1\n",
            "all replicas of the sync state set have it, at least 1, each on its disk; refused"
            " before it is written while fewer are in the set",
            "loss of all replicas of the set but one, which the controllers then elect; what a"
            " master answered alone is lost with its disk; power loss of all of them",
        ),
        (
            'min_in_sync_replicas = 3\ndurability = "written"\n',
            "all replicas of the sync state set have it, at least 3, each in its page cache;"
            " refused before it is written while fewer are in the set",
            "loss of all replicas of the set but one, which the controllers then elect, so of any"
            " 2 replicas; not power loss of all of them, or of one while the others are away",
        ),
        (
            "all_ack_in_sync_state_set = false\nin_sync_replicas = 2\n",
            "2 replicas have it, the master among them, each on its disk",
            "a crash and restart of the master's process; power loss; an election may take it"
            " back, as one of the set may be elected that does not have it",
        ),
        (
            'all_ack_in_sync_state_set = false\ndurability = "written"\n',
            "the master has it in its page cache",
            "a crash and restart of the master's process; not power loss; an election may take it"
            " back, as one of the set may be elected that does not have it",
        ),
    ],
)
def test_promises(keys: str, returns_when: str, holds_after: str) -> None:
    promise = AUTOSWITCH.guarantee(read(BASE + FAR + keys))
    assert (promise.returns_when, promise.holds_after) == (returns_when, holds_after)


def test_what_an_operator_has_to_know() -> None:
    def notes(keys: str) -> str:
        return "; ".join(AUTOSWITCH.guarantee(read(BASE + FAR + keys)).notes)

    assert "n2 is a learner: it counts nowhere" in notes(
        'learners = ["n2"]\nmin_in_sync_replicas = 2\n'
    )
    assert "a master alone goes on" in notes("min_in_sync_replicas = 1\n")
    assert "every replica is needed" in notes("min_in_sync_replicas = 3\n")
    assert notes("") == ""
    some = "all_ack_in_sync_state_set = false\nin_sync_replicas = 3\n"  # autoswitch-ha.md T45
    assert notes(some) == (
        "while fewer than 3 replicas copy, appends are written and time out, their outcome unknown;"
        " with min_in_sync_replicas = 3 they are refused first"
    )
    assert "time out" not in notes(some + "min_in_sync_replicas = 3\n")
