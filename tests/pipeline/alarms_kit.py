"""Event logs by hand for the alarms: published file by file, and the rules run over them alone."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import attrs
from lines_kit import START_US, Boot

from actors.events.dledger import CommittedRose, RoleChanged
from actors.events.ha import MasterLost, SlaveAcked
from actors.events.roles import SlaveVerified
from actors.events.store import RecordsAppended
from actors.pipeline.alarms.facts import Fact, FactReader
from actors.pipeline.alarms.findings import Finding
from actors.pipeline.alarms.limits import Limits
from actors.pipeline.alarms.processor import GroupState

LIMITS = Limits(
    failover_s=2.0, start_s=9999.0, lag_bytes=1000, lag_entries=100, stall_s=5.0, silent_s=15.0
)


def role(name: str, term: int, leader: str, session: int = 1) -> RoleChanged:
    return RoleChanged(session=session, role=name, term=term, leader=leader)


def wrote(end: int) -> RecordsAppended:
    return RecordsAppended(first_bytes=0, next_bytes=end, appends=1, records=1)


def acked(slave: str, offset: int) -> SlaveAcked:
    return SlaveAcked(slave=slave, connection=1, offset_bytes=offset)


def rose(index: int) -> CommittedRose:
    return CommittedRose(session=1, index=index)


def lost() -> MasterLost:
    return MasterLost(session=1, reason="closed", detail="", pause_s=0.1)


def verified(master: str) -> SlaveVerified:
    return SlaveVerified(session=1, master=master, number=0, end_bytes=0)


def publish(data: Path, boot: Boot) -> Path:
    """What the boot has said since the last call becomes its next file."""
    first = json.loads(boot.lines[0])["seq"]
    folder = data / boot.node / "events/v=1/dt=2027-01-15" / f"node={boot.node}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{boot.boot:06d}-{first:012d}.jsonl.gz"
    hidden = path.with_name(f".{path.name}.part")
    hidden.write_bytes(gzip.compress("".join(f"{line}\n" for line in boot.lines).encode(), 1))
    hidden.rename(path)
    boot.lines.clear()
    return path


def facts_of(*boots: Boot, groups: tuple[str, ...] = ("g",)) -> list[Fact]:
    """The facts of some boots, each as one file of a node with these groups."""
    return [fact for boot in boots for fact in FactReader(groups).read(boot.lines)]


def found(facts: Iterable[Fact], until_s: float, limits: Limits = LIMITS) -> list[Finding]:
    """What the rules find in one group's facts, if all is read up to a time after START_US."""
    state = GroupState()
    told = list(state.take(facts, limits))
    told += state.pass_time("g", START_US + round(until_s * 1_000_000), limits)
    return told


def brief(findings: Iterable[Finding]) -> list[tuple[str, str, str, int]]:
    """Alarm, who said it, about whom, and how much; sorted."""
    return sorted((each.alarm, each.node, each.subject, each.value) for each in findings)


@attrs.define
class Story:
    """Some nodes that say things one after the other."""

    boots: dict[str, Boot] = attrs.field(factory=dict)

    def say(self, node: str, at_s: float, event: object, place: str = "g/x") -> None:
        self.boots.setdefault(node, Boot(node)).say(at_s, place, event)

    def restart(self, node: str) -> Boot:
        """The next boot of a node; what it said before stays with the returned old one."""
        old = self.boots[node]
        self.boots[node] = Boot(node, old.boot + 1)
        return old

    def facts(self) -> list[Fact]:
        return facts_of(*self.boots.values())
