"""Who becomes master: by hand, and against a small world in which acknowledged bytes are known."""

from __future__ import annotations

import attrs
import pytest
from group_states import R0, master, slave
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.ha.core.promotion import Plan, Refusal, Wish, decide, handed_over
from actors.ha.core.reigns import Kind, adopt, begin, compare, cut
from actors.log_types import GroupState, History, Reign

WISH = Wish(
    group="orders",
    members=("n0", "n1", "n2"),
    file_master="n0",
    counting=("n0", "n1", "n2"),
    copies=2,
    synced=True,
)
DEAD = {"n0": "connection refused"}


def of(*states: GroupState) -> dict[str, GroupState]:
    return {each.node: each for each in states}


def planned(found: Plan | Refusal) -> Plan:
    assert isinstance(found, Plan), found
    return found


def refused(found: Plan | Refusal) -> str:
    assert isinstance(found, Refusal), found
    return "; ".join(found.reasons)


def test_the_furthest_slave_of_a_dead_master() -> None:
    found = planned(decide(WISH, of(slave("n1", 90), slave("n2", 100)), DEAD))
    assert found == Plan(number=1, chosen="n2", old="n0", fence=(), hand_over=False)


def test_of_equals_the_first_of_the_file() -> None:
    assert planned(decide(WISH, of(slave("n2", 90), slave("n1", 90)), DEAD)).chosen == "n1"


def test_what_is_synced_counts_before_what_is_written() -> None:
    states = of(slave("n1", 100, synced=50), slave("n2", 90))
    assert planned(decide(WISH, states, DEAD)).chosen == "n2"
    written = attrs.evolve(WISH, synced=False)
    assert planned(decide(written, states, DEAD)).chosen == "n1"
    states = of(slave("n1", 90, synced=80), slave("n2", 100, synced=80))
    assert planned(decide(WISH, states, DEAD)).chosen == "n2"  # so that it need not be cut


def test_one_that_is_not_the_furthest_only_by_force() -> None:
    wish = attrs.evolve(WISH, node="n1")
    states = of(slave("n1", 90), slave("n2", 100))
    found = decide(wish, states, DEAD)
    assert refused(found) == "n2 has 10 bytes that n1 does not have"
    assert isinstance(found, Refusal)
    assert found.by_force
    found = planned(decide(attrs.evolve(wish, force=True), states, DEAD))
    assert (found.chosen, found.losses) == ("n1", ("n2 has 10 bytes that n1 does not have",))


def test_a_silent_slave_is_named() -> None:
    silent = {**DEAD, "n2": "timed out"}
    found = decide(WISH, of(slave("n1", 90)), silent)
    assert refused(found) == (
        "n0 does not answer (connection refused), n2 does not answer (timed out): with copies = 2"
        " they may have what nobody else has"
    )
    forced = planned(decide(attrs.evolve(WISH, force=True), of(slave("n1", 90)), silent))
    assert forced.chosen == "n1"
    # With as many copies as nodes, the one that answers has everything.
    assert planned(decide(attrs.evolve(WISH, copies=3), of(slave("n1", 90)), silent)).losses == ()


def test_with_one_copy_a_dead_master_is_a_loss() -> None:
    wish = attrs.evolve(WISH, copies=1)
    states = of(slave("n1", 90), slave("n2", 100))
    assert "n0 does not answer (connection refused): with copies = 1" in refused(
        decide(wish, states, DEAD)
    )


def test_what_is_known_to_be_acknowledged_and_nobody_has() -> None:
    states = of(slave("n1", 90, acknowledged=100), slave("n2", 80))
    assert refused(decide(WISH, states, DEAD)) == (
        "all below 100 may be acknowledged, and n1 has what is below 90"
    )
    states = of(slave("n1", 90), slave("n2", 80, high_water=95))
    assert "all below 95 may be acknowledged" in refused(decide(WISH, states, DEAD))


def test_a_master_that_answers_hands_over() -> None:
    states = of(master(120), slave("n1", 90), slave("n2", 100, acknowledged=110))
    found = planned(decide(WISH, states, {}))
    assert found == Plan(number=1, chosen="n2", old="n0", fence=("n0",), hand_over=True)
    # The answers are not of one moment: the master may have grown since its own.
    grown = {**states, "n1": slave("n1", 130)}
    assert planned(decide(attrs.evolve(WISH, node="n2"), grown, {})).losses == ()
    # Nothing is unknown, so that others may be silent.
    alone = of(master(120), slave("n1", 90))
    assert planned(decide(WISH, alone, {"n2": "off"})).losses == ()
    # n2 is further than n1 now, but n1 gets all that the master has, and n2 has nothing else.
    named = planned(decide(attrs.evolve(WISH, node="n1"), states, {}))
    assert (named.chosen, named.hand_over) == ("n1", True)


def test_the_master_is_master() -> None:
    states = of(master(120), slave("n1", 90), slave("n2", 100))
    found = decide(attrs.evolve(WISH, node="n0", force=True), states, {})
    assert refused(found) == "n0 is the master of orders"


def test_a_master_alone_opens_by_force_only() -> None:
    alone = of(master(120, state="asking", opened=False))
    silent = {"n1": "off", "n2": "off"}
    assert "n1 does not answer" in refused(decide(attrs.evolve(WISH, node="n0"), alone, silent))
    found = planned(decide(attrs.evolve(WISH, node="n0", force=True), alone, silent))
    assert (found.number, found.chosen, found.fence, found.hand_over) == (1, "n0", (), False)
    nobody = of(master(120))
    assert refused(decide(attrs.evolve(WISH, force=True), nobody, silent)) == (
        "no member of orders but its master n0 answers"
    )


def test_a_fenced_master_may_be_the_furthest_or_not() -> None:
    fenced = master(120, state="fenced", reason="shorter than its mark")
    found = planned(decide(WISH, of(fenced, slave("n1", 90), slave("n2", 100)), {}))
    assert (found.chosen, found.fence, found.hand_over) == ("n0", (), False)
    found = planned(decide(WISH, of(fenced, slave("n1", 150), slave("n2", 100)), {}))
    assert (found.chosen, found.fence, found.hand_over) == ("n1", ("n0",), True)


def test_nodes_that_cannot_be_chosen() -> None:
    states = of(slave("n1", 90))
    silent = {**DEAD, "n2": "off"}
    assert refused(decide(attrs.evolve(WISH, node="n2"), states, silent)) == (
        "n2 does not answer: off"
    )
    assert refused(decide(attrs.evolve(WISH, node="n9"), states, silent)) == (
        "n9 is no member of orders"
    )
    java = attrs.evolve(WISH, members=("n0", "n1"), java=("n2",), node="n2")
    assert "n2 is a Java broker" in refused(decide(java, states, DEAD))
    everybody = dict.fromkeys(WISH.members, "off")
    assert refused(decide(WISH, {}, everybody)) == "no member of orders answers"


def test_java_brokers_cannot_be_asked() -> None:
    wish = attrs.evolve(WISH, members=("n0", "n1"), java=("n2",), counting=("n0", "n1"))
    assert planned(decide(wish, of(slave("n1", 90)), DEAD)).chosen == "n1"
    counts = attrs.evolve(wish, counting=("n0", "n1", "n2"))
    assert "n2 is a Java broker, n0 does not" in refused(decide(counts, of(slave("n1", 90)), DEAD))
    wish = attrs.evolve(WISH, members=("n1", "n2"), java=("n0",))
    found = decide(wish, of(slave("n1", 90), slave("n2", 90)), {})
    assert "n0 is a Java broker and cannot be fenced" in refused(found)


R1 = Reign(1, 12, "n1", 80)


def test_an_old_master_with_a_longer_log_is_not_chosen_and_nothing_of_it_is_lost() -> None:
    line = (R0, R1)
    states = of(
        slave("n0", 500, state="diverged", number=1, master="n1", acknowledged=500),
        slave("n1", 100, role="master", state="open", number=1, master="n1", history=line),
        slave("n2", 90, number=1, master="n1", history=line),
    )
    found = planned(decide(WISH, states, {}))
    assert (found.number, found.chosen, found.old, found.fence) == (2, "n2", "n1", ("n1",))
    old = decide(attrs.evolve(WISH, node="n0"), states, {})
    assert refused(old).startswith("n0 has parted from the group's log: `resync n0` first; ")
    states.pop("n1")
    found = planned(decide(WISH, states, {"n1": "off"}))
    assert (found.chosen, found.losses) == ("n2", ())


def test_a_master_that_has_begun_its_reign_without_a_byte_is_no_laggard() -> None:
    states = of(
        slave("n0", 500, role="master", state="fenced"),
        slave("n1", 80, role="master", state="fenced", number=1, master="n1", history=(R0, R1)),
        slave("n2", 80, number=1, master="n1", history=(R0, R1)),
    )
    found = planned(decide(WISH, states, {}))
    assert (found.number, found.chosen, found.fence) == (2, "n1", ("n0",))


def test_a_slave_below_all_that_a_full_history_keeps_is_no_obstacle() -> None:
    """The oldest reigns have left the master's history, and with it the slave's."""
    kept = (Reign(0, 300, "n0", 5000), Reign(0, 301, "n0", 6000))
    old = master(7000, history=kept)
    new = slave("n2", 0, history=kept)
    found = planned(decide(WISH, of(old, slave("n1", 7000, history=kept), new), {}))
    assert (found.chosen, found.hand_over) == ("n1", True)
    found = planned(decide(WISH, of(slave("n1", 7000, history=kept), new), DEAD))
    assert (found.chosen, found.losses) == ("n1", ())


def test_two_masters_by_the_same_promotion() -> None:
    states = of(
        slave("n0", 90),
        slave("n1", 100, role="master", state="fenced", number=1, master="n1"),
        slave("n2", 90, role="master", state="fenced", number=1, master="n2"),
    )
    found = planned(decide(WISH, states, {}))
    assert (found.number, found.chosen, found.old) == (2, "n1", None)
    assert found.fence == ("n2",)
    parted = {
        "n1": attrs.evolve(states["n1"], history=(R0, R1)),
        "n2": attrs.evolve(states["n2"], history=(R0, Reign(1, 13, "n2", 80))),
    }
    either = decide(WISH, {**states, **parted}, {})
    assert refused(either) == "n2 has 10 bytes that n1 does not have"


def test_a_hand_over_ends_when_nothing_is_unknown() -> None:
    fenced = master(120, state="fenced", synced=110)
    assert handed_over(WISH, fenced, slave("n1", 120))
    assert not handed_over(WISH, fenced, slave("n1", 119))
    assert not handed_over(WISH, fenced, slave("n1", 120, synced=119))
    assert not handed_over(WISH, attrs.evolve(fenced, unanswered=1), slave("n1", 120))
    assert not handed_over(WISH, attrs.evolve(fenced, state="open"), slave("n1", 120))
    other = slave("n1", 120, history=(Reign(0, 99, "n9", 0),))
    assert not handed_over(WISH, fenced, other)


# A small world: every byte is (token, serial), and what was acknowledged is remembered.


@attrs.define
class Node:
    name: str
    history: History = ()
    data: list[tuple[int, int]] = attrs.Factory(list)
    number: int = 0
    master: str = "n0"
    is_open: bool = False

    def seen(self) -> GroupState:
        is_master = self.master == self.name
        return slave(
            self.name,
            len(self.data),
            role="master" if is_master else "slave",
            state=("open" if self.is_open else "asking") if is_master else "following",
            number=self.number,
            master=self.master,
            history=self.history,
        )


@attrs.define
class Small:
    """Masters append and are copied from; the operator promotes without force."""

    copies: int
    nodes: dict[str, Node]
    acknowledged: list[tuple[int, int]] = attrs.Factory(list)
    serial: int = 0
    token: int = 0

    @property
    def wish(self) -> Wish:
        names = tuple(self.nodes)
        return attrs.evolve(WISH, members=names, counting=names, copies=self.copies)

    def open(self, node: Node) -> None:
        self.token += 1
        end = len(node.data)
        reign = Reign(node.number, self.token, node.name, end)
        node.history, node.is_open = begin(node.history, end, reign), True

    def append(self, node: Node, count: int) -> None:
        if node.is_open:
            for _ in range(count):
                self.serial += 1
                node.data.append((node.history[-1].token, self.serial))

    def copy(self, slave: Node, count: int) -> None:
        """A slave asks its master, and reports; the master answers what has its copies."""
        above = self.nodes[slave.master]
        if above is slave or not above.is_open or above.number < slave.number:
            return
        slave.number = above.number
        found = compare(slave.history, len(slave.data), above.history, len(above.data))
        if found.kind is not Kind.FITS:
            return
        slave.history = adopt(above.history)
        slave.data += above.data[len(slave.data) : len(slave.data) + count]
        self.answer(above)

    def answer(self, above: Node) -> None:
        """What `copies` nodes hold is acknowledged, by a master that slaves still follow."""
        for end in range(len(above.data), len(self.acknowledged), -1):
            holds = [
                node
                for node in self.nodes.values()
                if node.data[:end] == above.data[:end]
                and (node is above or (node.master == above.name and node.number == above.number))
            ]
            if len(holds) >= self.copies:
                self.acknowledged = above.data[:end]
                return

    def restart(self, node: Node, heard: list[Node]) -> None:
        """A master asks before it opens; what it hears of a higher promotion it acts on."""
        node.is_open = False
        for other in heard:
            if other.number > node.number:
                node.number, node.master = other.number, other.master
        ahead = any(
            compare(other.history, len(other.data), node.history, len(node.data)).kind is Kind.AHEAD
            for other in heard
        )
        if node.master == node.name and heard and not ahead:
            self.open(node)

    def promote(self, answering: list[Node]) -> None:
        states = {node.name: node.seen() for node in answering}
        silent = {name: "off" for name in self.nodes if name not in states}
        found = decide(self.wish, states, silent)
        if isinstance(found, Refusal):
            return
        chosen = self.nodes[found.chosen]
        for name in found.fence:
            self.nodes[name].is_open = False
        if found.hand_over:
            assert found.old is not None
            chosen.history = adopt(self.nodes[found.old].history)
            chosen.data = list(self.nodes[found.old].data)
        assert chosen.data[: len(self.acknowledged)] == self.acknowledged
        for node in answering:
            node.number, node.master, node.is_open = found.number, found.chosen, False
        self.restart(chosen, [node for node in answering if node is not chosen])

    def resync(self, node: Node) -> None:
        above = self.nodes[node.master]
        found = compare(node.history, len(node.data), above.history, len(above.data))
        if above is node or not above.is_open or found.kind is Kind.FITS:
            return
        node.data = node.data[: found.consistent_bytes]
        node.history = cut(node.history, found.consistent_bytes)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_promotion_without_losses_keeps_every_acknowledged_byte(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 4))
    copies = data.draw(st.integers(1, size))
    names = [f"n{number}" for number in range(size)]
    small = Small(copies, {name: Node(name) for name in names})
    small.open(small.nodes["n0"])
    nodes = list(small.nodes.values())
    some = st.sets(st.sampled_from(names), min_size=1)
    for _ in range(data.draw(st.integers(1, 25))):
        node = data.draw(st.sampled_from(nodes))
        match data.draw(
            st.sampled_from(("append", "copy", "copy", "restart", "promote", "resync"))
        ):
            case "append":
                small.append(node, data.draw(st.integers(1, 3)))
                small.answer(node)
            case "copy":
                small.copy(node, data.draw(st.integers(0, 4)))
            case "restart":
                heard = data.draw(some)
                small.restart(node, [n for n in nodes if n.name in heard and n is not node])
            case "promote":
                up = data.draw(some)
                small.promote([n for n in nodes if n.name in up])
            case "resync":
                small.resync(node)


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_the_world_of_the_test_above_loses_where_nothing_is_refused(copies: int) -> None:
    """So that the test would see it: by force, what only the dead master's copies had is gone."""
    small = Small(copies, {name: Node(name) for name in ("n0", "n1", "n2", "n3")})
    small.open(small.nodes["n0"])
    small.append(small.nodes["n0"], 5)
    for name in ("n1", "n2")[: copies - 1]:
        small.copy(small.nodes[name], 5)
    small.answer(small.nodes["n0"])
    assert len(small.acknowledged) == 5
    left = [small.nodes["n3"]]
    small.promote(left)
    assert small.nodes["n3"].master == "n0"  # refused
    wish = attrs.evolve(small.wish, force=True)
    states = {node.name: node.seen() for node in left}
    found = planned(decide(wish, states, dict.fromkeys(("n0", "n1", "n2"), "off")))
    assert found.chosen == "n3"
    assert small.nodes["n3"].data != small.acknowledged


def test_a_master_that_never_opened_has_not_all_that_a_silent_one_may_have() -> None:
    """n2 is master by promotion 1, but has heard too few to open: n1 may have more."""
    one_copy = attrs.evolve(WISH, copies=1, node="n0")
    asking = {"role": "master", "state": "asking", "number": 1, "master": "n2"}
    states = of(slave("n0", 80, number=1, master="n2"), slave("n2", 80, **asking))
    silent = {"n1": "off"}
    assert "n1 does not answer (off)" in refused(decide(one_copy, states, silent))
    forced = planned(decide(attrs.evolve(one_copy, force=True), states, silent))
    assert (forced.chosen, forced.hand_over, len(forced.losses)) == ("n0", True, 1)
    reign = Reign(1, 12, "n2", 80)
    states["n2"] = attrs.evolve(states["n2"], history=(R0, reign))
    assert planned(decide(one_copy, states, silent)).losses == ()
