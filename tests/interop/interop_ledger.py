"""A DLedger group of real Java members and ours, and clients that ask any of them.

All are on this machine, each at an address of its own: n0 is ours, and others may be.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
from interop_java_dledger import JavaDLedger
from interop_ledger_files import LedgerFiles
from interop_ledger_wire import ADDRESSES, GROUP, SETTLE_S, GroupClient
from interop_links import HOSTS, Link, Links
from interop_nodes import ROOT
from interop_processes import PeerFailed, Process, Processes, free_ports, port_answers, wait_for

TAKEN_HOSTS = (*ADDRESSES.values(), *HOSTS.values())
OURS, JAVAS = "n0", ("n1", "n2")
PAIR = ("n0", "n1")
"""Both ours, in groups with one Java member."""
DATA_FILE_BYTES = 65_536
INDEX_FILE_BYTES = 32 * 512
START_TIMEOUT_S = 120.0


@attrs.frozen
class Timing:
    """When a member campaigns. Heartbeats go out every 0.5 s."""

    leaks: int
    vote_min_s: float
    vote_max_s: float


SOON = Timing(6, 0.3, 1.0)
OURS_LATE = Timing(5, 8.0, 9.0)
"""It knows before Java's that the leader is gone, and votes."""
JAVA_LATE = Timing(20, 8.0, 9.0)
"""The first vote of a member that has just started comes soon all the same; who leads then hands
over to one that should (upstream's preferred leader)."""
EQUAL = Timing(4, 0.3, 1.0)
PATIENT = Timing(10, 0.3, 1.0)
"""Nobody is deposed only because the members have much to do."""


@attrs.define
class MixedGroup(GroupClient):
    """See the module's text.

    Attributes:
        java: what a Java member runs; `older` has those that run something else.
        leads: "python" or "java": which kind should lead.
        batch: whether leaders push several entries at once.
        timings: of single members; else as `leads` says.
        linked: the members find each other through `links`.
        ours: which members run our code.
        acknowledged: bodies by the index that a leader said.
    """

    folder: Path
    java: JavaDLedger
    processes: Processes
    leads: str
    batch: bool
    older: Mapping[str, JavaDLedger] = attrs.field(factory=dict)
    timings: Mapping[str, Timing] = attrs.field(factory=dict)
    linked: bool = False
    ours: Sequence[str] = (OURS,)
    port: int = attrs.field(factory=lambda: free_ports(hosts=TAKEN_HOSTS))
    running: dict[str, Process] = attrs.field(factory=dict)
    acknowledged: dict[int, bytes] = attrs.field(factory=dict)
    _links: Links | None = None
    _doors: dict[str, Link] = attrs.field(factory=dict)
    _sent: int = 0

    def __attrs_post_init__(self) -> None:
        if self.linked:
            targets = {name: (host, self.port) for name, host in ADDRESSES.items()}
            self._links = Links.between(targets, self.port)
        for name in ADDRESSES:
            if name not in self.ours and not self.older.get(name, self.java).binds:
                target = ("127.0.0.1", free_ports())
                self._doors[name] = Link.open(ADDRESSES[name], self.port, target)

    def __enter__(self) -> MixedGroup:
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._doors.values():
            link.close()
        if self._links is not None:
            self._links.close()

    @property
    def links(self) -> Links:
        assert self._links is not None
        return self._links

    def _place(self, name: str, seen_by: str) -> tuple[str, int]:
        if name == seen_by and name in self._doors:
            return self._doors[name].target
        if name == seen_by or self._links is None:
            return ADDRESSES[name], self.port
        return self._links.host(seen_by, name), self.port

    # ---- members ----

    def start(self, *names: str) -> None:
        """Returns when all of them answer."""
        for name in names or ADDRESSES:
            start = self._start_ours if name in self.ours else self._start_java
            self.running[name] = start(name)
        for name in names or ADDRESSES:
            wait_for(
                lambda name=name: port_answers(*self._place(name, name)),  # type: ignore[misc]
                f"{name} at its port",
                timeout_s=START_TIMEOUT_S,
                alive=[self.running[name]],
            )

    def _start_ours(self, name: str) -> Process:
        timing = self.timings.get(name, SOON if self.leads == "python" else OURS_LATE)
        javas = [each for each in ADDRESSES if each not in self.ours]
        members = [f'"{each}"' for each in self.ours]
        members += [f'{{ node = "{each}", kind = "java" }}' for each in javas]
        lines = ["version = 1", 'name = "interop"', 'data_dir = "data"', "[nodes]"]
        lines += [f'{each} = "{self._place(each, name)[0]}"' for each in ADDRESSES]
        lines += [f"[groups.{GROUP}]", 'mode = "dledger"', f"members = [{', '.join(members)}]"]
        lines += [f"port = {self.port}", 'term_entry = "empty"', "heartbeat_interval_s = 0.5"]
        lines += [f"heartbeat_leaks = {timing.leaks}"]
        lines += [
            f"vote_interval_min_s = {timing.vote_min_s}",
            f"vote_interval_max_s = {timing.vote_max_s}",
        ]
        lines += [f"data_file_bytes = {DATA_FILE_BYTES}", f"index_file_bytes = {INDEX_FILE_BYTES}"]
        lines += [f"batch_push = {str(self.batch).lower()}"]
        lines += [f"raft_votes = {str(name == OURS).lower()}"]  # the other one's as upstream's
        if self.leads == "java":
            lines += [f"preferred_leaders = {javas}".replace("'", '"')]
        self.folder.mkdir(parents=True, exist_ok=True)
        cluster = self.folder / f"{name}.toml"
        cluster.write_text("\n".join(lines) + "\n")
        command: list[str | Path] = [sys.executable, "-m", "actors.cluster", cluster]
        command += ["--node", name, "--plain"]
        folder = self.folder / f"{name}-output"
        return self.processes.start(f"{name}, ours", command, folder, cwd=ROOT)

    def _start_java(self, name: str) -> Process:
        version = self.older.get(name, self.java)
        timing = self.timings.get(name, SOON if self.leads == "java" else JAVA_LATE)
        places = {other: self._place(other, name) for other in ADDRESSES}
        settings: dict[str, object] = {
            "group": GROUP,
            "selfId": name,
            "peers": ";".join(f"{other}-{host}:{port}" for other, (host, port) in places.items()),
            "storeBaseDir": self.folder,
            "mappedFileSizeForEntryData": DATA_FILE_BYTES,
            "mappedFileSizeForEntryIndex": INDEX_FILE_BYTES,
            "heartBeatTimeIntervalMs": 500,
            "maxHeartBeatLeak": timing.leaks,
            "minVoteIntervalMs": round(timing.vote_min_s * 1000),
            "maxVoteIntervalMs": round(timing.vote_max_s * 1000),
        }
        if not version.peer.is_foreign:  # which has no such setting
            settings["enableBatchPush"] = str(self.batch).lower()
        if self.leads == "python":
            settings["preferredLeaderId"] = OURS
        folder = self.folder / f"{name}-output"
        where = ADDRESSES[name] if version.binds else "-"
        pairs = [f"{key}={value}" for key, value in settings.items()]
        command = version.command(folder, "Member", where, *pairs)
        return self.processes.start(f"{name}, Java", command, folder)

    def kill(self, name: str) -> None:
        self.running.pop(name).kill()

    def empty(self, name: str) -> None:
        """Kill a Java member and take its disk away."""
        self.kill(name)
        shutil.rmtree(self.folder / f"dledger-{name}")

    def output(self, name: str) -> Path:
        """What a member has written to standard output and error, over all its lives."""
        return self.folder / f"{name}-output" / "out"

    def log(self, name: str) -> LedgerFiles:
        ours = self.folder / "data" / name / "groups" / GROUP
        return LedgerFiles.read(ours if name in self.ours else self.folder / f"dledger-{name}")

    # ---- the judge ----

    def wait_until_equal(self, *names: str) -> LedgerFiles:
        """Until these members' logs, or all, are the same bytes, with all that was acknowledged.

        Every entry of each has its record in the index.
        """

        def same() -> LedgerFiles | None:
            try:
                first, *others = [self.log(name) for name in names or ADDRESSES]
            except FileNotFoundError:  # a member just cut it off
                return None
            lengths = {len(each.content) for each in (first, *others)}
            good = len(lengths) == 1 and len(first.bodies) > max(self.acknowledged)
            good = good and first.indexed == len(first.bodies)
            return first if good and all(each == first for each in others) else None

        try:
            # Seldom: the members need the time that reading all of their files takes.
            log = wait_for(same, "equal logs", timeout_s=SETTLE_S, poll_s=0.5)
        except PeerFailed as error:
            logs = {name: self.log(name) for name in names or ADDRESSES}
            ends = {
                name: (len(log.bodies), len(log.content), log.indexed) for name, log in logs.items()
            }
            raise PeerFailed(f"{error}: entries, bytes, indexed entries: {ends}") from None
        for index, body in self.acknowledged.items():
            assert log.bodies[index] == body, f"entry {index} was acknowledged as another"
        return log


def other(names: Sequence[str], *less: str) -> str:
    """The one that is left."""
    (found,) = set(names) - set(less)
    return found
