"""A group of the pure classes in a script's hand: n0, n1 ... of `core_world`, without faults but
those that the script makes. It has run for 20 s when the script begins.

    group size=3 seed=1
    run SECONDS | leader | logs | readers | broken
    append NAME count=1 to=n0 | outcome NAME
    isolate NAME | join NAME OTHER | mend | stop NAME | power-loss | start NAME | transfer NAME
"""

from __future__ import annotations

from core_member import Member
from core_world import Faults, World
from dledger_words import span, terms_text

from actors.dledger.core.settings import CompatSettings
from actors.dledger.core.transfer import TransferAsked


class Group:
    """See the module's text."""

    def __init__(
        self, compat: CompatSettings, size: int = 3, seed: int = 1, sync_s: float = 0.02
    ) -> None:
        faults = Faults(lost=0.0, twice=0.0, delay_max_s=0.02, sync_max_s=sync_s)
        self.world = World(seed=seed, size=size, faults=faults, compat=compat, broken=[])
        self.world.start_all()
        self.world.run(20.0)
        self.transfers = 0

    def made(self) -> list[str]:
        return self.do_leader()

    @property
    def leader(self) -> Member:
        assert self.world.leader is not None
        return self.world.leader

    def do_run(self, seconds: str) -> list[str]:
        self.world.run(self.world.now_s + float(seconds))
        return self.do_leader()

    def do_leader(self) -> list[str]:
        leader = self.world.leader
        if leader is None:
            return ["nobody leads"]
        return [f"{leader.name} leads term {leader.election.state.term}"]

    def do_append(self, name: str, count: int = 1, to: str = "") -> list[str]:
        member = self.world.members[to] if to else self.leader
        if member.holding:
            return ["refused: a transfer runs"]
        member.append(name, count)
        return []

    def do_outcome(self, name: str) -> list[str]:
        return [f"{name}: {self.world.outcomes.get(name, 'waits')}"]

    def do_logs(self) -> list[str]:
        return [
            f"{member.name}{'' if member.up else ' (off)'}: "
            f"{terms_text(member.disk.begin, (e.term for e in member.disk.log))}"
            + (f"; committed {span(0, member.committed)}" if member.up else "")
            for member in self.world.members.values()
        ]

    def do_readers(self) -> list[str]:
        """What a reader is shown at each member that runs."""
        lines = []
        for member in self.world.members.values():
            if not member.up:
                continue
            end = len(member.disk.log) - 1
            last = end if self.world.compat.read_uncommitted else member.committed
            body = f", the last is {member.disk.log[last].body.decode()}" if last >= 0 else ""
            lines.append(f"{member.name}: {span(0, last)}{body}")
        return lines

    def do_broken(self) -> list[str]:
        """Promises that did not hold so far, each kind once."""
        kinds = dict.fromkeys(what.split(":")[0] for what in self.world.broken or ())
        return [f"broken: {', '.join(kinds)}"] if kinds else ["every promise held"]

    def do_isolate(self, name: str) -> list[str]:
        for other in self.world.names:
            if other != name:
                self.world.cut |= {(name, other), (other, name)}
        return []

    def do_join(self, one: str, two: str) -> list[str]:
        self.world.cut -= {(one, two), (two, one)}
        return []

    def do_mend(self) -> list[str]:
        self.world.cut.clear()
        return []

    def do_stop(self, name: str) -> list[str]:
        self.world.members[name].stop()
        return []

    def do_power_loss(self) -> list[str]:
        """Of all members: what was not synced is gone."""
        for member in self.world.members.values():
            del member.disk.log[member.disk.synced :]
            if member.up:
                member.stop()
        return []

    def do_start(self, *names: str) -> list[str]:
        for name in names:
            self.world.members[name].start()
        return []

    def do_transfer(self, name: str) -> list[str]:
        """Wait for its answer, 5 s at most."""
        world, leader = self.world, self.leader
        self.transfers += 1
        term = leader.election.state.term
        asked = TransferAsked(
            token=-self.transfers, transferer=leader.name, transferee=name, term=term
        )
        marks = leader.quorum.watermarks
        leader.role_effects(leader.election.transfer_requested(world.now_s, asked, marks))
        world.run(world.now_s + 5.0)
        code = world.transfers.get(-self.transfers)
        return [f"transfer: {code.name if code else 'no answer'}", *self.do_leader()]
