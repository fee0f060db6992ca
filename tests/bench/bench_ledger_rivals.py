"""Groups of three of other Raft libraries, each member a process: PySyncObj, hashicorp/raft, etcd.

They are optional: PySyncObj is in the extra `bench`; the others are Go programs (`rivals/`), built
here with what `go` fetches from its module proxy. Nothing else in the project needs them.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from bench_kit import HERE
from bench_ledger_groups import START_TIMEOUT_S, Group, named, processor_s
from interop_processes import Process, Processes, free_ports, wait_for

BUILD_TIMEOUT_S = 1200.0
"""Of Go's first build here, which fetches and compiles etcd; later ones take seconds."""
GO_FOLDER = HERE / "rivals"
POLL_S = 0.02
Words = list[str | Path]


@attrs.frozen
class Location:
    """What a member's command line is made of.

    Attributes:
        name: the member's own.
        folder: of its files; not there yet.
        addresses: "host:port" of each member, its own among them, by name.
        client_port: where it takes clients, if that is another port.
        programs: the folder of the Go programs.
        durability: "synced" or "written".
    """

    name: str
    folder: Path
    addresses: Mapping[str, str]
    client_port: int
    programs: Path
    durability: str

    @property
    def own(self) -> str:
        return self.addresses[self.name]


def pysyncobj_words(how: str) -> Callable[[Location], Words]:
    return lambda place: [
        *(sys.executable, HERE / "rival_pysyncobj.py", place.own, place.folder / "journal", how),
        *place.addresses.values(),
    ]


def hashicorp_words(synced: str) -> Callable[[Location], Words]:
    def words(place: Location) -> Words:
        kind = synced if place.durability == "synced" else "bolt-nosync"
        program = place.programs / "hashicorp"
        return [program, place.own, place.folder, kind, *place.addresses.values()]

    return words


def etcd_words(place: Location) -> Words:
    members = [f"{name}={at}:{place.client_port}" for name, at in place.addresses.items()]
    return [
        *(place.programs / "etcd", "member", place.name, place.folder, place.durability),
        *members,
    ]


@attrs.frozen
class Rival:
    """One way to run one library.

    Attributes:
        library: what `--rivals` calls it.
        durability: the tables in which it stands.
        note: what a reader has to know to compare it.
        words: of a member's command line.
        outside: the load comes over a client's connection, from a process of its own; otherwise it
            runs inside the leader's process, as that of `ours`.
        rests: see `Group`.
    """

    library: str
    durability: frozenset[str]
    note: str
    words: Callable[[Location], Words]
    outside: bool = False
    rests: bool = False

    @property
    def go(self) -> bool:
        return self.library in GO_LIBRARIES


GO_LIBRARIES = ("hashicorp", "etcd")
BOTH = frozenset({"synced", "written"})
WRITTEN = frozenset({"written"})
UNSYNCED = "its journal is a mapped file that it never flushes"
RIVALS = {
    "PySyncObj": Rival(
        "pysyncobj", WRITTEN, f"0.3.17, its defaults: {UNSYNCED}", pysyncobj_words("batch")
    ),
    "PySyncObj, at once": Rival(
        "pysyncobj", WRITTEN, f"appendEntriesUseBatch=False: {UNSYNCED}", pysyncobj_words("at-once")
    ),
    "PySyncObj, tuned": Rival(
        "pysyncobj",
        WRITTEN,
        "no journal, all in memory; appendEntriesPeriod 2 ms, messages of 1 MiB",
        pysyncobj_words("tuned"),
        rests=True,
    ),
    "hashicorp, wal": Rival(
        "hashicorp",
        frozenset({"synced"}),
        "hashicorp/raft 1.7.3 with raft-wal 0.4.0, which syncs",
        hashicorp_words("wal"),
    ),
    "hashicorp, bolt": Rival(
        "hashicorp",
        BOTH,
        "hashicorp/raft 1.7.3 with raft-boltdb 2.3.1; written: its NoSync",
        hashicorp_words("bolt"),
    ),
    "etcd, wire": Rival(
        "etcd",
        BOTH,
        "etcd 3.6.16, puts of its Go client over one connection, stored in its key-value store "
        "too; written: UnsafeNoFsync",
        etcd_words,
        outside=True,
        rests=True,  # it counts ticks, so it holds no election afterwards
    ),
}
LIBRARIES = tuple(dict.fromkeys(rival.library for rival in RIVALS.values()))


def what_is_missing(library: str) -> str | None:
    """Why it cannot be measured on this machine, in a few words; None: it can."""
    if library == "pysyncobj":
        found = importlib.util.find_spec("pysyncobj")
        return None if found else "pysyncobj is not installed (the extra `bench`)"
    return None if shutil.which("go") else "go is not on the PATH"


def chosen(libraries: Iterable[str], durability: str) -> dict[str, Rival]:
    """Those of these libraries that stand in that table, by their rows."""
    wanted = set(libraries)
    return {
        row: rival
        for row, rival in RIVALS.items()
        if rival.library in wanted and durability in rival.durability
    }


def built(folder: Path) -> Path:
    """The Go programs, in this folder. Raises: CalledProcessError: as when nothing is fetched."""
    programs = folder / "rivals"
    command = ["go", "build", "-o", f"{programs}/", "./hashicorp", "./etcd"]
    programs.mkdir(exist_ok=True)
    subprocess.run(command, cwd=GO_FOLDER, check=True, timeout=BUILD_TIMEOUT_S)
    return programs


def asked(process: Process, do: str, **what: object) -> Any:
    """One command and its answer. Raises: PeerFailed: the process ended."""
    assert process.popen.stdin is not None
    process.popen.stdin.write(json.dumps({"do": do, **what}).encode() + b"\n")
    process.popen.stdin.flush()
    return answer(process)


def answer(process: Process) -> Any:
    assert process.popen.stdout is not None
    line = process.popen.stdout.readline()
    if not line:
        raise process.failed("ended")
    return json.loads(line)


@attrs.define
class RivalGroup(Group):
    """Members that take the commands of `rivals/kit/kit.go`.

    Attributes:
        caller: where the load comes from, if not from the leader's process, and which leader it
            is connected to.
    """

    rival: Rival
    programs: Path
    durability: str
    client_port: int
    caller: tuple[Process, str] | None = attrs.field(default=None, init=False)

    @classmethod
    def make(
        cls,
        processes: Processes,
        folder: Path,
        hosts: Iterable[str],
        rival: Rival,
        programs: Path,
        durability: str,
    ) -> RivalGroup:
        """Not started."""
        hosts = list(hosts)
        port = free_ports(1, hosts=hosts)
        addresses = {name: (host, port) for name, host in named(hosts).items()}
        group = cls(processes, folder, addresses, rival, programs, durability, port + 1)
        group.rests = rival.rests
        return group

    def start(self, name: str) -> None:
        addresses = {peer: f"{host}:{port}" for peer, (host, port) in self.addresses.items()}
        place = Location(
            *(name, self.store(name), addresses),
            *(self.client_port, self.programs, self.durability),
        )
        self.running[name] = self._started(name, self.rival.words(place))

    def _started(self, name: str, words: Words) -> Process:
        pipe, folder = subprocess.PIPE, self.folder / name
        process = self.processes.start(name, words, folder, stdin=pipe, stdout=pipe)
        answer(process)
        return process

    def end(self, name: str) -> int:
        end: int = asked(self.running[name], "status")["end"]
        return end

    def store(self, name: str) -> Path:
        return self.folder / "data" / name

    def leader(self) -> str:
        def leads() -> str | None:
            for name, process in self.running.items():
                if asked(process, "status")["leads"]:
                    return name
            return None

        return wait_for(leads, "a leader", timeout_s=START_TIMEOUT_S, poll_s=POLL_S)

    def source(self) -> Process:
        """The process in which the load runs."""
        leader = self.leader()
        if not self.rival.outside:
            return self.running[leader]
        if self.caller is not None and self.caller[1] != leader:
            self.caller[0].kill()
            self.caller = None
        if self.caller is None:
            at = f"{self.addresses[leader][0]}:{self.client_port}"
            words: Words = [self.programs / "etcd", "client", at]
            self.caller = (self._started("client", words), leader)
        return self.caller[0]

    def first_append(self, timeout_s: float = START_TIMEOUT_S) -> bool:
        return bool(
            wait_for(lambda: asked(self.source(), "append"), "an append", timeout_s=timeout_s)
        )

    def load(self, count: int, seconds: float, size: int) -> dict[str, float]:
        source = self.source()
        return self.measured(
            lambda: asked(source, "load", count=count, seconds=seconds, size=size),
            (lambda: processor_s(source)) if self.rival.outside else None,
        )
