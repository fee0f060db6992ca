"""Whether the broker that is asked for its metadata is the one whose log a copy has.

A copy knows its master by two ports, which may be two brokers' by mistake: offsets of one beside
the log of the other make consumers skip messages, or read them again. So before each round of
questions the broker behind the port is asked

- for its name, GET_BROKER_CONFIG, which the copy's folder remembers since it was first compared;
- where its log ends, GET_BROKER_RUNTIME_INFO, which is not before what the HA port has sent;
- for a record, VIEW_MESSAGE_BY_ID: the first one of the copy's newest file, byte for byte.

Whoever answers otherwise is another broker, and is asked for nothing more. Where there is no record
yet, or the broker does not show records, its log has to end where the copy comes to within the
same run. Ports and addresses say nothing, for they may be forwarded.

Upstream: apache/rocketmq, broker/.../processor/AdminBrokerProcessor.java and
QueryMessageProcessor.java (viewMessageById), 5.3.3; broker.md 4.8 and 6.2. There is no such check.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import Any, Final

import attrs

from actors.env.protocols import Address, Disk
from actors.ha import connection_state
from actors.ha.connection_state import HaStatus
from actors.metadata.slave_sync import TIMEOUT_S, AnotherBroker
from actors.remoting import client
from actors.remoting.requests import CallFailed
from actors.runtime import ActorError, ActorRef
from actors.storage.files.replacing import replace_file, settle_spares
from actors.storage.files.whole_files import read_bytes
from actors.storage.log.log_reader import LogReader, OffsetGone
from actors.storage.node.identity import UNREADABLE
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.routes import decode_kv_table
from wire.errors import RemoteProtocolError
from wire.files.message_record import decode_record
from wire.remoting.frame import Frame

STATUS_TIMEOUT_S: Final = 5.0
LOG_NOT_COMPARED: Final = "the log is not compared with the master's yet"
_FILE_BYTES_MAX: Final = 4096
_NOT_FOUND: Final = "can not find message"
"""How every version's broker says that no record begins at an offset."""


@attrs.frozen
class KnownBroker:
    """The broker whose metadata a copy has, in a file of its folder.

    Attributes:
        path: absolute; its folder is there.
    """

    disk: Disk
    path: str

    def name(self) -> str:
        """Its brokerName; "": none is known."""
        try:
            found: Any = json.loads(read_bytes(self.disk, self.path, _FILE_BYTES_MAX))
            return str(found["name"])
        except (OSError, *UNREADABLE):
            return ""

    def remember(self, name: str) -> None:
        """Raises: OSError: it is not remembered."""
        settle_spares(self.disk, self.path.rpartition("/")[0])
        replace_file(self.disk, self.path, json.dumps({"name": name}).encode() + b"\n")


@attrs.define(kw_only=True)
class FollowedBroker:
    """See the module's text.

    Attributes:
        master: where it takes slaves, whose log the copy has.
        broker: where it is asked.
        make_reader: makes a reader of the copy's log.
        record_bytes_max: of the largest record.
    """

    master: Address
    broker: Address
    client: ActorRef[client.Call]
    state: ActorRef[connection_state.GetStatus]
    known: KnownBroker
    make_reader: Callable[[], LogReader]
    record_bytes_max: int
    _end_bytes: int | None = attrs.field(init=False, default=None)  # as it was said first

    async def may_ask(self) -> str:
        """Why it may be asked for nothing yet; "": it is the broker whose log the copy has.

        Raises: AnotherBroker: it is not.
        """
        try:
            return await self._compare()
        except (ActorError, CallFailed, RemoteProtocolError, OSError, OffsetGone) as error:
            return str(error)

    async def _compare(self) -> str:
        ha = await self.state.ask(
            HaStatus,
            lambda reply_to: connection_state.GetStatus(reply_to=reply_to),
            timeout_s=STATUS_TIMEOUT_S,
        )
        if ha.client is None or ha.client.reported_bytes is None:
            return LOG_NOT_COMPARED
        name, known = await self._name(), self.known.name()
        if known and name and known != name:
            raise self._another(f"broker {known}, whose metadata this copy has", name)
        end_bytes = await self._end()
        sent_bytes = max(ha.written_bytes, ha.client.master_end_bytes or 0)
        if end_bytes is not None and end_bytes < sent_bytes:
            expected = f"the broker of {self.master}, which has sent its log up to {sent_bytes}"
            raise self._another(expected, name, f", whose log ends at {end_bytes}")
        if reason := await self._differs(ha, name, sent_bytes, end_bytes):
            return reason
        if name and not known:
            with suppress(OSError):  # at the next round
                self.known.remember(name)
        return ""

    async def _differs(
        self, ha: HaStatus, name: str, sent_bytes: int, end_bytes: int | None
    ) -> str:
        """Why it is not compared yet; "": it has the same record, or a log that ends here."""
        offset, record = self._record(ha)
        if record:
            frame = await self._ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)})
            code, remark = frame.header.code, frame.header.remark or ""
            is_missing = code != ResponseCode.SUCCESS and _NOT_FOUND in remark
            if is_missing or (code == ResponseCode.SUCCESS and frame.body != record):
                expected = f"the record at offset {offset} of {self.master}"
                has = ", which has none" if is_missing else ", which has another"
                raise self._another(expected, name, has)
            if code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return "" if code == ResponseCode.SUCCESS else f"code {code}: {remark}"
        if self._end_bytes is None:
            self._end_bytes = end_bytes
        if self._end_bytes is None:
            return "it does not say where its log ends"
        if sent_bytes < self._end_bytes:
            return f"its log ends at {self._end_bytes}, that of {self.master} at {sent_bytes}"
        return ""

    def _record(self, ha: HaStatus) -> tuple[int, bytes]:
        """The first record of the newest file that has a checked one, and where it is; none: b"".

        Raises: OSError; OffsetGone; RemoteProtocolError: it is damaged here.
        """
        assert ha.client is not None
        good = min(ha.synced_bytes, ha.client.verified_bytes or 0)
        with closing(self.make_reader()) as reader:
            for base in reversed(reader.bases()):
                size = int.from_bytes(reader.read(base, 4, good))
                record = reader.read(base, size, good) if size <= self.record_bytes_max else b""
                if size and len(record) == size:
                    decode_record(record, size_max=self.record_bytes_max)
                    return base, record
        return 0, b""

    async def _name(self) -> str:
        """Its brokerName; "": it does not say."""
        frame = await self._ask(RequestCode.GET_BROKER_CONFIG)
        if frame.header.code != ResponseCode.SUCCESS:
            return ""
        lines = frame.body.decode(errors="replace").splitlines()
        return next((line[11:].strip() for line in lines if line.startswith("brokerName=")), "")

    async def _end(self) -> int | None:
        """Where its log ends; None: it does not say."""
        frame = await self._ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        if frame.header.code != ResponseCode.SUCCESS:
            return None
        text = decode_kv_table(frame.body).get("commitLogMaxOffset", "")
        return int(text) if text.isascii() and text.isdigit() else None

    async def _ask(self, code: RequestCode, fields: Mapping[str, str] | None = None) -> Frame:
        return await self.client.ask(
            Frame,
            lambda reply_to: client.Call(
                address=self.broker,
                code=code,
                ext_fields=fields,
                timeout_s=TIMEOUT_S,
                reply_to=reply_to,
            ),
            timeout_s=2 * TIMEOUT_S,
        )

    def _another(self, expected: str, name: str, has: str = "") -> AnotherBroker:
        found = f"broker {name or 'without a name'} at {self.broker}{has}"
        what = "name that one's listenPort, or begin another copy"
        return AnotherBroker(f"--metadata: expected {expected}, found {found}: {what}")
