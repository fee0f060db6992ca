"""The fuzzer's targets in `wire`: everything that takes bytes from a peer or a file."""

from __future__ import annotations

import pathlib
import zlib
from collections.abc import Callable
from types import ModuleType

from fuzz_engine import Target

from wire import buffer
from wire.api import frames as api
from wire.api import gather
from wire.errors import IncompleteData, RemoteProtocolError
from wire.files import (
    checkpoint,
    consume_queue,
    hosts,
    index_file,
    message_record,
    properties,
    record_scan,
    shown_record,
)
from wire.files.record_encoder import RecordEncoder, encode_blank
from wire.files.scanned import Stop
from wire.ha import classic, frames
from wire.ha.frames import HeaderLayout

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "classic"
HOST = ("127.0.0.1", 10911)
BODY_LENGTH_AT = 84


def files_of(*modules: ModuleType) -> frozenset[str]:
    return frozenset(str(module.__file__) for module in modules)


def golden_segment(version: str = "5.3.3", node: str = "master") -> bytes:
    """The first file of a real broker's log."""
    return min((GOLDEN / version / node / "commitlog").iterdir()).read_bytes()


def record(
    offset: int = 0,
    body: bytes = b"body",
    props: bytes = b"",
    topic: str = "orders",
    **fields: int,
) -> bytes:
    """One record as it lies at `offset`."""
    out = bytearray()
    RecordEncoder(topic, HOST, HOST).encode_into(
        out,
        body,
        queue_id=fields.get("queue_id", 0),
        queue_offset=fields.get("queue_offset", 0),
        physical_offset=offset,
        store_ts=fields.get("ts", 1_700_000_000_000),
        born_ts=5,
        properties=props,
    )
    return bytes(out)


PROPS = b"KEYS\x01k1 k2\x02TAGS\x01a\x02UNIQ_KEY\x01u\x02DELAY\x013\x02"


def records() -> bytes:
    """Two records and a BLANK."""
    first = record(0, props=PROPS)
    second = record(len(first), b"", queue_offset=1)
    return first + second + encode_blank(60)


def repair_records(data: bytearray) -> None:
    """Make the body CRC of IPv4 records right, as far as they follow each other."""
    at = 0
    while at + 91 <= len(data):
        size = int.from_bytes(data[at : at + 4])
        body_bytes = int.from_bytes(data[at + BODY_LENGTH_AT : at + BODY_LENGTH_AT + 4])
        body_at = at + BODY_LENGTH_AT + 4
        crc = zlib.crc32(data[body_at : body_at + body_bytes]) & message_record.CRC_MASK
        data[at + 8 : at + 12] = crc.to_bytes(4)
        if size < 91:
            return
        at += size


# ---- HA ----


def reports(data: bytes) -> object:
    """All at once, and byte by byte: the last report is the same, and so is a refusal."""
    whole = _outcome(lambda: _last_report([data]))
    assert whole == _outcome(lambda: _last_report([data[at : at + 1] for at in range(len(data))]))
    return _last_report([data])


def _last_report(chunks: list[bytes]) -> int | None:
    decoder = classic.ReportDecoder()
    last = None
    for chunk in chunks:
        decoder.receive_data(chunk)
        found = decoder.next_message()
        last = found.offset if isinstance(found, frames.Report) else last
    return last


def frames_of(layout: HeaderLayout[object]) -> Callable[[bytes], object]:
    """All at once, and byte by byte: the same messages, the same bytes, and the same refusal."""

    def run(data: bytes) -> object:
        whole = _frames(layout, [data])
        assert whole == _frames(layout, [data[at : at + 1] for at in range(len(data))])
        return whole[1] or None

    return run


def _frames(layout: HeaderLayout[object], chunks: list[bytes]) -> tuple[list[object], str]:
    decoder = frames.FrameDecoder(layout)
    found: list[object] = []
    body = bytearray()
    try:
        for chunk in chunks:
            decoder.receive_data(chunk)
            while (event := decoder.next_event()) is not buffer.NEED_DATA:
                if isinstance(event, frames.FrameData):
                    body += event.data
                else:
                    found.append((event, bytes(body)))
    except RemoteProtocolError as error:
        return found, str(error)
    return [*found, bytes(body)], ""


def _outcome(run: Callable[[], object]) -> object:
    try:
        return run()
    except RemoteProtocolError:
        return RemoteProtocolError


# ---- the API ----


def requests(data: bytes) -> object:
    return _messages(data, api.decode_request, gather.decode_requests)


def answers(data: bytes) -> object:
    return _messages(data, api.decode_answer, gather.decode_answers)


def _messages(
    data: bytes, one: Callable[[bytes | str], object], many: Callable[[bytes | str], object]
) -> object:
    """As bytes and, where they are text, as text; what is read is read again from what it makes."""
    text = data.decode("utf-8", "surrogateescape") if data[:1] in (b"{", b"[") else None
    message: bytes | str = data if text is None else text
    many(message)
    found = one(message)
    if repr(found).find("Ext(") < 0:
        again = api.encode(found, text=text is not None)  # type: ignore[arg-type]
        assert text is not None or repr(one(again)) == repr(found)
    return found


_REQUESTS = (
    api.Hello(id=0, version=2, name="c"),
    api.Append(id=7, group="orders", records=(b"a", api.NewMessage(b"b", "t", "x", ("k",)))),
    api.Tail(id=1, group="orders", start=None, max_bytes=1, credit_bytes=1),
    api.Record(id=1, group="orders", number=1, master="n0", token=2**53, force=True),
)
_EPOCH = api.Epoch(number=1, token=5, master="n0", start=0)
_ANSWERS = (
    api.Status(id=1, value={"a": [1, None, 0.5, "x", {"b": b"c"}]}),
    api.Failed(id=None, error="BadFrame", message="m", hint="n1"),
    api.Events(id=1, lines=("a", "b"), missed=0),
    api.Group(
        id=1, group="g", cluster="c", node="n", boot=1, role="master", state="open", reason="",
        opened=True, number=1, master="n0", history=(_EPOCH,), min=0, written=1, synced=1,
        acknowledged=1, high_water=1, unanswered=0,
    ),
)  # fmt: skip


def _encoded(frames_: tuple[api.Request | api.Answer, ...]) -> tuple[bytes, ...]:
    binary = [api.encode(frame) for frame in frames_]
    text = [api.encode(frame, text=True) for frame in frames_]
    arrays = (gather.gathered(binary), gather.gathered(text))
    return tuple(
        each if isinstance(each, bytes) else each.encode() for each in (*binary, *text, *arrays)
    )


_MSGPACK = (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xc0")
_JSON = (b"[" * 40, b'"\\ud800"', b"1e999", b"-0", b"\xed\xa0\x80", b"null")


# ---- the commit log ----


def one_record(data: bytes) -> object:
    found = message_record.decode_record(data)
    assert found.size <= len(data)
    if "\ufffd" not in found.topic:
        assert message_record.encode_record(found) == data[: found.size]
    _ = found.properties_map
    if found.physical_offset >= 0:
        hosts.decode_message_id(found.message_id)
    return None


def scanning(data: bytes) -> object:
    """The quick scans accept exactly what the exact reading accepts, and never raise."""
    spans, scanned = record_scan.scan(data)
    heads, heads_scanned = record_scan.scan_heads(data)
    assert [head.size for head in heads[: len(spans)]] == [size for _, size in spans]
    assert heads_scanned.end >= scanned.end == sum(size for _, size in spans)
    for (at, size), head in zip(spans, heads, strict=False):
        exact = message_record.decode_record(data, at)
        shown = shown_record.decode_shown(data, at, size)
        assert all(getattr(exact, name) == value for name, value in shown._asdict().items())
        assert (head.queue_id, head.store_ts) == (exact.queue_id, exact.store_ts)
        assert (head.keys, head.topic) == (exact.properties_map.get("KEYS", ""), exact.topic)
        assert -(2**63) <= head.tags_code < 2**63  # a unit of the consume queue holds it
    for physical_offset in (0, 4096):
        record_scan.scan(data, physical_offset=physical_offset)
    try:
        message_record.decode_record(data, scanned.end)
    except IncompleteData:
        assert scanned.stop in (Stop.INCOMPLETE, Stop.END, Stop.UNWRITTEN)
    except RemoteProtocolError:
        assert scanned.stop in (Stop.CORRUPT, Stop.BLANK, Stop.UNWRITTEN)
    return scanned.stop


def property_block(data: bytes) -> object:
    found = properties.decode_properties(data)
    for name in (b"TAGS", b"KEYS"):
        value = properties.find_value(b"\2" + data, b"\2" + name + b"\1")
        assert (value or b"").decode("utf-8", "replace") == found.get(name.decode(), "")
    properties.queue_tags_code("t", found, 0)
    code = properties.queue_tags_code(properties.SCHEDULE_TOPIC, found, 2**63 - 1)
    assert -(2**63) <= code < 2**63
    return None


def message_id(data: bytes) -> object:
    host, offset = hosts.decode_message_id(data.decode("latin-1"))
    assert hosts.encode_message_id(host, offset) == data.decode("latin-1").upper()
    return None


def host(data: bytes) -> object:
    assert hosts.encode_host(hosts.decode_host(data)) == data
    return None


# ---- derived files ----


def checkpoint_file(data: bytes) -> object:
    found = checkpoint.decode_checkpoint(data)
    assert checkpoint.decode_checkpoint(checkpoint.encode_checkpoint(found)) == found
    return None


def queue_units(data: bytes) -> object:
    for unit in consume_queue.decode_units(data):
        if consume_queue.is_used(*unit[:2]):
            assert consume_queue.decode_unit(consume_queue.encode_unit(*unit)) == unit
    return None


def index_parts(data: bytes) -> object:
    index_file.decode_slot(data, 40)
    index_file.decode_index_unit(data, 44)
    header = index_file.decode_index_header(data)
    assert index_file.decode_index_header(index_file.encode_index_header(header)) == header
    return None


REMOTE = (RemoteProtocolError,)
_HA = files_of(classic, frames, buffer)
_API = files_of(api, gather)
_LOG = files_of(message_record, record_scan, shown_record, properties, hosts)
_INDEX_SEED = index_file.encode_index_header(index_file.IndexHeader()) + b"\0\0\0\1" + b"\0" * 20
_FRAMES = classic.encode_frame_header(0, 5) + b"bytes" + classic.encode_frame_header(5, 0)
_LONG_MIN = (-(2**63)).to_bytes(8, signed=True)
_UNITS = consume_queue.FILLER_UNIT + consume_queue.encode_unit(0, 91, 7)
_LOG_TOKENS = (
    b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab", b"\xcb\xd4\x31\x94", b"\0\0\0\x10", b"\0\0\0\x20",
    b"SCHEDULE_TOPIC_XXXX", b"DELAY\x0118\x02", b"__CRC32#\x01", b"\x7f" + b"\xff" * 7,
)  # fmt: skip


def targets() -> tuple[Target, ...]:
    """All of them."""
    log = (records(), golden_segment()[:1500], golden_segment("4.9.7")[:1500])
    return (
        Target(name="ha reports", run=reports, seeds=(b"\0" * 16, b"\0" * 7 + b"\5"), raises=REMOTE,
               files=_HA, tokens=(_LONG_MIN,), size_max=400),
        Target(name="ha frames", run=frames_of(classic.FRAME_HEADER), seeds=(_FRAMES,),
               files=_HA, size_max=400),
        Target(name="api requests", run=requests, seeds=_encoded(_REQUESTS), files=_API,
               raises=REMOTE, tokens=(*_MSGPACK, *_JSON)),
        Target(name="api answers", run=answers, seeds=_encoded(_ANSWERS), files=_API,
               raises=REMOTE, tokens=(*_MSGPACK, *_JSON)),
        Target(name="message record", run=one_record, seeds=log, files=_LOG, raises=REMOTE,
               repair=repair_records, tokens=_LOG_TOKENS),
        Target(name="record scan", run=scanning, seeds=log, files=_LOG, repair=repair_records,
               tokens=_LOG_TOKENS),
        Target(name="properties", run=property_block, seeds=(PROPS, PROPS[:-1]),
               files=files_of(properties), tokens=(b"\2TAGS\1", b"\2KEYS\1", b"\2DELAY\1+1")),
        Target(name="message id", run=message_id, files=files_of(hosts), raises=REMOTE,
               seeds=(hosts.encode_message_id(HOST, 5).encode(),), tokens=(b" ", b"\n", b"0x")),
        Target(name="host", run=host, seeds=(b"\x7f\0\0\1\0\0\0\5", b"\0" * 20),
               files=files_of(hosts), raises=REMOTE),
        Target(name="checkpoint", run=checkpoint_file, seeds=(b"\0" * 4096,),
               files=files_of(checkpoint), raises=REMOTE),
        Target(name="consume queue units", run=queue_units, seeds=(_UNITS,), raises=REMOTE,
               files=files_of(consume_queue)),
        Target(name="index header, slots, units", run=index_parts, seeds=(_INDEX_SEED,),
               files=files_of(index_file), raises=REMOTE),
    )  # fmt: skip
