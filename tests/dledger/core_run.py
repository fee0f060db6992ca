"""One run of `core_world` drawn from a seed: faults for a while, then it must converge."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

sys.path.append(str(Path(__file__).parents[1]))

import attrs
from core_dialect import SHARE
from core_member import Member
from core_world import Faults, World

from actors.dledger.core.member_state import Role
from actors.dledger.core.settings import ElectionSettings, PushSettings
from actors.dledger.core.transfer import TransferAsked

FAULTS_S = 60.0
HEAL_S = 40.0
"""Within so long after the last fault a leader is there and commits."""
LAST_S = 10.0
"""Within so long after that all members have the same log and know it to be committed."""


def draw_world(seed: int) -> World:
    """Size, network and settings."""
    rng = Random(f"{seed}:world")
    size = rng.choice((2, 3, 3, 3, 4, 5))
    faults = Faults(
        lost=rng.choice((0.0, 0.02, 0.1)),
        twice=rng.choice((0.0, 0.05)),
        delay_max_s=rng.choice((0.01, 0.05, 0.3)),
        sync_max_s=rng.choice((0.002, 0.02, 0.2)),
    )
    push = PushSettings(
        pending_max=rng.choice((4, 1000)),
        batch=rng.random() < 0.5,
        batch_bytes_max=500,
        resends_max=rng.choice((1, 3)),
    )
    names = [f"n{i}" for i in range(size)]
    preferred = (rng.choice(names),) if rng.random() < 0.3 else ()
    election = ElectionSettings(preferred_leaders=preferred)
    faults = attrs.evolve(faults, change_max_s=rng.choice((0.0, 0.05, 0.5)))
    votes = Random(f"{seed}:votes")  # all members as Raft's, some of them, or none
    raft = votes.sample(names, votes.choice((0, size, size, votes.randint(1, size - 1))))
    dialects = Random(f"{seed}:dialects")
    foreign: list[str] = []
    if size > 2 and dialects.random() < SHARE:
        foreign = dialects.sample(names, dialects.randint(1, (size - 1) // 2))
    return World(
        seed=seed,
        size=size,
        faults=faults,
        push=push,
        election=election,
        raft_votes=frozenset(raft),
        foreign=frozenset(foreign),
    )


@attrs.define
class Run:
    """The client and the faults of a run."""

    world: World
    rng: Random
    appends: int = 0
    tokens: int = 10**9

    def a_leader(self) -> Member | None:
        leading = [
            m for m in self.world.members.values() if m.up and m.election.state.role is Role.LEADER
        ]
        return self.rng.choice(leading) if leading else None

    def client(self) -> None:
        """One append, to anybody who believes to lead."""
        leader = self.a_leader()
        if leader is not None and not leader.holding and leader.quorum.room > 0:
            self.appends += 1
            leader.append(f"a{self.appends}", self.rng.randint(1, 5))

    def kill(self) -> None:
        world, rng = self.world, self.rng
        member = world.members[rng.choice(world.names)]
        leader = self.a_leader()
        if leader is not None and rng.random() < 0.5:
            member = leader
        if member.up:
            member.stop()
            world.count("kills")
            pause_s = rng.choice((0.1, 2.0, 10.0))
            world.at(world.now_s + pause_s, lambda: None if member.up else member.start())

    def lose(self) -> None:
        """A member's log is lost, or its whole disk; it is away for longer than a leader stays one
        that nobody answers.
        """
        world = self.world
        member = world.members[self.rng.choice(world.names)]
        if member.up and world.may_lose(member):
            member.stop()
            disk = self.rng.random() < 0.5
            member.disk.lose(vote=disk)
            world.count("disks lost" if disk else "logs lost")
            away_s = world.election.leak_s + self.rng.uniform(1.0, 5.0) if disk else 0.1
            world.at(world.now_s + away_s, lambda: None if member.up else member.start())

    def cut(self) -> None:
        """One way or both ways between two members."""
        world, rng = self.world, self.rng
        one, two = rng.sample(world.names, 2)
        ways = {(one, two), (two, one)} if rng.random() < 0.5 else {(one, two)}
        world.cut |= ways
        world.count("cuts of the network")
        world.at(world.now_s + rng.uniform(0.0, 12.0), lambda: world.cut.difference_update(ways))

    def split(self) -> None:
        world, rng = self.world, self.rng
        side = set(rng.sample(world.names, rng.randint(1, len(world.names) - 1)))
        pairs = ((a, b) for a in world.names for b in world.names)
        ways = {(a, b) for a, b in pairs if (a in side) != (b in side)}
        world.cut |= ways
        world.count("splits")
        world.at(world.now_s + rng.uniform(0.0, 15.0), lambda: world.cut.difference_update(ways))

    def transfer(self) -> None:
        leader = self.a_leader()
        if leader is None:
            return
        self.tokens += 1
        peer = self.rng.choice(leader.election.state.peers)
        asked = TransferAsked(
            token=self.tokens,
            transferer=leader.name,
            transferee=peer,
            term=leader.election.state.term,
        )
        marks = leader.quorum.watermarks
        effects = leader.election.transfer_requested(self.world.now_s, asked, marks)
        leader.role_effects(effects)

    def expire(self) -> None:
        member = self.world.members[self.rng.choice(self.world.names)]
        if member.up and member.committed > member.disk.begin:
            self.world.count("expiries")
            member.expire(self.rng.randint(member.disk.begin, member.committed))

    def prefer(self) -> None:
        leader = self.a_leader()
        if leader is not None:
            marks = leader.quorum.watermarks
            leader.role_effects(leader.election.look_for_preferred(self.world.now_s, marks))

    def step(self) -> None:
        """A client's append, and a fault now and then."""
        self.client()
        what = self.rng.random()
        if what < 0.03:
            self.kill()
        elif what < 0.05:
            self.cut()
        elif what < 0.06:
            self.split()
        elif what < 0.07:
            self.transfer()
        elif what < 0.09:
            self.expire()
        elif what < 0.11:
            self.prefer()
        elif what < 0.12:
            self.lose()


def converge(world: World) -> None:
    """Heal everything: a leader within HEAL_S, all equal LAST_S after an append, but for those that
    speak another dialect, which hold nothing.
    """
    world.heal()
    world.run(world.now_s + HEAL_S)
    leader = world.leader
    assert leader is not None, "Liveness: no leader"
    assert not leader.holding, "Liveness: a transfer never ends"
    leader.append("last")
    world.run(world.now_s + LAST_S)
    assert world.outcomes.get("last") == "done", "Liveness: the last append"
    log = leader.disk.log
    for member in world.members.values():
        if member.foreign:
            assert not member.disk.log, f"{member.name} took an entry"
            continue
        assert member.committed == len(log) - 1, f"Liveness: {member.name} lags"
        first = max(member.disk.begin, leader.disk.begin)
        assert member.disk.log[first:] == log[first:], f"{member.name} differs"


def run_seed(seed: int, seconds: float = FAULTS_S) -> World:
    """The whole run. Raises: AssertionError where something that must hold does not."""
    world = draw_world(seed)
    run = Run(world, Random(f"{seed}:run"))
    world.start_all()
    while world.now_s < seconds:
        world.run(world.now_s + run.rng.uniform(0.01, 0.5))
        run.step()
    converge(world)
    return world


def main() -> None:
    """`python tests/dledger/core_run.py 0 100`: these seeds, and what happened in all of them."""
    total: dict[str, int] = {}
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            world = run_seed(seed)
        except AssertionError as error:
            print(f"seed {seed}: {error}")
            continue
        for what, count in world.counts.items():
            total[what] = total.get(what, 0) + count
    print(total)


if __name__ == "__main__":
    main()
