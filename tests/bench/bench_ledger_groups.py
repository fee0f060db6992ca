"""Groups of DLedger members, each a process: ours, and real Java nodes of 0.3.1.2."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
from bench_kit import GROUP, HERE, Node
from bench_ledger_wire import WireClient, first_append, leader_of
from interop_processes import Process, Processes, free_ports, wait_for
from interop_versions import BENCHED

VERSION = "0.3.1.2"
"""Of the DLedger jar that RocketMQ 5.3.3 brings."""
PORT = 20_931
START_TIMEOUT_S = 60.0
CATCH_UP_TIMEOUT_S = 60.0
FAIL_OVER_TIMEOUT_S = 60.0
LOOK_S = 0.01
WAKE_S = 0.5
"""In which Java's timers, late by a whole rest, have all run."""
CPU_CLOCK_OF_PROCESS = 2  # CPUCLOCK_SCHED, linux/posix-timers.h
JAVA_OPTIONS = (
    "-server",
    "-Xms512m",
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=512m",
    "-XX:+UseG1GC",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "-Dtls.server.mode=disabled",
)
"""DLedger unmaps its files by reflection, hence the two in the middle."""
MEMORY_OPTIONS = ("-Xms2g", "-Xmx2g")
"""Of a node with the memory store, which keeps every entry: some 0.5 million for each shape."""
IDLE_S = 1.0


def named(hosts: Iterable[str]) -> dict[str, str]:
    """The members on these hosts, in their order."""
    return {f"n{number}": host for number, host in enumerate(hosts)}


def empty(store: Path) -> None:
    """Remove all that a member keeps but its vote: ours does not start if it has lost that."""
    for found in store.iterdir():
        if found.name == "currterm":
            continue
        if found.is_dir():
            shutil.rmtree(found)
        else:
            found.unlink()


def processor_s(process: Process) -> float:
    """What the process has used of all processors."""
    return time.clock_gettime((~process.popen.pid << 3) | CPU_CLOCK_OF_PROCESS)


@attrs.define
class Group(ABC):
    """A group; at most one member is down at a time.

    Attributes:
        addresses: where each member listens.
        rests: its members stand still (SIGSTOP) while others have their turn.
    """

    processes: Processes
    folder: Path
    addresses: dict[str, tuple[str, int]]
    running: dict[str, Process] = attrs.field(factory=dict, init=False)
    rests: bool = attrs.field(default=False, init=False)

    @abstractmethod
    def start(self, name: str) -> None:
        """Returns when it listens."""

    @abstractmethod
    def end(self, name: str) -> int:
        """The index of the last entry that it has written; -1: none."""

    def vouched(self, name: str) -> int:
        """The index of the last entry that it vouches for, as durable as the group's shall be."""
        return self.end(name)

    @abstractmethod
    def store(self, name: str) -> Path:
        """Everything that it keeps."""

    def start_all(self) -> None:
        for name in self.addresses:
            self.start(name)
        assert self.first_append(START_TIMEOUT_S), f"no leader in {self.folder.name}"
        self.wait_even()  # who came last is not to catch up while something is measured

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
        self.running.clear()

    def rest(self) -> None:
        """Called when others have their turn: take nothing from them, if that costs much."""
        if self.rests:
            for process in self.running.values():
                process.pause()

    def wake(self) -> None:
        """Called before the next turn; returns when the group is as before.

        Of most the leader's heartbeat comes before any vote: it leads on.
        """
        if self.rests:
            for process in self.running.values():
                process.resume()
            time.sleep(WAKE_S)
            self.wait_even()

    def renew(self) -> bool:
        """Begin again with nothing, if what it holds makes the group slower and slower.

        Called, when it is awake, before it is measured in another way. Returns whether it did.
        """
        return False

    def idle_percent(self) -> float:
        """What its members take of one core while nobody asks for anything."""
        began_s = sum(map(processor_s, self.running.values()))
        time.sleep(IDLE_S)
        return (sum(map(processor_s, self.running.values())) - began_s) / IDLE_S * 100

    def kill(self, name: str) -> None:
        self.running.pop(name).kill()

    def first_append(self, timeout_s: float = FAIL_OVER_TIMEOUT_S) -> bool:
        """Append one entry to the leader, as soon as one does."""
        alive = {name: self.addresses[name] for name in self.running}
        return first_append(GROUP, alive, time.monotonic() + timeout_s, LOOK_S)

    def leader(self) -> str:
        alive = {name: self.addresses[name] for name in self.running}
        return wait_for(
            lambda: leader_of(GROUP, alive), "a leader", timeout_s=START_TIMEOUT_S, poll_s=LOOK_S
        )

    def client(self) -> WireClient:
        leader = self.leader()
        return WireClient.connect(GROUP, leader, self.addresses[leader])

    def wait_even(self) -> int:
        """Until the followers have what the leader has; returns the last index."""
        assert self.first_append()
        end = self.end(self.leader())
        wait_for(
            lambda: all(self.end(name) >= end for name in self.running),
            "all of the log everywhere",
            timeout_s=CATCH_UP_TIMEOUT_S,
            poll_s=LOOK_S,
        )
        return end

    # ---- what is measured ----

    def load(self, count: int, seconds: float, size: int) -> dict[str, float]:
        """Over the wire; see `WireClient.load`."""
        with self.client() as client:
            return self.measured(lambda: client.load(count, seconds, size), time.process_time)

    def measured(
        self, run: Callable[[], dict[str, float]], client_s: Callable[[], float] | None = None
    ) -> dict[str, float]:
        """What `run` gives, and what an append costs leader and follower, and the client.

        Followers that are behind at the end finish at their own cost.

        Args:
            client_s: what the client's process has used of all processors, if it is another one.
        """
        leader = self.leader()
        began_s = {name: processor_s(process) for name, process in self.running.items()}
        before = self.end(leader)
        client_began_s = client_s() if client_s else 0.0
        found = run()
        client_used_s = client_s() - client_began_s if client_s else 0.0
        count = max(1, self.end(leader) - before)
        used = {name: processor_s(each) - began_s[name] for name, each in self.running.items()}
        followers = [cost for name, cost in used.items() if name != leader]
        found["leader_us"] = used[leader] / count * 1e6
        found["follower_us"] = sum(followers) / len(followers) / count * 1e6
        if client_s:
            found["client_us"] = client_used_s / count * 1e6
        return found

    def catch_up(self) -> dict[str, float]:
        """A follower that has nothing but its vote: from its first vouched entry to its last one.

        `missing`: entries that it did not have after CATCH_UP_TIMEOUT_S; then the group is of no
        further use.
        """
        end, leader = self.wait_even(), self.leader()
        name = next(name for name in self.running if name != leader)
        self.kill(name)
        empty(self.store(name))
        self.start(name)
        self.first_append()  # an idle Java leader does not look at a follower that came back
        until_s = time.monotonic() + CATCH_UP_TIMEOUT_S
        while (first := self.vouched(name)) < 0 and time.monotonic() < until_s:
            time.sleep(LOOK_S)
        began_s = time.monotonic()
        while (last := self.vouched(name)) < end and time.monotonic() < until_s:
            time.sleep(LOOK_S)
        seconds = time.monotonic() - began_s
        return {"entries": last - first, "seconds": seconds, "missing": max(0, end - last)}

    def fail_over(self) -> float:
        """Seconds from kill -9 of the leader to the end of the next append."""
        self.wait_even()
        leader = self.leader()
        began_s = time.monotonic()
        self.kill(leader)
        assert self.first_append(), "nobody took over"
        took_s = time.monotonic() - began_s
        self.start(leader)
        return took_s


@attrs.define
class OurGroup(Group):
    """Whole nodes.

    Attributes:
        synced: a member vouches for what it has synced, not for what it has written.
        caller: the process of our own client, and the leader that it is connected to.
    """

    nodes: dict[str, Node] = attrs.field(factory=dict, init=False)
    cluster: Path = attrs.field(init=False)
    synced: bool = attrs.field(default=True, init=False)
    caller: tuple[Node, str] | None = attrs.field(default=None, init=False)

    @classmethod
    def make(
        cls, processes: Processes, folder: Path, hosts: Iterable[str], **settings: object
    ) -> OurGroup:
        """Not started. `settings`: keys of the group."""
        addresses = {name: (host, PORT) for name, host in named(hosts).items()}
        group = cls(processes, folder, addresses)
        group.synced = settings.get("durability") != "written"
        keys = {"mode": "dledger", "members": list(addresses), "port": PORT, **settings}
        lines = ["version = 1", 'name = "bench"', 'data_dir = "data"', "[nodes]"]
        lines += [f'{name} = "{host}"' for name, (host, _) in addresses.items()]
        lines += [f"[groups.{GROUP}]", *(f"{k} = {json.dumps(v)}" for k, v in keys.items())]
        folder.mkdir(parents=True)
        group.cluster = folder / "cluster.toml"
        group.cluster.write_text("\n".join(lines) + "\n")
        return group

    def start(self, name: str) -> None:
        self.nodes[name] = Node.start(self.processes, self.cluster, name)
        self.running[name] = self.nodes[name].process

    def end(self, name: str) -> int:
        written: int = self.nodes[name].ask("offsets")["written"]
        return written - 1

    def vouched(self, name: str) -> int:
        end: int = self.nodes[name].ask("offsets")["synced" if self.synced else "written"]
        return end - 1

    def store(self, name: str) -> Path:
        return self.nodes[name].store

    def inside(self, do: str, **what: object) -> dict[str, float]:
        """The load of `bench_load` inside the leader's process."""
        node = self.nodes[self.leader()]
        return self.measured(lambda: node.ask(do, **what))

    def over_api(self, do: str, **what: object) -> dict[str, float]:
        """The same from a process of its own, which is our client of the leader's API socket."""
        client = self.client_of_leader()
        return self.measured(lambda: client.ask(do, **what), lambda: processor_s(client.process))

    def client_of_leader(self) -> Node:
        leader = self.leader()
        if self.caller is not None and self.caller[1] != leader:
            self.caller[0].kill()
            self.caller = None
        if self.caller is None:
            self.caller = (Node.client_of(self.processes, self.nodes[leader]), leader)
        return self.caller[0]


@attrs.define
class JavaGroup(Group):
    """Nodes of nothing but DLedger. An idle group takes some 13 % of a core."""

    settings: dict[str, object]
    class_path: str

    @classmethod
    def make(
        cls, processes: Processes, folder: Path, hosts: Iterable[str], **settings: object
    ) -> JavaGroup:
        """Not started. `settings`: setters of DLedgerConfig.

        A Java node listens on all of the machine's addresses: each has a port of its own.
        """
        port = free_ports(1, 2, hosts=("0.0.0.0",))
        places = enumerate(named(hosts).items(), port)
        addresses = {name: (host, own) for own, (name, host) in places}
        jars, classes = BENCHED.jars(), folder.parent / "classes"
        if not classes.exists():  # once for all nodes: it takes longer than to start one
            words = ["javac", "-d", classes, "-cp", f"{jars}/*", HERE / "LedgerNode.java"]
            subprocess.run(words, check=True)
        group = cls(processes, folder, addresses, settings, f"{classes}:{jars}/*")
        group.rests = True
        return group

    @property
    def in_memory(self) -> bool:
        return self.settings.get("storeType") == "MEMORY"

    def start(self, name: str) -> None:
        peers = ";".join(f"{peer}-{h}:{p}" for peer, (h, p) in self.addresses.items())
        own = {"group": GROUP, "selfId": name, "peers": peers, "storeBaseDir": self.folder / "data"}
        words = [f"{key}={value}" for key, value in {**own, **self.settings}.items()]
        options = MEMORY_OPTIONS if self.in_memory else ()
        command = ["java", *JAVA_OPTIONS, *options, "-cp", self.class_path, "LedgerNode", *words]
        pipe, folder = subprocess.PIPE, self.folder / name
        process = self.processes.start(name, command, folder, stdin=pipe, stdout=pipe)
        self._answer(process)
        self.running[name] = process

    def renew(self) -> bool:
        """Its memory store never frees anything."""
        if self.in_memory:
            self.stop()
            shutil.rmtree(self.folder / "data")
            self.start_all()
        return self.in_memory

    def inside(self, count: int, seconds: float, size: int) -> dict[str, float]:
        """Appends inside the leader's process, so many outstanding."""
        leader = self.leader()
        return self.measured(lambda: self._asked(leader, f"load {count} {seconds} {size}"))

    def end(self, name: str) -> int:
        end: int = self._asked(name, "end")["end"]
        return end

    def _asked(self, name: str, line: str) -> Any:
        process = self.running[name]
        assert process.popen.stdin is not None
        process.popen.stdin.write(f"{line}\n".encode())
        process.popen.stdin.flush()
        return self._answer(process)

    def store(self, name: str) -> Path:
        return self.folder / "data" / f"dledger-{name}"

    @staticmethod
    def _answer(process: Process) -> Any:
        assert process.popen.stdout is not None
        for line in process.popen.stdout:
            if line.startswith(b"{"):
                return json.loads(line)
        raise process.failed("ended")
