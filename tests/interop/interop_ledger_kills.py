"""A mixed group in which somebody is killed every few seconds, under clients that are judged.

    python tests/interop/interop_ledger_kills.py --seconds 600 --ours 1
    python tests/interop/interop_ledger_kills.py --seconds 600 --ours 2

A run is made of stretches. In every other one a member of ours is to lead, in the rest a Java one:
leadership is handed over, the clients go on, then one member of the three is killed, or two of them
at once, and started again; in the first stretch of each kind the leader is among them. At the end
all data files are the same bytes; and what the clients heard, with a read of all that lies in the
files, is the history of one log.

A Java leader commits entries of earlier terms by counting copies (bug B1), so a failure may be
upstream's: the command prints who led when. And it looks at no larger term while a majority
answers it (V1): a member that took the next term, on the word of a majority, just when the old
leader was elected again in the old one, is shut out until that leader ends. It is ended then,
and the report counts that. So it does for entries that a killed Java leader wrote the beginning of
(`interop_ledger_torn.py`): they are judged as what they are in the log.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import attrs
from interop_java_dledger import JavaDLedger
from interop_ledger import EQUAL, OURS, PAIR, MixedGroup
from interop_ledger_clients import Clients
from interop_ledger_torn import Torn, as_in_the_log, terms_led, torn_entries
from interop_ledger_wire import ADDRESSES, SETTLE_S
from interop_processes import PeerFailed, Processes, wait_for
from interop_versions import MATRIX, Peer

T = TypeVar("T")
MEMBERS = {1: (OURS,), 2: PAIR}
"""By how many of the three run our code."""
CLIENTS = 4
STRETCHES_MIN = 2
"""One led by each kind, however little time there is."""
LED_MAX_S = 2.0
DOWN_MAX_S = 3.0
BOTH_SHARE = 0.25
"""Of the stretches: two members are killed at once, and nothing can be acknowledged."""


@attrs.frozen
class Stretch:
    """Attributes:
    leader, term: at its beginning; -1 if the leader was not asked in time.
    first: the highest index that was acknowledged before it.
    killed: the members that were, at one moment.
    """

    leader: str
    term: int
    first: int
    killed: tuple[str, ...]

    def __str__(self) -> str:
        killed = " and ".join(self.killed)
        return f"{self.leader} led in term {self.term} from entry {self.first}, {killed} killed"


@attrs.define
class Report:
    """What a run went through.

    Attributes:
        seconds: under kills.
        stretches: in order.
        kills: by member.
        acknowledged: appends, by the member that said so.
        unknown: appends without an answer, most of them to members that were away.
        reads: that were judged, without the last one.
        shut_out: Java leaders that were ended since they saw no member of a larger term (V1).
        torn: entries of which a killed Java leader wrote the beginning alone.
        entries, terms: of the log in the end.
    """

    seconds: float
    stretches: list[Stretch] = attrs.field(factory=list)
    kills: Counter[str] = attrs.field(factory=Counter)
    acknowledged: Counter[str] = attrs.field(factory=Counter)
    unknown: int = 0
    reads: int = 0
    shut_out: int = 0
    torn: list[Torn] = attrs.field(factory=list)
    entries: int = 0
    terms: int = 0

    @property
    def leaders_killed(self) -> Counter[str]:
        return Counter(each.leader for each in self.stretches if each.leader in each.killed)

    def __str__(self) -> str:
        lines = [f"{self.seconds:.0f} s, a log of {self.entries} entries of {self.terms} terms"]
        lines += [
            f"stretches led by: {_told(Counter(each.leader for each in self.stretches))}",
            f"kills: {_told(self.kills)}; of who led: {_told(self.leaders_killed)}",
        ]
        lines += [f"acknowledged by: {_told(self.acknowledged)}"]
        lines += [f"appends without an answer: {self.unknown}; reads: {self.reads}"]
        if self.shut_out:
            lines += [f"ended for a member of a larger term that they shut out: {self.shut_out}"]
        return "\n".join([*lines, *map(str, self.torn)])


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def mixed(folder: Path, java: JavaDLedger, processes: Processes, ours: int) -> MixedGroup:
    """A group in which nobody campaigns sooner than others."""
    timings = dict.fromkeys(ADDRESSES, EQUAL)
    return MixedGroup(
        folder, java, processes, leads="any", batch=True, timings=timings, ours=MEMBERS[ours]
    )


def kill_again_and_again(
    group: MixedGroup, seconds: float, rng: random.Random, tell: Callable[[str], None] = print
) -> Report:
    """One run with a group that has not been started.

    Raises:
        PeerFailed: a member ended by itself, nobody led or was acknowledged in time, or the logs
            did not become equal.
        AssertionError: the history is not that of one log, with the reasons.
    """
    begin = time.monotonic()
    report, clients = Report(seconds), Clients(group)
    group.start()
    try:
        clients.start([rng.getrandbits(32) for _ in range(CLIENTS)])
        while len(report.stretches) < STRETCHES_MIN or time.monotonic() - begin < seconds:
            _stretch(group, clients, rng, report)
            tell(f"{time.monotonic() - begin:.0f} s: {report.stretches[-1]}")
        _wait_acknowledged(clients)
    finally:
        clients.stop()
    report.seconds = time.monotonic() - begin
    _judge(group, clients, report)
    return report


def _stretch(group: MixedGroup, clients: Clients, rng: random.Random, report: Report) -> None:
    javas = [name for name in ADDRESSES if name not in group.ours]
    leader = rng.choice(javas if len(report.stretches) % 2 else list(group.ours))
    seeing(group, report, lambda: group.lead(leader))
    first, term = clients.newest, group.term_of(leader)
    _wait_acknowledged(clients)
    time.sleep(rng.uniform(0, LED_MAX_S))
    victims = rng.sample(list(ADDRESSES), 2 if rng.random() < BOTH_SHARE else 1)
    if len(report.stretches) < STRETCHES_MIN and leader not in victims:
        victims[0] = leader
    report.stretches.append(Stretch(leader, term, first, tuple(victims)))
    for name in victims:
        group.kill(name)
        report.kills[name] += 1
    time.sleep(rng.uniform(0, DOWN_MAX_S))
    group.start(*victims)


def seeing(group: MixedGroup, report: Report, wanted: Callable[[], T]) -> T:
    """What is waited for; once more without a Java leader that shuts a member out.

    Raises: PeerFailed: as `wanted` does, while nobody is shut out.
    """
    try:
        return wanted()
    except PeerFailed:
        leader = _shutting_out(group)
        if leader is None:
            raise
    report.shut_out += 1
    group.kill(leader)
    time.sleep(DOWN_MAX_S)  # the others have to elect without it
    group.start(leader)
    return wanted()


def _shutting_out(group: MixedGroup) -> str | None:
    """The Java member that leads while one of ours has a larger term: bug V1.

    One of ours would step down.
    """
    terms = {name: group.term_of(name) for name in ADDRESSES}
    largest = max(terms.values())
    behind = [each for each, term in terms.items() if 0 <= term < largest]
    javas = (each for each in behind if each not in group.ours)
    return next((each for each in javas if group.leader_of(each) == each), None)


def _wait_acknowledged(clients: Clients) -> None:
    """Until one more append is acknowledged, by whomever. All members run."""
    before = clients.by_leader.total()

    def more() -> bool:
        clients.check()
        return clients.by_leader.total() > before

    alive = list(clients.group.running.values())
    wait_for(more, "another append acknowledged", timeout_s=SETTLE_S, alive=alive)


def _judge(group: MixedGroup, clients: Clients, report: Report) -> None:
    group.acknowledged |= clients.acknowledged
    log = seeing(group, report, group.wait_until_equal)
    report.acknowledged = clients.by_leader
    report.unknown = sum(each.returned is None for each in clients.operations)
    report.reads = clients.reads
    report.entries, report.terms = len(log.bodies), len(set(log.terms))
    javas = [name for name in ADDRESSES if name not in group.ours]
    led = set[int]().union(*(terms_led(group.output(name)) for name in javas))
    report.torn = torn_entries(log, clients.in_doubt, led)
    written_as = as_in_the_log(report.torn, dict(enumerate(log.bodies)))
    findings = clients.judge(log.bodies, written_as)
    trace = [*report.stretches, report] if findings else []
    assert not findings, "\n".join(map(str, [*trace, *findings]))


def main(arguments: list[str]) -> int:
    """The exit code: 1 if something was found, whose files then are left where it says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument(
        "--ours", type=int, choices=MEMBERS, default=1, help="members of ours, of 3"
    )
    parser.add_argument("--seed", type=int, default=0, help="of which leader is killed, and when")
    newest = MATRIX["dledger"][0]
    parser.add_argument("--peer", type=Peer, default=newest, help=f"of Java's ({newest.name})")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="triolog-kills-"))
    classes = folder / "classes"
    classes.mkdir()
    processes = Processes()
    try:
        java = JavaDLedger.make(options.peer, classes)
        group = mixed(folder, java, processes, options.ours)
        report = kill_again_and_again(group, options.seconds, random.Random(options.seed))
    except AssertionError as error:
        print(f"{error}\nthe files are in {folder}")
        return 1
    finally:
        processes.end()
    shutil.rmtree(folder)
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
