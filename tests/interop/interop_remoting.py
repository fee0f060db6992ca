"""The little of RocketMQ's remoting protocol that these tests need, and what answers a Java slave.

A frame is: int length of the rest, int (serialize type << 24 | header length), JSON header, body.
Type 0 is JSON. A response has bit 0 of `flag` set and the `opaque` of its request; a one-way
request has bit 1 set.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Any

import attrs

REGISTER_BROKER = 103
GET_BROKER_RUNTIME_INFO = 28
GET_BROKER_CLUSTER_INFO = 106
UPDATE_BROKER_CONFIG = 25
GET_BROKER_HA_STATUS = 907
REQUEST_NOT_SUPPORTED = 3

FRAME_BYTES_MAX = 16 << 20
CALL_TIMEOUT_S = 5.0
FLAG_RESPONSE = 1
FLAG_ONE_WAY = 2

Answer = tuple[Mapping[str, Any], bytes]
_opaques = itertools.count(1)


def encode(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body


def read_frame(sock: socket.socket) -> tuple[dict[str, Any], bytes]:
    """One frame. Raises EOFError at the end of the stream, ValueError for what is no frame."""
    length, mark = struct.unpack(">ii", _read_exactly(sock, 8))
    if not 4 <= length <= FRAME_BYTES_MAX or mark >> 24 != 0:
        raise ValueError(f"no JSON frame: length {length}, mark {mark:#x}")
    rest = _read_exactly(sock, length - 4)
    size = mark & 0xFFFFFF
    return json.loads(rest[:size]), rest[size:]


def _read_exactly(sock: socket.socket, size: int) -> bytes:
    pieces = []
    while size:
        piece = sock.recv(size)
        if not piece:
            raise EOFError("the peer closed")
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def call(
    port: int,
    code: int,
    body: bytes = b"",
    *,
    host: str = "127.0.0.1",
    fields: Mapping[str, str] | None = None,
) -> dict[str, Any] | None:
    """Ask a broker or name server.

    Returns: the JSON of its answer, {} for an empty one, None if nobody answers or code is not 0.
    """
    try:
        with socket.create_connection((host, port), timeout=CALL_TIMEOUT_S) as sock:
            return call_on(sock, code, body, fields)
    except (OSError, EOFError):
        return None


def call_on(
    sock: socket.socket, code: int, body: bytes = b"", fields: Mapping[str, str] | None = None
) -> dict[str, Any] | None:
    """As `call`, on a connection that stays open. Raises: OSError, EOFError: nobody answers."""
    header = {
        "code": code,
        "language": "PYTHON",
        "version": 477,
        "opaque": next(_opaques),
        "flag": 0,
        "serializeTypeCurrentRPC": "JSON",
        "extFields": dict(fields or {}),
    }
    sock.sendall(encode(header, body))
    answer, answer_body = read_frame(sock)
    if answer["code"] != 0:
        return None
    parsed: dict[str, Any] = _loads(answer_body) if answer_body else {}
    return parsed


def _loads(text: bytes) -> Any:
    """fastjson does not quote integer keys."""
    return json.loads(re.sub(rb"([{,])(-?\d+):", rb'\1"\2":', text))


@attrs.define
class Server:
    """Answers remoting requests on one port of 127.0.0.1 from threads, until closed."""

    answer: Callable[[dict[str, Any]], Answer]
    _listener: socket.socket
    _open: set[socket.socket] = attrs.field(factory=set)
    _threads: list[threading.Thread] = attrs.field(factory=list)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    @classmethod
    def listen(cls, port: int, answer: Callable[[dict[str, Any]], Answer]) -> Server:
        server = cls(answer, socket.create_server(("127.0.0.1", port)))
        server._run(server._accept)
        return server

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def close(self) -> None:
        """End every connection and thread."""
        with self._lock:
            for sock in (self._listener, *self._open):
                _shutdown(sock)
        for thread in self._threads:
            thread.join(CALL_TIMEOUT_S)
            assert not thread.is_alive()
        self._listener.close()

    def _run(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:  # close() has shut the listener down
                return
            with self._lock:
                self._open.add(sock)
            self._run(self._talk, sock)

    def _talk(self, sock: socket.socket) -> None:
        try:
            while True:
                header, _ = read_frame(sock)
                if not header["flag"] & FLAG_RESPONSE:
                    fields, body = self.answer(header)
                    if not header["flag"] & FLAG_ONE_WAY:
                        sock.sendall(encode({**_response(header), **fields}, body))
        except (EOFError, OSError):
            pass
        finally:
            with self._lock:
                self._open.discard(sock)
            sock.close()


def _shutdown(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the peer was faster
        sock.shutdown(socket.SHUT_RDWR)


def _response(header: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "code": 0,
        "language": "PYTHON",
        "version": 477,
        "opaque": header["opaque"],
        "flag": FLAG_RESPONSE,
        "serializeTypeCurrentRPC": "JSON",
    }


VERSION = {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000}
METADATA: dict[int, Mapping[str, Any]] = {
    21: {
        "dataVersion": VERSION,
        "mappingDataVersion": VERSION,
        "topicConfigTable": {},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    },
    43: {"dataVersion": VERSION, "offsetTable": {}},
    45: {"dataVersion": VERSION, "offsetTable": {}},
    61: {"dataVersion": VERSION, "timingCount": {}},
    201: {"dataVersion": VERSION, "forbiddenTable": {}, "subscriptionGroupTable": {}},
    402: {"messageRequestModeMap": {}},
}
"""What a 5.3.3 slave asks its master for once a minute; empty tables leave its own as they are."""
TIMER_CHECKPOINT = 60  # its answer is binary: seven longs


@attrs.define
class MasterOfSlave:
    """What stands around a Python master so that a Java slave finds it and is content.

    Attributes:
        ha_address: of the Python master; the answer to every registration.
        namesrv_port: to be given to the slave as its name server.
        listen_port: where the slave finds that the master's broker is; it asks for topic tables
            at listen_port - 2.
        broker_address: where the Python master answers for metadata itself; None: this does.
        registrations: names of the brokers that registered, one per request.
    """

    ha_address: str
    namesrv_port: int
    listen_port: int
    broker_address: str | None = None
    registrations: list[str] = attrs.field(factory=list)
    _servers: list[Server] = attrs.field(factory=list)

    def open(self) -> None:
        self._servers.append(Server.listen(self.namesrv_port, self.answer_as_namesrv))
        if self.broker_address is None:
            self._servers.append(Server.listen(self.listen_port, self.answer_as_broker))
            self._servers.append(Server.listen(self.listen_port - 2, self.answer_as_broker))

    def close(self) -> None:
        for server in self._servers:
            server.close()

    def answer_as_namesrv(self, header: dict[str, Any]) -> Answer:
        if header["code"] != REGISTER_BROKER:
            return {}, b""
        self.registrations.append(header["extFields"]["brokerName"])
        master = self.broker_address or f"127.0.0.1:{self.listen_port}"
        return {"extFields": {"haServerAddr": self.ha_address, "masterAddr": master}}, b""

    def answer_as_broker(self, header: dict[str, Any]) -> Answer:
        code = header["code"]
        if code == TIMER_CHECKPOINT:
            return {}, struct.pack(">7q", *[0] * 7)
        if code in METADATA:
            return {}, json.dumps(METADATA[code]).encode()
        return {"code": REQUEST_NOT_SUPPORTED, "remark": f"request {code} is not supported"}, b""
