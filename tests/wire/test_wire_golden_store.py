"""Every byte of the golden stores: read, compared with the manifest, and built again."""

import hashlib
from typing import Any

import attrs
import golden_classic as golden
import pytest

from wire.errors import IncompleteData, RemoteProtocolError
from wire.files.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from wire.files.commit_log import (
    Record,
    RecordEncoder,
    RecordHead,
    Stop,
    decode_message_id,
    decode_record,
    encode_blank,
    encode_record,
    fits_in_segment,
    has_queue_unit,
    queue_tags_code,
    scan,
    scan_heads,
    segment_name,
    segment_offset,
)
from wire.files.consume_queue import FILLER_UNIT, UNIT_BYTES, encode_unit
from wire.files.index_file import (
    IndexHeader,
    IndexUnit,
    decode_index_header,
    decode_index_unit,
    decode_slot,
    encode_index_header,
    encode_index_unit,
    encode_slot,
    index_file_bytes,
    index_keys,
    key_hash,
    seconds_since,
    slot_position,
    unit_position,
)
from wire.files.properties import encode_properties

QUEUE_FILE_BYTES, SLOTS, UNITS = 2000, 50, 200
stores = pytest.mark.parametrize(("version", "node"), golden.STORES)


def all_records(version: str, node: str) -> list[Record]:
    found = []
    for start, data in golden.segments(version, node).items():
        spans, _ = scan(data, physical_offset=start)
        found += [decode_record(data, pos) for pos, _ in spans]
    return found


def all_heads(version: str, node: str) -> list[RecordHead]:
    found = []
    for start, data in golden.segments(version, node).items():
        found += scan_heads(data, physical_offset=start)[0]
    return found


def in_manifests_words(record: Record) -> dict[str, Any]:
    return {
        "physicalOffset": record.physical_offset,
        "size": record.size,
        "magic": {1: "DAA320A7", 2: "DAA320AB"}[record.version],
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "flag": record.flag,
        "sysFlag": record.sys_flag,
        "bodyCRC": record.body_crc,
        "bodyLength": len(record.body),
        "bodySha256": hashlib.sha256(record.body).hexdigest(),
        "bornTimestamp": record.born_ts,
        "bornHost": "{}:{}".format(*record.born_host),
        "storeTimestamp": record.store_ts,
        "storeHost": "{}:{}".format(*record.store_host),
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "offsetMsgId": record.message_id,
        "properties": dict(record.properties_map),
    }


@stores
def test_scan_finds_the_manifests_records_and_blanks(version: str, node: str) -> None:
    segments = golden.segments(version, node)
    found: list[tuple[int, int, bool]] = []
    for start, data in segments.items():
        spans, scanned = scan(data, physical_offset=start)
        found += [(start + pos, size, False) for pos, size in spans]
        if start == max(segments):
            assert scanned.stop is Stop.UNWRITTEN
            assert start + scanned.end == golden.manifest(version)["end"]
        else:
            assert scanned.stop is Stop.BLANK
            found.append((start + scanned.end, scanned.blank_bytes, True))
            assert scanned.end + scanned.blank_bytes == len(data)
    wanted = [
        (r["physicalOffset"], r["size"], "blank" in r)
        for r in golden.manifest(version)["records"]
        if r["physicalOffset"] >= min(segments)
    ]
    assert found == wanted


@pytest.mark.checklist(37)
@stores
def test_records_decode_to_the_manifest(version: str, node: str) -> None:
    found = [in_manifests_words(record) for record in all_records(version, node)]
    wanted = [r for r in golden.manifest(version)["records"] if "topic" in r]
    assert len(found) > 5
    for record, want in zip(found, wanted[-len(found) :], strict=True):
        assert {key: record[key] for key in want} == want


@pytest.mark.checklist(37)
@stores
def test_records_are_encoded_byte_identical_three_ways(version: str, node: str) -> None:
    segments = golden.segments(version, node)
    for record in all_records(version, node):
        start = record.physical_offset - record.physical_offset % 65536
        at = record.physical_offset - start
        stored = segments[start][at : at + record.size]
        assert encode_record(record) == stored
        encoder = RecordEncoder(record.topic, record.born_host, record.store_host)
        out = bytearray(b"before")
        size = encoder.encode_into(
            out,
            record.body,
            queue_id=record.queue_id,
            queue_offset=record.queue_offset,
            physical_offset=record.physical_offset,
            store_ts=record.store_ts,
            born_ts=record.born_ts,
            properties=record.properties,
            flag=record.flag,
            sys_flag=record.sys_flag,
            reconsume_times=record.reconsume_times,
            prepared_transaction_offset=record.prepared_transaction_offset,
        )
        assert size == encoder.record_size(len(record.body), record.properties) == len(stored)
        assert bytes(out) == b"before" + stored
        # Pairs, because records of a batch have some names twice.
        pieces = record.properties.decode().removesuffix("\2").split("\2")
        pairs = [(name, value) for name, _, value in (piece.partition("\1") for piece in pieces)]
        block = encode_properties(pairs)
        assert (block if version >= "5" else block.removesuffix(b"\2")) == record.properties
        assert decode_message_id(record.message_id) == (record.store_host, record.physical_offset)


@pytest.mark.checklist(37)
@stores
def test_a_whole_file_is_built_again(version: str, node: str) -> None:
    records = {record.physical_offset: record for record in all_records(version, node)}
    for start, stored in golden.segments(version, node).items():
        built = bytearray()
        while (record := records.get(start + len(built))) is not None:
            assert fits_in_segment(record.size, len(stored) - len(built))
            built += encode_record(record)
        if stored[len(built) : len(built) + 8] != bytes(8):
            built += encode_blank(len(stored) - len(built))
        assert bytes(built.ljust(len(stored), b"\0")) == stored


def test_a_cut_record_is_incomplete_at_every_byte() -> None:
    data = golden.segments("5.3.3", "master")[0]
    size = decode_record(data).size
    for cut in range(size):
        with pytest.raises(IncompleteData) as caught:
            decode_record(data[:cut])
        assert 0 < caught.value.missing_bytes <= size - cut
        spans, scanned = scan(data, 0, cut, physical_offset=0)
        assert not spans
        assert scanned.stop is (Stop.INCOMPLETE if cut else Stop.END)
        assert scanned.missing_bytes == (caught.value.missing_bytes if cut else 0)
    assert scan(data, 0, size)[0] == [(0, size)]


@pytest.mark.parametrize("version", golden.VERSIONS)
def test_flipped_bits_decode_or_are_refused(version: str) -> None:
    data = golden.segments(version, "master")[0]
    first = decode_record(data)
    refused = 0
    for bit in range(first.size * 8):
        flipped = bytearray(data[: first.size])
        flipped[bit // 8] ^= 1 << bit % 8
        spans, scanned = scan(flipped)
        heads, _ = scan_heads(flipped)
        try:
            decode_record(flipped)
        except RemoteProtocolError as error:
            refused += 1
            incomplete = isinstance(error, IncompleteData)
            assert scanned.stop is (Stop.INCOMPLETE if incomplete else Stop.CORRUPT)
            assert not spans
        else:
            assert spans == [(0, first.size)]
            assert len(heads) == 1
    # Size, magic, CRC, body and the three lengths are covered; the other fields have no check.
    assert refused >= 8 * (4 + 4 + 4 + 4 + 1 + 1 + 2)


@stores
def test_heads_say_what_the_records_say(version: str, node: str) -> None:
    records = all_records(version, node)
    heads = all_heads(version, node)
    assert len(heads) == len(records)
    for head, record in zip(heads, records, strict=True):
        properties = record.properties_map
        assert head == RecordHead(
            record.physical_offset,
            record.size,
            record.topic,
            record.queue_id,
            record.queue_offset,
            record.sys_flag,
            record.store_ts,
            queue_tags_code(record.topic, properties, record.store_ts),
            properties.get("KEYS", ""),
            properties.get("UNIQ_KEY", ""),
            properties.get("TAGS", ""),
        )


@pytest.mark.checklist(41)
@stores
def test_consume_queues_are_built_again(version: str, node: str) -> None:
    built: dict[tuple[str, int], bytearray] = {}
    for head in all_heads(version, node):
        if not has_queue_unit(head.sys_flag):
            continue
        queue = built.setdefault((head.topic, head.queue_id), bytearray())
        queue += FILLER_UNIT * (head.queue_offset - len(queue) // UNIT_BYTES)
        assert len(queue) == UNIT_BYTES * head.queue_offset
        queue += encode_unit(head.physical_offset, head.size, head.tags_code)
    folder = golden.ROOT / version / node / "consumequeue"
    stored = {(p.parts[-3], int(p.parts[-2])): p.read_bytes() for p in folder.glob("*/*/*")}
    assert stored.keys() == built.keys()
    for queue_name, queue in built.items():
        assert bytes(queue.ljust(QUEUE_FILE_BYTES, b"\0")) == stored[queue_name]


def build_index(heads: list[RecordHead]) -> bytes:
    data = bytearray(index_file_bytes(SLOTS, UNITS))
    header = IndexHeader()
    for head in heads:
        for key in index_keys(head.topic, head.keys, head.uniq_key):
            position = slot_position(key_hash(key) % SLOTS)
            if header.units_next == 1:
                header = attrs.evolve(
                    header, begin_ts=head.store_ts, begin_offset=head.physical_offset
                )
            previous = decode_slot(data, position)
            seconds = seconds_since(header.begin_ts, head.store_ts)
            unit = IndexUnit(key_hash(key), head.physical_offset, seconds, previous)
            at = unit_position(header.units_next, SLOTS)
            data[at : at + 20] = encode_index_unit(unit)
            assert decode_index_unit(data, at) == unit
            data[position : position + 4] = encode_slot(header.units_next)
            header = attrs.evolve(
                header,
                end_ts=head.store_ts,
                end_offset=head.physical_offset,
                slots_used=header.slots_used + (previous == 0),
                units_next=header.units_next + 1,
            )
    data[:40] = encode_index_header(header)
    assert decode_index_header(data) == header
    return bytes(data)


@pytest.mark.checklist(41)
@stores
def test_the_index_file_is_built_again(version: str, node: str) -> None:
    (path,) = (golden.ROOT / version / node / "index").iterdir()
    assert build_index(all_heads(version, node)) == path.read_bytes()


@pytest.mark.checklist(43)
@pytest.mark.parametrize(
    ("version", "node"),
    [*golden.STORES, ("4.9.7", "slave"), ("4.9.7", "slave-running"), ("5.3.3", "slave-running")],
)
def test_checkpoints(version: str, node: str) -> None:
    data = (golden.ROOT / version / node / "checkpoint").read_bytes()
    found = decode_checkpoint(data)
    assert encode_checkpoint(found) == data
    if node != "slave-running":
        last = golden.manifest(version)["records"][-1]["storeTimestamp"]
        assert found == Checkpoint(log_ts=last, queue_ts=last)


@pytest.mark.checklist(37)
def test_every_file_name_is_its_offset() -> None:
    for version, node in golden.STORES:
        folder = golden.ROOT / version / node / "commitlog"
        for path in folder.iterdir():
            offset = segment_offset(path.name)
            assert offset is not None
            assert offset % 65536 == 0
            assert segment_name(offset) == path.name


@pytest.mark.parametrize("version", golden.VERSIONS)
def test_every_part_of_the_session_is_in_the_golden_store(version: str) -> None:
    """The samples do cover batches, transactions, compression, delay and unicode."""
    records = all_records(version, "master")
    flags = {record.sys_flag for record in records}
    topics = {record.topic for record in records}
    assert {0, 8} <= flags
    assert any(flag & 1 for flag in flags)
    assert {"RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"} <= topics
    assert "SCHEDULE_TOPIC_XXXX" in topics
    assert any(not record.properties.isascii() for record in records)
    assert any("TAGS" not in record.properties_map for record in records)
    committed = [record for record in records if record.sys_flag & 0xC == 8]
    halves = {r.physical_offset for r in records if r.topic == "RMQ_SYS_TRANS_HALF_TOPIC"}
    assert all(record.prepared_transaction_offset in halves for record in committed)


def test_of_two_equal_names_the_later_counts() -> None:
    """Batches of 5.3.3 hold their own UNIQ_KEY, then the whole batch's, which is indexed."""
    batch = [r for r in all_records("5.3.3", "master") if r.properties.count(b"UNIQ_KEY") == 2]
    assert len(batch) == 3
    assert len({record.properties_map["UNIQ_KEY"] for record in batch}) == 1
    heads = {head.physical_offset: head for head in all_heads("5.3.3", "master")}
    for record in batch:
        later = record.properties.rpartition(b"UNIQ_KEY\1")[2].partition(b"\2")[0].decode()
        assert record.properties_map["UNIQ_KEY"] == later
        assert heads[record.physical_offset].uniq_key == later
