"""The fuzzer's targets in DLedger's part of `wire`: frames, bodies, entries, small files."""

from __future__ import annotations

import json
import pathlib
import struct

import msgspec
from entry_kit import encode_entry
from fuzz_engine import Target
from fuzz_wire import files_of

from wire import buffer
from wire.dledger import entry as dledger_entry
from wire.dledger import files as dledger_files
from wire.dledger import push_rpc, rpc, scan
from wire.dledger.codes import RequestCode
from wire.errors import IncompleteData, RemoteProtocolError
from wire.files.scanned import Stop
from wire.remoting import frame as remoting
from wire.remoting import header, tolerant_json
from wire.remoting.tolerant_json import Int, Long

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "dledger"
SPOKEN = tuple(code for code in RequestCode if rpc.request_code(code) is code)
REMOTE = (RemoteProtocolError,)


def golden_frames(scenario: str, kind: str = "") -> list[tuple[str, bytes]]:
    """Request's name and one frame of each kind in a recorded scenario."""
    lines = (GOLDEN / f"{scenario}.ndjson").read_text().split("\n")[1:]
    rows = [json.loads(line) for line in lines if line]
    kinds = {(row["name"], row["kind"], row.get("type")): row["frame"] for row in rows}
    found = [(key, frame.encode("latin-1")) for key, frame in kinds.items()]
    return [(key[0], frame) for key, frame in found if kind in key[1]]


# ---- frames ----


def frames(data: bytes) -> object:
    """All at once, and byte by byte: the same frames; each is written and read again alike."""
    whole = _frames([data])
    assert whole == _frames([data[at : at + 1] for at in range(len(data))])
    for frame in whole[0]:
        again, error = _frames([remoting.encode_frame(frame.header, frame.body)])
        assert not error
        assert again[0].body == frame.body
        assert again[0].header == frame.header or frame.header.language is None
    return whole[1] or None


class _Fields(msgspec.Struct, frozen=True, rename="camel"):
    """Of each kind that extFields have, one of them needed."""

    broker_name: str
    broker_id: Long = 0
    queue_id: Int | None = None
    compressed: bool = False


def ext_fields(data: bytes) -> object:
    """Of a binary header: what is read is written, and read again alike."""
    found, _ = header.decode_header(1, data)
    fields = header.read_fields(found, _Fields)
    written = header.Header(ext_fields=header.write_fields(fields))
    assert header.read_fields(written, _Fields) == fields
    return None


def _frames(chunks: list[bytes]) -> tuple[list[remoting.Frame], str]:
    decoder = remoting.Decoder()
    found: list[remoting.Frame] = []
    try:
        for chunk in chunks:
            decoder.receive_data(chunk)
            while not isinstance(frame := decoder.next_frame(), buffer.NeedData):
                found.append(frame)
    except RemoteProtocolError as error:
        return found, str(error)
    return found, ""


def repair_lengths(data: bytearray) -> None:
    """Make one frame of the bytes: both lengths fit, if there is a header to be seen."""
    if len(data) < 8:
        return
    header_end = data.find(b"}", 8) + 1 or len(data)
    data[0:4] = (len(data) - 4).to_bytes(4)
    data[5:8] = (header_end - 8).to_bytes(3)


# ---- bodies ----


def requests(data: bytes) -> object:
    """The first byte says which request; what is read is written and read again alike."""
    code = SPOKEN[data[0] % len(SPOKEN)] if data else SPOKEN[0]
    found, loose = rpc.decode_request(code, data[1:])
    assert rpc.decode_request(code, rpc.encode_body(found)) == (found, False)
    if isinstance(found, rpc.PushEntryRequest):
        assert found.count == len(found.entries)
    return loose or None


def responses(data: bytes) -> object:
    code = SPOKEN[data[0] % len(SPOKEN)] if data else SPOKEN[0]
    found, loose = rpc.decode_response(code, data[1:])
    assert rpc.decode_response(code, rpc.encode_body(found)) == (found, False)
    return loose or None


def _bodies(kind: str) -> tuple[bytes, ...]:
    """Golden bodies, each behind the byte that says of which request."""
    numbers = {code.name: number for number, code in enumerate(SPOKEN)}
    found = []
    for scenario in ("04-refusals", "09-leadership-transfer", "12-compare-steps-down"):
        for name, data in golden_frames(scenario, kind):
            decoder = remoting.Decoder()
            decoder.receive_data(data)
            frame = decoder.next_frame()
            assert isinstance(frame, remoting.Frame)
            if frame.body and name in numbers:
                found.append(bytes([numbers[name]]) + frame.body)
    return tuple(found)


# ---- entries ----


def entries(data: bytes) -> object:
    """The scan accepts exactly what the exact reading accepts, and never raises."""
    heads, scanned = scan.scan(data)
    at = 0
    for head in heads:
        entry = dledger_entry.decode_entry(data, at)
        assert (head.at, head.index, head.term, head.pos) == (
            at, entry.index, entry.term, entry.pos,
        )  # fmt: skip
        assert encode_entry(entry) == data[at : at + entry.size]
        at += entry.size
    assert scanned.end == at
    assert len(scan.scan(data, pos=0, index=0)[0]) <= len(heads)
    try:
        dledger_entry.decode_entry(data, at)
    except IncompleteData:
        assert scanned.stop in (Stop.INCOMPLETE, Stop.END, Stop.UNWRITTEN, Stop.BLANK)
    except RemoteProtocolError:
        assert scanned.stop in (Stop.CORRUPT, Stop.BLANK, Stop.UNWRITTEN)
    return scanned.stop


def repair_sizes(data: bytearray) -> None:
    """Make magic and both sizes right, as far as entries follow each other."""
    at = 0
    while at + 48 <= len(data):
        body_bytes = int.from_bytes(data[at + 44 : at + 48]) % 64
        data[at : at + 8] = struct.pack(">ii", 1, 48 + body_bytes)
        data[at + 44 : at + 48] = body_bytes.to_bytes(4)
        at += 48 + body_bytes


def index_records(data: bytes) -> object:
    records = dledger_entry.decode_index(data)
    assert dledger_entry.encode_index_records(records) == data[: len(records) * 32]
    return None


# ---- small files ----


def currterm(data: bytes) -> object:
    found = dledger_files.decode_currterm(data)
    if found.vote_leader is None:
        assert dledger_files.decode_currterm(dledger_files.encode_currterm(found)) == found
    return None


def ledger_checkpoint(data: bytes) -> object:
    found = dledger_files.decode_ledger_checkpoint(data)
    written = dledger_files.encode_ledger_checkpoint(found)
    assert dledger_files.decode_ledger_checkpoint(written) == found
    return None


_FRAMES = files_of(remoting, header, buffer, tolerant_json)
_BODIES = files_of(rpc, push_rpc, tolerant_json)
_ENTRIES = files_of(dledger_entry, scan)
_TOKENS = (
    b"null", b"[" * 40, b'"\\ud800"', b"1e999", b'"5"', b"\xed\xa0\x80", b'"TERM":', b'"type":1,',
    b'"later":{},', b'"body":"aGk"', b"9223372036854775808", b"-_",
)  # fmt: skip
_HEADERS = (
    header.Header(code=51004, opaque=7),
    header.Header(code=1, flag=1, remark="no", ext_fields={"a": "b"},
                    serialize_type=header.SerializeType.ROCKETMQ),
)  # fmt: skip

_FIELDS = header.encode_header(
    header.Header(ext_fields={"brokerName": "b", "brokerId": "-1", "compressed": "TRUE"},
                  serialize_type=header.SerializeType.ROCKETMQ)
)[1]  # fmt: skip


def targets() -> tuple[Target, ...]:
    """All of them."""
    store = (GOLDEN / "store-n0" / "data" / f"{4096:020d}").read_bytes()
    first = (GOLDEN / "store-n0" / "data" / f"{0:020d}").read_bytes()
    index = (GOLDEN / "store-n0" / "index" / f"{0:020d}").read_bytes()
    recorded = tuple(frame for _, frame in golden_frames("04-refusals"))
    framed = tuple(remoting.encode_frame(header, b"{}") for header in _HEADERS)
    files = ((GOLDEN / "store-n0" / "currterm").read_bytes(), b"#x\n\\u0041\\\n b: c\\n\n")
    return (
        Target(name="remoting frames", run=frames, seeds=framed + recorded,
               files=_FRAMES, tokens=_TOKENS, repair=repair_lengths, size_max=700),
        Target(name="remoting extFields", run=ext_fields, seeds=(_FIELDS,), files=_FRAMES,
               raises=REMOTE, tokens=(b"true", b"\0\7queueId\0\0\0\2-1", b"1e3", b"\0\0\0\1")),
        Target(name="dledger requests", run=requests, seeds=_bodies("request"), files=_BODIES,
               raises=REMOTE, tokens=_TOKENS),
        Target(name="dledger replies", run=responses, seeds=_bodies("reply"), files=_BODIES,
               raises=REMOTE, tokens=_TOKENS),
        Target(name="dledger entries", run=entries, seeds=(first[:300], first[3600:], store[:600]),
               files=_ENTRIES, repair=repair_sizes, tokens=(b"\xff" * 4, b"\0\0\0\1", b"\0" * 8)),
        Target(name="dledger index records", run=index_records, seeds=(index[:96],),
               files=_ENTRIES),
        Target(name="dledger currterm", run=currterm, seeds=files, files=files_of(dledger_files),
               raises=REMOTE, tokens=(b"currTerm=", b"voteLeader=", b"\\u00", b"\\\n")),
        Target(name="dledger checkpoint", run=ledger_checkpoint, raises=REMOTE,
               seeds=((GOLDEN / "store-n0" / "checkpoint").read_bytes(),),
               files=files_of(dledger_files), tokens=(b"endIndex=", b"committedIndex=", b"\\u00")),
    )  # fmt: skip
