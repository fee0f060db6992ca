"""The role rules of several nodes together: what was acknowledged is in every log that opens.

Logs are lists of (token, serial). Messages between members are taken at one moment and delivered
at another, in any order, or lost; nodes crash and come back with what they remembered; a disk is
lost, and the node put back empty, while fewer than `copies` have not got over theirs; an operator
promotes anybody, without force, and may be killed after the first record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from roles_kit import promoted

from actors.epochs import Kind, compare, cut
from actors.ha.core.extent import LogExtent
from actors.ha.core.role_effects import Effects, Role, RoleState
from actors.ha.core.role_rules import RoleRules
from actors.log_types import GroupRecord, GroupState, Promotion
from actors.storage.node.identity import NEW_RECORD

nodes = st.runner().flatmap(lambda group: st.sampled_from(group.names))
some = st.runner().flatmap(lambda group: st.sets(st.sampled_from(group.names), min_size=1))


@attrs.define
class Node:
    """One node: its log and what it remembers survive; its rules do not.

    Attributes:
        follows: the master that its connection may report to; None: no connection, or no verdict.
        asked: whom the rules want to be asked, and the number of the question.
        incarnation: of its tree: connections do not outlive it.
    """

    name: str
    record: GroupRecord = NEW_RECORD
    log: list[tuple[int, int]] = attrs.Factory(list)
    rules: RoleRules | None = None
    incarnation: int = 0
    is_open: bool = False
    follows: tuple[str, int] | None = None
    asked: tuple[str, int] | None = None


class Roles(RuleBasedStateMachine):
    """Three nodes, of which two hold what is acknowledged."""

    names: ClassVar[tuple[str, ...]] = ("n0", "n1", "n2")
    copies: ClassVar[int] = 2

    @initialize()
    def begin(self) -> None:
        self.nodes = {name: Node(name) for name in self.names}
        self.now_s = 0.0
        self.token = 0
        self.serial = 0
        self.acknowledged: list[tuple[int, int]] = []
        self.masters: dict[int, set[str]] = {}
        self.mail: list[tuple[str, str, GroupState, int]] = []
        for name in self.names:
            self.boot(name)
        self.everybody_talks()

    # What the actors do.

    def draw(self) -> int:
        self.token += 1
        return self.token

    def boot(self, name: str) -> None:
        node = self.nodes[name]
        node.rules = RoleRules(
            group="orders",
            node=name,
            file_master="n0",
            members=tuple(each for each in self.names if each != name),
            copies=self.copies,
            synced=True,
            draw_token=self.draw,
            record=node.record,
        )
        self.start_tree(node)

    def start_tree(self, node: Node) -> None:
        """Connections end; a master's slaves lose theirs."""
        assert node.rules is not None
        node.incarnation += 1
        node.is_open = False
        node.follows = node.asked = None
        end = len(node.log)
        self.carry_out(
            node, node.rules.started(node.rules.promotion, LogExtent(0, end, end), self.now_s)
        )

    def carry_out(self, node: Node, effects: Effects) -> None:
        assert node.rules is not None
        if effects.record is not None:
            node.record = effects.record
        assert node.record == node.rules.record  # RememberedBeforeItIsUsed
        if effects.gate is not None:
            node.is_open = effects.gate.open
            if node.is_open:
                self.opened(node)
        if effects.restart:
            self.start_tree(node)
            return
        for member, number in effects.ask:
            node.asked = (member, number)
        if effects.verdict is not None and effects.verdict.fits and node.asked is not None:
            master = node.asked[0]
            node.follows = (master, self.nodes[master].incarnation)

    def opened(self, node: Node) -> None:
        """AcknowledgedSurvives, and one master by one number."""
        assert node.log[: len(self.acknowledged)] == self.acknowledged
        number = node.record.promotion_number
        self.masters.setdefault(number, set()).add(node.name)
        assert len(self.masters[number]) == 1

    def state_of(self, node: Node) -> GroupState:
        assert node.rules is not None
        view = node.rules.view()
        return GroupState(
            cluster="demo",
            node=node.name,
            boot=1,
            group="orders",
            role=view.role.value,
            state=view.state.value,
            reason=view.reason,
            opened=view.opened,
            number=view.number,
            master=view.master,
            history=view.history,
            min=0,
            written=len(node.log),
            synced=len(node.log),
            acknowledged=0,
            high_water=view.high_water,
            unanswered=0,
            forgot=view.forgot,
        )

    # What happens.

    @rule(source=nodes, to=nodes)
    def push(self, source: str, to: str) -> None:
        """A member's link takes a picture of it; it arrives later."""
        if source != to and self.nodes[source].rules is not None:
            self.mail.append((source, to, self.state_of(self.nodes[source]), 0))

    @rule(at=st.integers(0, 100))
    def deliver(self, at: int) -> None:
        if self.mail:
            source, target, state, asked = self.mail.pop(at % len(self.mail))
            self.hear(source, target, state, asked)

    @rule()
    def everybody_talks(self) -> None:
        """Fresh news all round, so that runs get somewhere."""
        self.talk(self.names)

    def talk(self, among: Sequence[str]) -> None:
        for _ in range(2):
            for source in among:
                for target in among:
                    if source != target and self.nodes[source].rules is not None:
                        self.hear(source, target, self.state_of(self.nodes[source]), 0)

    def hear(self, source: str, target: str, state: GroupState, asked: int) -> None:
        node = self.nodes[target]
        if node.rules is not None:
            self.carry_out(node, node.rules.heard(source, state, self.now_s, asked))

    @rule(name=nodes)
    def connect(self, name: str) -> None:
        """A slave connects, and asks afterwards: the answer is younger."""
        node = self.nodes[name]
        if node.rules is None or node.rules.role is not Role.SLAVE or not node.rules.acts:
            return
        master = self.nodes[node.rules.promotion.master]
        if master.rules is None or master.rules.role is not Role.MASTER:
            return
        incarnation = master.incarnation
        node.follows = None
        self.carry_out(node, node.rules.verify(self.serial, len(node.log)))
        if node.asked is not None:
            state = self.state_of(master)
            self.hear(master.name, name, state, node.asked[1])
        if node.follows is not None:
            assert node.follows == (master.name, incarnation)

    @rule(name=nodes, count=st.integers(1, 3))
    def copy(self, name: str, count: int) -> None:
        """Bytes arrive over a connection that still stands, and are reported; appends answered."""
        node = self.nodes[name]
        if node.rules is None or node.follows is None:
            return
        master = self.nodes[node.follows[0]]
        if master.rules is None or master.incarnation != node.follows[1]:
            node.follows = None
            return
        assert node.log == master.log[: len(node.log)]  # SlaveIsPrefix
        node.log += master.log[len(node.log) : len(node.log) + count]
        self.carry_out(node, node.rules.high_water(len(node.log)))
        ends = [len(each.log) for each in self.nodes.values() if self.is_copy(each, master)]
        end = sorted(ends, reverse=True)[self.copies - 1] if len(ends) >= self.copies else 0
        if master.is_open and end > len(self.acknowledged):
            assert master.log[: len(self.acknowledged)] == self.acknowledged
            self.acknowledged = master.log[:end]
            self.carry_out(master, master.rules.high_water(end))

    def is_copy(self, node: Node, master: Node) -> bool:
        """Whether it is the master, or reports to it."""
        return node is master or node.follows == (master.name, master.incarnation)

    @rule(name=nodes, count=st.integers(1, 2))
    def append(self, name: str, count: int) -> None:
        node = self.nodes[name]
        if node.is_open:
            for _ in range(count):
                self.serial += 1
                node.log.append((node.record.history[-1].token, self.serial))

    @rule(name=nodes, slaves=some, count=st.integers(1, 2))
    def produce(self, name: str, slaves: set[str], count: int) -> None:
        """What goes on all day, so that there is something to lose."""
        self.append(name, count)
        for slave in sorted(slaves):
            if self.nodes[slave].follows is None:
                self.connect(slave)
            self.copy(slave, 9)

    @rule(name=nodes)
    def crash(self, name: str) -> None:
        node = self.nodes[name]
        node.rules, node.is_open, node.follows = None, False, None
        node.incarnation += 1

    @rule(name=nodes)
    def put_back_empty(self, name: str) -> None:
        """One of the losses that `copies` bears: so many others have got over theirs."""
        others = [each for each in self.nodes.values() if each.name != name]
        if sum(other.record.forgot != "" for other in others) < self.copies - 1:
            self.crash(name)
            node = self.nodes[name]
            node.log, node.record = [], NEW_RECORD
            self.boot(name)

    @rule(name=nodes)
    def come_back(self, name: str) -> None:
        if self.nodes[name].rules is None:
            self.boot(name)

    @rule(seconds=st.sampled_from([0.5, 3.0]))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        for node in self.nodes.values():
            if node.rules is not None:
                self.carry_out(node, node.rules.tick(self.now_s))

    @rule(name=nodes, first=st.booleans())
    def promote(self, name: str, first: bool) -> None:
        """An operator who saw anything records it at the chosen one, and perhaps at the others."""
        chosen = self.nodes[name]
        if chosen.rules is None:
            return
        known = max(each.record.promotion_number for each in self.nodes.values())
        self.record_at(name, known + 1, name)
        if not first:
            for other in self.names:
                if other != name:
                    self.record_at(other, known + 1, name)

    @rule(name=nodes, beside=some)
    def promote_beside(self, name: str, beside: set[str]) -> None:
        """The rest is cut off: the chosen one hears these only, and waits as long as it would."""
        self.promote(name, first=True)
        for other in sorted(beside - {name}):
            self.record_at(other, self.nodes[name].record.promotion_number, name)
        self.talk((name, *sorted(beside - {name})))
        self.wait(3.0)

    @rule(lost=nodes, beside=some, chosen=nodes)
    def promote_beside_an_empty_one(self, lost: str, beside: set[str], chosen: str) -> None:
        self.put_back_empty(lost)
        self.promote_beside(chosen, beside | {lost})

    @rule(lost=nodes, master=nodes)
    def follow_an_old_master(self, lost: str, master: str) -> None:
        """An empty node hears one master only, perhaps one that was replaced, and copies it."""
        self.put_back_empty(lost)
        self.talk((lost, master))
        self.produce(master, {lost}, 1)

    def record_at(self, at: str, number: int, master: str) -> None:
        node = self.nodes[at]
        if node.rules is not None:
            promotion = Promotion(number, master)
            if at == master:
                effects = promoted(node.rules, promotion, self.now_s)
            else:
                effects = node.rules.recorded(promotion, self.now_s, token=77)
            self.carry_out(node, effects)

    @rule(name=nodes)
    def drop_foreign_tail(self, name: str) -> None:
        """`resync`: a refused slave's log is cut where it parts from its master's."""
        node = self.nodes[name]
        if node.rules is None or node.rules.view().state is not RoleState.DIVERGED:
            return
        master = self.nodes[node.rules.promotion.master]
        if master.rules is None or not master.is_open:
            return
        found = compare(node.record.history, len(node.log), master.record.history, len(master.log))
        if found.kind is not Kind.FITS:
            end = found.consistent_bytes
            node.log = node.log[:end]
            node.record = attrs.evolve(
                node.record,
                history=cut(node.record.history, end),
                high_water_bytes=min(node.record.high_water_bytes, end),
            )
            self.boot(name)

    @invariant()
    def one_open_master_acknowledges(self) -> None:
        for node in getattr(self, "nodes", {}).values():
            assert not node.is_open or node.rules is not None


class FourNodes(Roles):
    names = ("n0", "n1", "n2", "n3")


class ThreeOfFour(FourNodes):
    copies = 3


class TwoOfFive(Roles):
    names = ("n0", "n1", "n2", "n3", "n4")


class ThreeOfFive(TwoOfFive):
    copies = 3


def case(machine: type[Roles], examples: int) -> type:
    machine.TestCase.settings = settings(
        max_examples=examples, stateful_step_count=30, deadline=None
    )
    return machine.TestCase


TestRoles = case(Roles, 400)
TestFourNodes = case(FourNodes, 100)
TestThreeOfFour = case(ThreeOfFour, 100)
TestTwoOfFive = case(TwoOfFive, 100)
TestThreeOfFive = case(ThreeOfFive, 100)
