"""Groups of three and of five under faults that hypothesis chooses, and shrinks."""

from __future__ import annotations

from typing import ClassVar

from core_member import Member
from core_run import converge
from core_world import Faults, World
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from actors.dledger.core.member_state import Role
from actors.dledger.core.settings import PushSettings
from actors.dledger.core.transfer import TransferAsked

BOUNDED = settings(
    max_examples=150,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
NUMBERS = st.integers(0, 4)


class GroupMachine(RuleBasedStateMachine):
    """The world asserts what must hold at every step; the end demands convergence."""

    size: ClassVar[int]
    world: World

    @initialize(
        seed=st.integers(0, 10_000),
        lost=st.sampled_from((0.0, 0.1)),
        sync_max_s=st.sampled_from((0.002, 0.2)),
        batch=st.booleans(),
    )
    def begin(self, seed: int, lost: float, sync_max_s: float, batch: bool) -> None:
        self.world = World(
            seed=seed,
            size=self.size,
            faults=Faults(lost=lost, sync_max_s=sync_max_s),
            push=PushSettings(batch=batch, batch_bytes_max=300),
        )
        self.world.start_all()
        self.world.run(5.0)

    def member(self, number: int) -> Member:
        return self.world.members[self.world.names[number % self.size]]

    @rule(seconds=st.sampled_from((0.001, 0.01, 0.05, 0.3, 1.0, 3.0, 8.0)))
    def wait(self, seconds: float) -> None:
        self.world.run(self.world.now_s + seconds)

    @rule(number=NUMBERS, count=st.integers(1, 4))
    def append(self, number: int, count: int) -> None:
        """To a member that leads, wherever the search for one begins."""
        for i in range(self.size):
            member = self.member(number + i)
            leads = member.up and member.election.state.role is Role.LEADER
            if leads and not member.holding:
                member.append(f"a{len(self.world.entries)}", count)
                return

    @rule(number=NUMBERS)
    def kill(self, number: int) -> None:
        if self.member(number).up:
            self.member(number).stop()

    @rule()
    def kill_the_leader(self) -> None:
        if self.world.leader is not None:
            self.world.leader.stop()

    @rule(number=NUMBERS)
    def start(self, number: int) -> None:
        if not self.member(number).up:
            self.member(number).start()

    @rule(one=NUMBERS, two=NUMBERS)
    def cut(self, one: int, two: int) -> None:
        self.world.cut.add((self.member(one).name, self.member(two).name))

    @rule(number=NUMBERS)
    def isolate(self, number: int) -> None:
        name = self.member(number).name
        for other in self.world.names:
            self.world.cut |= {(name, other), (other, name)}

    @rule()
    def mend(self) -> None:
        self.world.cut.clear()

    @rule(number=NUMBERS)
    def transfer(self, number: int) -> None:
        leader, peer = self.world.leader, self.member(number).name
        if leader is None or peer == leader.name:
            return
        term = leader.election.state.term
        asked = TransferAsked(token=-1, transferer=leader.name, transferee=peer, term=term)
        mark = leader.quorum.watermarks[peer]
        leader.role_effects(leader.election.transfer_requested(self.world.now_s, asked, mark))

    @rule(number=NUMBERS)
    def expire(self, number: int) -> None:
        member = self.member(number)
        if member.up and member.committed > member.disk.begin:
            member.expire((member.disk.begin + member.committed + 1) // 2)

    def teardown(self) -> None:
        converge(self.world)


class OfThree(GroupMachine):
    size = 3


class OfFive(GroupMachine):
    size = 5


TestGroupOfThree = OfThree.TestCase
TestGroupOfThree.settings = BOUNDED
TestGroupOfFive = OfFive.TestCase
TestGroupOfFive.settings = BOUNDED
