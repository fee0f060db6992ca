"""Promotions in a small world: nothing that was acknowledged may be lost.

Every byte is (token, serial), and what was acknowledged is remembered.
"""

from __future__ import annotations

import attrs
import pytest
from group_states import WISH, slave
from hypothesis import given, settings
from hypothesis import strategies as st
from promotion_kit import planned

from actors.epochs import Epoch, History, Kind, begin, compare, cut, prune
from actors.ha.core.promotion import PromotionRefusal, Wish, decide
from actors.log_types import GroupState


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
        epoch = Epoch(node.number, self.token, node.name, end)
        node.history, node.is_open = begin(node.history, end, epoch), True

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
        slave.history = prune(above.history)
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
        if isinstance(found, PromotionRefusal):
            return
        chosen = self.nodes[found.chosen]
        for name in found.fence:
            self.nodes[name].is_open = False
        if found.hand_over:
            assert found.old is not None
            chosen.history = prune(self.nodes[found.old].history)
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
