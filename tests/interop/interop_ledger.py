"""A DLedger group of real Java members and one of ours, and a client that asks any of them.

Java's are DLedger 0.3.1.2 as RocketMQ 5.3.3 ships it. All are on this machine, each at an address
of its own: n0 is ours.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
from interop_ledger_files import LedgerFiles
from interop_nodes import ROOT
from interop_processes import PeerFailed, Process, Processes, free_ports, port_answers, wait_for
from interop_rocketmq import JAVA, java_command

from wire.dledger_rpc import (
    AppendEntryRequest,
    AppendEntryResponse,
    MetadataRequest,
    MetadataResponse,
    Request,
    Response,
    decode_response,
    encode_body,
    request_code_of,
)
from wire.errors import RemoteProtocolError
from wire.remoting import NEED_DATA, Decoder, Header, encode_frame

GROUP = "ledger"
ADDRESSES = {"n0": "127.0.0.1", "n1": "127.0.0.2", "n2": "127.0.0.3"}
OURS, JAVAS = "n0", ("n1", "n2")
DATA_FILE_BYTES = 65_536
INDEX_FILE_BYTES = 32 * 512
CALL_TIMEOUT_S = 5.0
START_TIMEOUT_S = 60.0
SETTLE_S = 60.0
RETRY_PAUSE_S = 0.1
COMPILER = "jdk.compiler/com.sun.tools.javac.Main"
JAVA_OPTIONS = (
    "-Xms128m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "-Dtls.server.mode=disabled",
)
"""The packages are opened for unmapping files, which Java 17 forbids otherwise."""


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


@attrs.define
class MixedGroup:
    """See the module's text.

    Attributes:
        classes: Member.java, compiled.
        leads: "python" or "java": which kind should lead.
        batch: whether leaders push several entries at once.
        acknowledged: bodies by the index that a leader said.
    """

    folder: Path
    jars: Path
    classes: Path
    processes: Processes
    leads: str
    batch: bool
    port: int = attrs.field(factory=lambda: free_ports(hosts=list(ADDRESSES.values())))
    running: dict[str, Process] = attrs.field(factory=dict)
    acknowledged: dict[int, bytes] = attrs.field(factory=dict)
    _sent: int = 0

    # ---- members ----

    def start(self, *names: str) -> None:
        """Returns when all of them answer."""
        for name in names or ADDRESSES:
            self.running[name] = self._start_ours() if name == OURS else self._start_java(name)
        for name in names or ADDRESSES:
            wait_for(
                lambda name=name: port_answers(ADDRESSES[name], self.port),  # type: ignore[misc]
                f"{name} at its port",
                timeout_s=START_TIMEOUT_S,
                alive=[self.running[name]],
            )

    def _start_ours(self) -> Process:
        timing = SOON if self.leads == "python" else OURS_LATE
        members = ", ".join(f'{{ node = "{name}", kind = "java" }}' for name in JAVAS)
        lines = ["version = 1", 'name = "interop"', 'data_dir = "data"', "[nodes]"]
        lines += [f'{name} = "{address}"' for name, address in ADDRESSES.items()]
        lines += [f"[groups.{GROUP}]", 'mode = "dledger"', f'members = ["{OURS}", {members}]']
        lines += [f"port = {self.port}", 'term_entry = "empty"', "heartbeat_interval_s = 0.5"]
        lines += [f"heartbeat_leaks = {timing.leaks}"]
        lines += [
            f"vote_interval_min_s = {timing.vote_min_s}",
            f"vote_interval_max_s = {timing.vote_max_s}",
        ]
        lines += [f"data_file_bytes = {DATA_FILE_BYTES}", f"index_file_bytes = {INDEX_FILE_BYTES}"]
        lines += [f"batch_push = {str(self.batch).lower()}"]
        if self.leads == "java":
            lines += [f"preferred_leaders = {list(JAVAS)}".replace("'", '"')]
        self.folder.mkdir(parents=True, exist_ok=True)
        cluster = self.folder / "cluster.toml"
        cluster.write_text("\n".join(lines) + "\n")
        command: list[str | Path] = [sys.executable, "-m", "actors.cluster", cluster]
        command += ["--node", OURS, "--plain"]
        return self.processes.start("n0, ours", command, self.folder / "n0-output", cwd=ROOT)

    def _start_java(self, name: str) -> Process:
        timing = SOON if self.leads == "java" else JAVA_LATE
        settings: dict[str, object] = {
            "group": GROUP,
            "selfId": name,
            "peers": ";".join(f"{name}-{host}:{self.port}" for name, host in ADDRESSES.items()),
            "storeBaseDir": self.folder,
            "mappedFileSizeForEntryData": DATA_FILE_BYTES,
            "mappedFileSizeForEntryIndex": INDEX_FILE_BYTES,
            "enableBatchPush": str(self.batch).lower(),
            "heartBeatTimeIntervalMs": 500,
            "maxHeartBeatLeak": timing.leaks,
            "minVoteIntervalMs": round(timing.vote_min_s * 1000),
            "maxVoteIntervalMs": round(timing.vote_max_s * 1000),
        }
        if self.leads == "python":
            settings["preferredLeaderId"] = OURS
        folder = self.folder / f"{name}-output"
        command = [*java_command(self.jars, folder, JAVA_OPTIONS, self.classes), "Member"]
        command += [ADDRESSES[name], *(f"{key}={value}" for key, value in settings.items())]
        return self.processes.start(f"{name}, Java", command, folder)

    def kill(self, name: str) -> None:
        self.running.pop(name).kill()

    def empty(self, name: str) -> None:
        """Kill a Java member and take its disk away."""
        self.kill(name)
        shutil.rmtree(self.folder / f"dledger-{name}")

    def data(self, name: str) -> Path:
        if name == OURS:
            return self.folder / "data" / OURS / "groups" / GROUP / "data"
        return self.folder / f"dledger-{name}" / "data"

    def log(self, name: str) -> LedgerFiles:
        return LedgerFiles.read(self.data(name))

    # ---- a client ----

    def ask(self, name: str, request: Request) -> Response | None:
        """None: it cannot be reached, or does not answer."""
        code = request_code_of(request)
        decoder = Decoder()
        try:
            with socket.create_connection((ADDRESSES[name], self.port), CALL_TIMEOUT_S) as sock:
                sock.sendall(encode_frame(Header(code=code, opaque=1), encode_body(request)))
                while (frame := decoder.next_frame()) is NEED_DATA:
                    data = sock.recv(65_536)
                    if not data:
                        return None
                    decoder.receive_data(data)
            return decode_response(code, frame.body)[0]
        except (OSError, RemoteProtocolError):
            return None

    def leader(self, *among: str) -> str:
        """Who leads, as that member says itself; one of `among`."""

        def found() -> str | None:
            for name in among or ADDRESSES:
                answer = self.ask(name, MetadataRequest(group=GROUP, remote_id=name))
                if isinstance(answer, MetadataResponse) and answer.leader_id == name:
                    return name
            return None

        alive = list(self.running.values())
        return wait_for(found, "a leader", timeout_s=SETTLE_S, alive=alive, poll_s=0.2)

    def append(self, count: int, *among: str) -> str:
        """So many entries, one after the other, each until it is acknowledged. Who leads then.

        Args:
            among: who may lead; anybody if nobody is named.
        """
        leader = self.leader(*among)
        deadline = time.monotonic() + SETTLE_S
        for _ in range(count):
            self._sent += 1
            body = b"%d " % self._sent * (1 + self._sent * 7919 % 300)
            while not self._append(leader, body):
                if time.monotonic() > deadline:
                    raise PeerFailed(f"no append was acknowledged for {SETTLE_S} s")
                time.sleep(RETRY_PAUSE_S)
                leader = self.leader(*among)
        return leader

    def _append(self, leader: str, body: bytes) -> bool:
        request = AppendEntryRequest(group=GROUP, remote_id=leader, body=body)
        answer = self.ask(leader, request)
        if not isinstance(answer, AppendEntryResponse) or answer.code != 200:
            return False
        assert answer.index not in self.acknowledged
        self.acknowledged[answer.index] = body
        return True

    # ---- the judge ----

    def wait_until_equal(self, *names: str) -> LedgerFiles:
        """Until these members' logs, or all, are the same bytes, with all that was acknowledged."""

        def same() -> LedgerFiles | None:
            first, *others = [self.log(name) for name in names or ADDRESSES]
            lengths = {len(each.content) for each in (first, *others)}
            good = len(lengths) == 1 and len(first.bodies) > max(self.acknowledged)
            return first if good and all(each == first for each in others) else None

        try:
            log = wait_for(same, "equal logs", timeout_s=SETTLE_S)
        except PeerFailed as error:
            logs = {name: self.log(name) for name in names or ADDRESSES}
            ends = {name: (len(log.bodies), len(log.content)) for name, log in logs.items()}
            raise PeerFailed(f"{error}: entries and bytes {ends}") from None
        for index, body in self.acknowledged.items():
            assert log.bodies[index] == body, f"entry {index} was acknowledged as another"
        return log


def compiled(jars: Path, folder: Path) -> Path:
    """Member.java as classes: quicker to start than from its source."""
    command: list[str | Path] = [
        "javac",
        "-nowarn",
        "-d",
        folder,
        "-cp",
        f"{jars}/*",
        JAVA / "Member.java",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S)
    if done.returncode != 0:
        raise PeerFailed(f"{command}\n{done.stdout}{done.stderr}")
    return folder


def other(names: Sequence[str], *less: str) -> str:
    """The one that is left."""
    (found,) = set(names) - set(less)
    return found
