"""What asks the members of a mixed group, as DLedger's clients and operators do, over the wire."""

from __future__ import annotations

import json
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from interop_java_dledger import JavaDLedger
from interop_ledger_files import LedgerFiles
from interop_processes import PeerFailed, Process, Processes, wait_for

from wire.buffer import NEED_DATA
from wire.dledger.rpc import (
    AppendEntryRequest,
    AppendEntryResponse,
    GetEntriesRequest,
    GetEntriesResponse,
    HeartBeatRequest,
    HeartBeatResponse,
    LeadershipTransferRequest,
    MetadataRequest,
    MetadataResponse,
    Request,
    Response,
    decode_response,
    encode_body,
    request_code_of,
)
from wire.errors import RemoteProtocolError
from wire.remoting.frame import Decoder, encode_frame
from wire.remoting.header import Header

GROUP = "ledger"
ADDRESSES = {"n0": "127.0.0.1", "n1": "127.0.0.2", "n2": "127.0.0.3"}
CALL_TIMEOUT_S = 5.0
UNANSWERED_S = 0.5
SETTLE_S = 120.0
"""What takes longer will never come, also where other work has most of the machine."""
RETRY_PAUSE_S = 0.1
AT_ONCE = 200
"""Appends under way; Java's members refuse more than maxPendingRequestsNum, 10,000."""


class GroupClient(ABC):
    """The half of a `MixedGroup` that asks; each request over a connection of its own.

    Attributes:
        acknowledged: bodies by the index that a leader said.
    """

    folder: Path
    java: JavaDLedger
    processes: Processes
    port: int
    running: dict[str, Process]
    acknowledged: dict[int, bytes]
    _sent: int

    @abstractmethod
    def log(self, name: str) -> LedgerFiles:
        """What lies in a member's files."""

    def ask(
        self, name: str, request: Request, *, timeout_s: float = CALL_TIMEOUT_S
    ) -> Response | None:
        """None: it cannot be reached, or does not answer."""
        code = request_code_of(request)
        decoder = Decoder()
        try:
            with socket.create_connection((ADDRESSES[name], self.port), timeout_s) as sock:
                sock.sendall(encode_frame(Header(code=code, opaque=1), encode_body(request)))
                while (frame := decoder.next_frame()) is NEED_DATA:
                    data = sock.recv(65_536)
                    if not data:
                        return None
                    decoder.receive_data(data)
            return decode_response(code, frame.body)[0]
        except (OSError, RemoteProtocolError):
            return None

    def leader_of(self, name: str) -> str | None:
        """Whom a member takes for the leader."""
        answer = self.ask(name, MetadataRequest(group=GROUP, remote_id=name))
        return answer.leader_id if isinstance(answer, MetadataResponse) else None

    def leader(self, *among: str) -> str:
        """Who leads, as that member says itself; one of `among`."""

        def found() -> str | None:
            return next((n for n in among or ADDRESSES if self.leader_of(n) == n), None)

        alive = list(self.running.values())
        return wait_for(found, "a leader", timeout_s=SETTLE_S, alive=alive, poll_s=0.2)

    def lead(self, name: str) -> str:
        """Have this member lead; the leader is asked to hand over to it. Its name."""

        def leads() -> bool:
            there = [each for each in ADDRESSES if self.leader_of(each) == each]
            if name not in there:
                for leader in there:
                    self.hand_over(leader, name)
            return name in there

        alive = list(self.running.values())
        wait_for(leads, f"{name} as leader", timeout_s=SETTLE_S, alive=alive, poll_s=0.2)
        return name

    def term_of(self, leader: str) -> int:
        """-1: it does not answer."""
        # Refused for its term, with the term of the leader in the answer.
        who = next(name for name in ADDRESSES if name != leader)
        stale = HeartBeatRequest(group=GROUP, remote_id=leader, local_id=who, leader_id=who)
        answer = self.ask(leader, stale)
        return answer.term if isinstance(answer, HeartBeatResponse) else -1

    def hand_over(self, leader: str, to: str) -> int | None:
        """Ask `leader` to, once. The answer's code, None without one.

        It may fail: too far behind, too slow.
        """
        request = LeadershipTransferRequest(
            group=GROUP,
            remote_id=leader,
            transfer_id=leader,
            transferee_id=to,
            term=self.term_of(leader),
        )
        answer = self.ask(leader, request)
        return answer.code if answer is not None else None

    def append(self, count: int, *among: str) -> str:
        """So many entries, one after the other, each until it is acknowledged. Who leads then.

        Args:
            among: who may lead; anybody if nobody is named. If it is one, leadership is handed to
                it.
        """
        leader = self._find_leader(*among)
        deadline = time.monotonic() + SETTLE_S
        for _ in range(count):
            self._sent += 1
            body = b"%d " % self._sent * (1 + self._sent * 7919 % 300)
            while not self._append(leader, body):
                if time.monotonic() > deadline:
                    raise PeerFailed(f"no append was acknowledged for {SETTLE_S} s")
                time.sleep(RETRY_PAUSE_S)
                leader = self._find_leader(*among)
            deadline = time.monotonic() + SETTLE_S
        return leader

    def _find_leader(self, *among: str) -> str:
        return self.lead(*among) if len(among) == 1 else self.leader(*among)

    def _append(self, leader: str, body: bytes) -> bool:
        request = AppendEntryRequest(group=GROUP, remote_id=leader, body=body)
        answer = self.ask(leader, request)
        if not isinstance(answer, AppendEntryResponse) or answer.code != 200:
            return False
        assert answer.index not in self.acknowledged
        self.acknowledged[answer.index] = body
        return True

    def append_at_once(self, leader: str, count: int) -> None:
        """Until so many entries are acknowledged by `leader`, `AT_ONCE` of them under way.

        It is made the leader again where it is so no more. What it did not acknowledge may be in
        the log or not; it is not sent again, others are.
        """
        deadline = time.monotonic() + SETTLE_S
        left = count
        while left:
            acknowledged = self._append_many(leader, min(AT_ONCE, left))
            left -= acknowledged
            if acknowledged:
                deadline = time.monotonic() + SETTLE_S
            elif time.monotonic() > deadline:
                raise PeerFailed(f"no append was acknowledged for {SETTLE_S} s")
            if left and acknowledged < AT_ONCE:
                self.lead(leader)

    def _append_many(self, leader: str, count: int) -> int:
        """So many over one connection, side by side. How many were acknowledged."""
        acknowledged = 0
        try:
            with socket.create_connection((ADDRESSES[leader], self.port), CALL_TIMEOUT_S) as sock:
                bodies = self._send_many(sock, leader, count)
                for number, answer in _answers(sock, count):
                    if answer.code == 200:
                        assert answer.index not in self.acknowledged
                        self.acknowledged[answer.index] = bodies.pop(number)
                        acknowledged += 1
        except OSError:  # a deposed Java leader does not answer (bug V11)
            pass
        return acknowledged

    def _send_many(self, sock: socket.socket, leader: str, count: int) -> dict[int, bytes]:
        """The bodies by the number that their answers bear."""
        first = self._sent + 1
        self._sent += count
        bodies = {
            number: b"%d of many " % number * (1 + number % 60)
            for number in range(first, first + count)
        }
        frames = []
        for number, body in bodies.items():
            request = AppendEntryRequest(group=GROUP, remote_id=leader, body=body)
            head = Header(code=request_code_of(request), opaque=number)
            frames.append(encode_frame(head, encode_body(request)))
        sock.sendall(b"".join(frames))
        return bodies

    def send_unanswered(self, name: str) -> bytes:
        """An append to a leader that cannot get it acknowledged. Its body."""
        body = b"unanswered by %s" % name.encode()
        request = AppendEntryRequest(group=GROUP, remote_id=name, body=body)
        answer = self.ask(name, request, timeout_s=UNANSWERED_S)
        assert not (isinstance(answer, AppendEntryResponse) and answer.code == 200)
        return body

    def send_many_unanswered(self, leader: str, count: int) -> set[bytes] | None:
        """To a leader that cannot get them acknowledged, which has them in its log then.

        Returns: None: it led no more before it had taken all of them.
        """
        with socket.create_connection((ADDRESSES[leader], self.port), SETTLE_S) as sock:
            bodies = set(self._send_many(sock, leader, count).values())

            def settled() -> bool:
                return self.leader_of(leader) != leader or bodies <= set(self.log(leader).bodies)

            what = f"{count} entries in {leader}'s log"
            wait_for(settled, what, timeout_s=SETTLE_S, poll_s=0.2)
        return bodies if bodies <= set(self.log(leader).bodies) else None

    def read_back(self, leader: str) -> None:
        """All that was acknowledged, from the leader."""
        for index, body in self.acknowledged.items():
            request = GetEntriesRequest(group=GROUP, remote_id=leader, begin_index=index)
            answer = self.ask(leader, request, timeout_s=SETTLE_S)
            assert isinstance(answer, GetEntriesResponse)
            assert [entry.body for entry in answer.entries] == [body], f"entry {index}"

    def use_java_client(self, count: int) -> None:
        """So many appends by DLedger's own client, which reads them back."""
        folder = self.folder / "client-output"
        peers = ";".join(f"{name}-{host}:{self.port}" for name, host in ADDRESSES.items())
        command = self.java.command(folder, "Client", GROUP, peers, str(count))
        client = self.processes.start("DLedger's client", command, folder)
        wait_for(lambda: not client.running, "its end", timeout_s=SETTLE_S)
        if client.popen.returncode != 0:
            raise client.failed("failed")
        found: dict[str, dict[int, bytes]] = {"append": {}, "get": {}}
        for line in (folder / "out").read_text().splitlines():
            if line.startswith("{"):
                said = json.loads(line)
                found[said["did"]][said["index"]] = bytes.fromhex(said["body"])
        assert len(found["append"]) == count
        assert found["get"] == found["append"]
        assert not found["append"].keys() & self.acknowledged.keys()
        self.acknowledged |= found["append"]


def _answers(sock: socket.socket, count: int) -> Iterator[tuple[int, AppendEntryResponse]]:
    """So many, each with its request's number. Raises: OSError: no more of them come."""
    decoder = Decoder()
    for _ in range(count):
        while (frame := decoder.next_frame()) is NEED_DATA:
            data = sock.recv(65_536)
            if not data:
                raise ConnectionResetError("the leader has ended the connection")
            decoder.receive_data(data)
        answer = decode_response(request_code_of(AppendEntryRequest()), frame.body)[0]
        assert isinstance(answer, AppendEntryResponse)
        yield frame.header.opaque, answer
