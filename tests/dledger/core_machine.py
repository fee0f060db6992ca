"""Groups of three and of five under faults that hypothesis chooses, and shrinks.

    python tests/dledger/core_machine.py [--steps 100000] [--seed 0]

plays so many steps, half of them with each size, and prints the rate; the tests play a few. Steps
are those of the machine: each lets a group run for a while, or does something to it.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import ClassVar

sys.path.append(str(Path(__file__).parents[1]))

from core_member import Member
from core_run import converge
from core_world import Faults, World
from hypothesis import HealthCheck, core, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from actors.dledger.core.member_state import Role
from actors.dledger.core.settings import PushSettings
from actors.dledger.core.transfer import TransferAsked

NUMBERS = st.integers(0, 4)


class GroupMachine(RuleBasedStateMachine):
    """The world asserts what must hold at every step; the end demands convergence."""

    size: ClassVar[int]
    steps_done: ClassVar[int] = 0
    world: World

    @initialize(
        seed=st.integers(0, 10_000),
        lost=st.sampled_from((0.0, 0.1)),
        sync_max_s=st.sampled_from((0.002, 0.2)),
        change_max_s=st.sampled_from((0.0, 0.3)),
        batch=st.booleans(),
        raft=st.integers(0, 5),
    )
    def begin(
        self, seed: int, lost: float, sync_max_s: float, change_max_s: float, batch: bool, raft: int
    ) -> None:
        """`raft`: so many of the members vote as Raft's do."""
        self.world = World(
            seed=seed,
            size=self.size,
            faults=Faults(lost=lost, sync_max_s=sync_max_s, change_max_s=change_max_s),
            push=PushSettings(batch=batch, batch_bytes_max=300),
            raft_votes=frozenset(f"n{i}" for i in range(min(raft, self.size))),
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

    @rule(number=NUMBERS, disk=st.booleans())
    def lose(self, number: int, disk: bool) -> None:
        """A log, or all that a disk holds; a lost disk takes longer to come back than a leader that
        nobody answers takes to end.
        """
        member = self.member(number)
        if self.world.may_lose(member):
            if member.up:
                member.stop()
            member.disk.lose(vote=disk)
            if disk:
                self.world.run(self.world.now_s + self.world.election.leak_s + 1.0)

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
        marks = leader.quorum.watermarks
        leader.role_effects(leader.election.transfer_requested(self.world.now_s, asked, marks))

    @rule(number=NUMBERS)
    def expire(self, number: int) -> None:
        member = self.member(number)
        if member.up and member.committed > member.disk.begin:
            member.expire((member.disk.begin + member.committed + 1) // 2)

    @invariant()
    def count(self) -> None:
        """After every step."""
        GroupMachine.steps_done += 1

    def teardown(self) -> None:
        converge(self.world)


class OfThree(GroupMachine):
    size = 3


class OfFive(GroupMachine):
    size = 5


MACHINES: tuple[type[GroupMachine], ...] = (OfThree, OfFive)
ROUND = settings(
    max_examples=50,
    stateful_step_count=50,
    deadline=None,
    database=None,
    derandomize=False,  # hypothesis's default where CI is set, and deaf to the seed
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def play(steps: int, seed: int) -> int:
    """At least so many steps, in rounds of the machines in turn. Gives how many there were.

    Raises: AssertionError where something that must hold does not; the example is printed.
    """
    GroupMachine.steps_done = number = 0
    before = core.global_force_seed
    try:
        while GroupMachine.steps_done < steps:
            core.global_force_seed = (seed << 32) + number  # what pytest's --hypothesis-seed sets
            run_state_machine_as_test(MACHINES[number % len(MACHINES)], settings=ROUND)
            number += 1
    finally:
        core.global_force_seed = before
    return GroupMachine.steps_done


def main(words: list[str] | None = None) -> int:
    """Play, and print the rate."""
    parser = argparse.ArgumentParser(description="Groups of DLedger's pure classes under faults.")
    parser.add_argument("--steps", type=int, default=100_000, help="at least so many (100000)")
    parser.add_argument("--seed", type=int, default=0, help="draws them (0)")
    args = parser.parse_args(words)
    begin_s = os.times().elapsed
    done = play(args.steps, args.seed)
    seconds = max(os.times().elapsed - begin_s, 0.01)
    print(f"{done} steps in {seconds:.0f} s: {done / seconds:.0f} steps/s, seed {args.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
