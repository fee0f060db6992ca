"""Checks that the broker whose metadata a copy takes is the one whose log it has.

A copy knows its master by two ports, which can belong to two brokers by mistake. The offsets of one
and the log of the other would make consumers skip messages, or read them again. So before each
round of questions the broker at the port is asked

- for its name, by GET_BROKER_CONFIG, which has to be the one that is saved in the copy's folder
  since the first comparison;
- where its log ends, by GET_BROKER_RUNTIME_INFO, which must not be before the end of what the HA
  port has sent;
- for a record, by VIEW_MESSAGE_BY_ID: the first one of the copy's newest file, byte for byte.

A broker with another answer is not the master, and is asked for nothing more. If there is no record
yet, if the broker does not show records, or if it has deleted the file with that one, the copy has
to reach the end of the broker's log within the same run. Ports and addresses are not compared, as
they can be forwarded.

Upstream: apache/rocketmq, broker/.../processor/AdminBrokerProcessor.java and
QueryMessageProcessor.java (viewMessageById), 5.3.3; broker.md 4.8 and 6.2. There is no such check.
"""

from __future__ import annotations

import json
import re
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
"""The text with which brokers of every version answer that no record begins at an offset."""
_OFFSET: Final = re.compile(r"[0-9]{1,19}")


@attrs.frozen
class KnownBroker:
    """The broker whose metadata a copy has, in a file of its folder.

    Attributes:
        path: the absolute path of the file, whose folder exists.
    """

    disk: Disk
    path: str

    def name(self) -> str:
        """Return the saved brokerName, or "" if there is none."""
        try:
            found: Any = json.loads(read_bytes(self.disk, self.path, _FILE_BYTES_MAX))
            return str(found["name"])
        except (OSError, *UNREADABLE):
            return ""

    def remember(self, name: str) -> None:
        """Save a brokerName.

        Raises:
            OSError: the name is not saved.
        """
        settle_spares(self.disk, self.path.rpartition("/")[0])
        replace_file(self.disk, self.path, json.dumps({"name": name}).encode() + b"\n")


@attrs.define(kw_only=True)
class FollowedBroker:
    """See the module's text.

    Attributes:
        master: the HA address of the master whose log the copy has.
        broker: the address of the broker that is asked.
        make_reader: makes a reader of the copy's log.
        record_bytes_max: the most bytes of a record.
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
        """Return "" if the broker has the copy's log, or why that is not known yet, for people.

        Raises:
            AnotherBroker: the broker has another log.
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
        min_bytes, end_bytes = await self._range()
        sent_bytes = max(ha.written_bytes, ha.client.master_end_bytes or 0)
        if end_bytes is not None and end_bytes < sent_bytes:
            expected = f"the broker of {self.master}, which has sent its log up to {sent_bytes}"
            raise self._another(expected, name, f", whose log ends at {end_bytes}")
        if reason := await self._differs(ha, name, sent_bytes, min_bytes, end_bytes):
            return reason
        if name and not known:
            with suppress(OSError):  # at the next round
                self.known.remember(name)
        return ""

    async def _differs(
        self,
        ha: HaStatus,
        name: str,
        sent_bytes: int,
        min_bytes: int | None,
        end_bytes: int | None,
    ) -> str:
        """Return "" if the broker has the same record or the same end, or why that is unknown."""
        offset, record = self._record(ha)
        if record and offset >= (min_bytes or 0):
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
        """Return offset and bytes of the first record in the newest file that has a checked one.

        The bytes are b"" if there is no checked record.

        Raises:
            OSError: the disk failed.
            OffsetGone: the file was removed.
            RemoteProtocolError: the record is damaged in the copy.
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
        """Ask the broker for its brokerName, and return it, or "" if it is not in the answer."""
        frame = await self._ask(RequestCode.GET_BROKER_CONFIG)
        if frame.header.code != ResponseCode.SUCCESS:
            return ""
        lines = frame.body.decode(errors="replace").splitlines()
        return next((line[11:].strip() for line in lines if line.startswith("brokerName=")), "")

    async def _range(self) -> tuple[int | None, int | None]:
        """Ask where the broker's log begins and ends, and return both, or None for what is not in
        the answer.
        """
        frame = await self._ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        if frame.header.code != ResponseCode.SUCCESS:
            return None, None
        table = decode_kv_table(frame.body)
        return _offset(table.get("commitLogMinOffset")), _offset(table.get("commitLogMaxOffset"))

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


def _offset(text: str | None) -> int | None:
    found = _OFFSET.fullmatch(text or "")
    return None if found is None else int(found[0])
