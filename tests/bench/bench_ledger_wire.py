"""A client of DLedger groups, ours and Java's alike: APPEND and METADATA over one connection."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

import attrs
from bench_kit import percentiles_ms

from wire.dledger.codes import RequestCode
from wire.dledger.rpc import (
    AppendEntryRequest,
    MetadataRequest,
    Request,
    decode_response,
    encode_body,
    request_code_of,
)
from wire.remoting.frame import Decoder, Frame, encode_frame
from wire.remoting.header import Header

WARM_UP_S = 0.5
TIMEOUT_S = 10.0
"""Of a reply: longer than a member keeps an append waiting (2.5 s)."""
CONNECT_TIMEOUT_S = 1.0
RECEIVE_BYTES = 256 << 10
SUCCESS = 200


@attrs.define
class WireClient:
    """One connection to one member, blocking.

    Attributes:
        member: its name, which requests carry.
    """

    group: str
    member: str
    sock: socket.socket
    decoder: Decoder = attrs.field(factory=Decoder)
    opaque: int = 0

    @classmethod
    def connect(cls, group: str, member: str, address: tuple[str, int]) -> WireClient:
        """Ours take connections from members' addresses, so it comes from the member's own."""
        sock = socket.create_connection(address, CONNECT_TIMEOUT_S, source_address=(address[0], 0))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(TIMEOUT_S)
        return cls(group, member, sock)

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def frame(self, request: Request, body: bytes | None = None) -> bytes:
        """The next request's frame; its number is `opaque`."""
        self.opaque += 1
        header = Header(code=int(request_code_of(request)), opaque=self.opaque)
        return encode_frame(header, encode_body(request) if body is None else body)

    def replies(self) -> list[Frame]:
        """At least one. Raises: OSError: none came in time, or the connection is over."""
        found: list[Frame] = []
        while not found:
            data = self.sock.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionError(f"{self.member} closed the connection")
            found, wrong = self.decoder.decode(data, RECEIVE_BYTES)
            assert wrong is None, wrong
        return found

    def call(self, request: Request) -> Any:
        """The response; None if the remoting layer refused."""
        self.sock.sendall(self.frame(request))
        (reply,) = self.replies()
        return decode_response(request_code_of(request), reply.body)[0] if reply.body else None

    def leader(self) -> str | None:
        """Who leads, as far as the member knows."""
        request = MetadataRequest(group=self.group, remote_id=self.member)
        response = self.call(request)
        return None if response is None else response.leader_id

    def append(self, body: bytes) -> bool:
        """Whether a quorum has it."""
        request = AppendEntryRequest(group=self.group, remote_id=self.member, body=body)
        response = self.call(request)
        return response is not None and bool(response.code == SUCCESS)

    def load(self, count: int, seconds: float, size: int) -> dict[str, float]:
        """`count` appends of one entry of `size` bytes are outstanding all the time."""
        request = AppendEntryRequest(group=self.group, remote_id=self.member, body=b"x" * size)
        encoded = encode_body(request)
        began: dict[int, float] = {}
        latencies_s: list[float] = []
        refused = 0
        clock = time.perf_counter
        from_s = clock() + WARM_UP_S
        until_s = from_s + seconds
        room = count
        while True:
            now_s = clock()
            if room and now_s < until_s:
                frames = []
                for _ in range(room):
                    frames.append(self.frame(request, encoded))
                    began[self.opaque] = now_s
                self.sock.sendall(b"".join(frames))
            if not began:
                break
            replies = self.replies()
            now_s, room = clock(), len(replies)
            for reply in replies:
                started_s = began.pop(reply.header.opaque)
                if not reply.body or self._code(reply) != SUCCESS:
                    refused += 1
                elif from_s <= now_s < until_s:
                    latencies_s.append(now_s - started_s)
        rate = {"k_per_s": len(latencies_s) / seconds / 1e3, "refused": refused}
        return {**rate, **percentiles_ms(latencies_s)}

    @staticmethod
    def _code(reply: Frame) -> int:
        return decode_response(RequestCode.APPEND, reply.body)[0].code


def leader_of(group: str, members: dict[str, tuple[str, int]]) -> str | None:
    """The member that says of itself that it leads."""
    for name, address in members.items():
        with contextlib.suppress(OSError), WireClient.connect(group, name, address) as client:
            if client.leader() == name:
                return name
    return None


def first_append(
    group: str, members: dict[str, tuple[str, int]], until_s: float, pause_s: float
) -> bool:
    """Ask the members in turn until one has committed an entry. False: not by `until_s`."""
    while time.monotonic() < until_s:
        for name, address in members.items():
            with contextlib.suppress(OSError), WireClient.connect(group, name, address) as client:
                if client.append(b"first"):
                    return True
        time.sleep(pause_s)
    return False
