"""Recorded frames and what they say; a recorded answer and ours to the same request."""

from __future__ import annotations

import json
from typing import Any

import attrs
import golden_dledger as golden
import msgspec

from wire.buffer import NEED_DATA
from wire.dledger.codes import RequestCode
from wire.dledger.rpc import Request, decode_request
from wire.remoting.frame import Decoder, Frame


@attrs.frozen
class Row:
    """One recorded frame, and what it says."""

    scenario: str
    asker: str
    server: str
    conn: int
    name: str
    is_reply: bool
    frame: Frame
    raw: bytes

    @property
    def key(self) -> tuple[str, int, int]:
        """Of the request that it is or answers."""
        return (self.scenario, self.conn, self.frame.header.opaque)

    @property
    def request(self) -> Request:
        return decode_request(RequestCode(self.frame.header.code), self.frame.body)[0]

    @property
    def body(self) -> dict[str, Any]:
        return msgspec.json.decode(self.frame.body) if self.frame.body else {}


def decoded(data: bytes) -> Frame:
    decoder = Decoder()
    decoder.receive_data(data)
    frame = decoder.next_frame()
    assert frame is not NEED_DATA
    return frame


def rows(scenario: str) -> list[Row]:
    found = []
    for line in (golden.ROOT / f"{scenario}.ndjson").read_text().split("\n")[1:]:
        if line:
            row = json.loads(line)
            raw = row["frame"].encode("latin-1")
            is_reply = row["kind"] == "reply"
            place = scenario, row["from"], row["to"], row["conn"], row["name"]
            found.append(Row(*place, is_reply, decoded(raw), raw))
    return found


def append_indexes(found: list[Row]) -> dict[tuple[str, int, int], int]:
    """Where Java wrote what clients appended, by request."""
    replies = (row for row in found if row.name == "APPEND" and row.is_reply)
    written = ((row.key, row.body.get("index", -1)) for row in replies)
    return {key: index for key, index in written if index >= 0}


def in_append_order(found: list[Row], leader: str) -> list[Row]:
    """Appends that were under way together, in the order in which Java gave them their indexes."""
    indexes = append_indexes(found)
    asked = [
        (at, row)
        for at, row in enumerate(found)
        if not row.is_reply and row.server == leader and row.key in indexes
    ]
    result = list(found)
    ordered = sorted(asked, key=lambda pair: indexes[pair[1].key])
    for (place, _), (_, row) in zip(asked, ordered, strict=True):
        result[place] = row
    return result


@attrs.frozen
class Answer:
    """Java's and ours to one request."""

    request: Row
    java: Frame
    ours: Frame

    @property
    def place(self) -> str:
        row = self.request
        return f"{row.scenario[:2]} {row.server} c{row.conn} #{row.frame.header.opaque} {row.name}"

    @property
    def difference(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Fields in which the answers differ: Java's and ours, "-" for one that is not there.

        Language, addresses and the text of a remark are not compared, whether they are there is.
        """
        java, ours = flat(self.java), flat(self.ours)
        if bool(self.java.body) != bool(self.ours.body):
            java, ours = whole(self.java), whole(self.ours)
        keys = sorted(key for key in {**java, **ours} if java.get(key, "-") != ours.get(key, "-"))
        return {key: java.get(key, "-") for key in keys}, {key: ours.get(key, "-") for key in keys}


def body_of(frame: Frame) -> dict[str, Any]:
    body = msgspec.json.decode(frame.body) if frame.body else {}
    if "peers" in body:
        body["peers"] = sorted(body["peers"])
    return body


def head_of(frame: Frame) -> dict[str, Any]:
    header = msgspec.structs.asdict(frame.header)
    header.update(language=None, remark=bool(header["remark"]))
    return {key.upper(): value for key, value in header.items()}


def flat(frame: Frame) -> dict[str, Any]:
    """Header and body in one, the header's fields in capitals."""
    return {**head_of(frame), **body_of(frame)}


def whole(frame: Frame) -> dict[str, Any]:
    """The header's fields, and the body as one."""
    return {**head_of(frame), **({"body": body_of(frame)} if frame.body else {})}


def led_terms(node: str, scenario: str) -> set[int]:
    """Those in which the node sent heartbeats or pushes in a recording."""
    return {
        row.request.term
        for row in rows(scenario)
        if row.asker == node and not row.is_reply and row.name in ("HEART_BEAT", "PUSH")
    }
