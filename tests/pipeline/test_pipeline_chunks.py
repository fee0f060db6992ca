"""What one call finds is what the wire's own readers find, record by record, field by field."""

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entry_kit import encode_entry, new_entry
from hypothesis import given
from hypothesis import strategies as st
from sources_kit import GOLDEN, HOST

from actors.pipeline.sources.cells import time_cells
from actors.pipeline.sources.entry_chunk import ENTRY_COLUMNS, Behind, find_entries
from actors.pipeline.sources.message_chunk import MESSAGE_COLUMNS, find_messages
from wire.dledger.entry import (
    decode_entry,
)
from wire.dledger.entry import encode_blank as ledger_blank
from wire.dledger.scan import scan as scan_ledger
from wire.files.commit_log import RecordEncoder, decode_record, encode_blank, scan
from wire.files.message_record import RECORD_BYTES_MAX
from wire.files.properties import decode_properties
from wire.files.scanned import Stop

SEGMENTS = sorted(GOLDEN.glob("classic/*/*/commitlog/*"))
LEDGERS = sorted(GOLDEN.glob("dledger/store-*/data/*"))
IPV6 = ("2001:db8::1", 10911)


def small_log() -> bytes:
    """Records of every layout: both versions, hosts of both kinds, with and without a body."""
    out = bytearray()
    for born in (HOST, IPV6):
        for store in (HOST, IPV6):
            for topic in ("t", "länger" * 30):
                encoder = RecordEncoder(topic, born, store)
                for body in (b"", b"x", b"body" * 20):
                    encoder.encode_into(
                        out, body, queue_id=1, queue_offset=2, physical_offset=1000 + len(out),
                        store_ts=3, born_ts=4, properties=b"TAGS\1a\2KEYS\1k1 k2\2", flag=5,
                        sys_flag=8, reconsume_times=6, prepared_transaction_offset=7,
                    )  # fmt: skip
    return bytes(out)


def small_ledger() -> bytes:
    out, terms = bytearray(), (1, 1, 1, 3, 3, 7)
    for number, term in enumerate(terms):
        body = b"b" * (number * 7 % 5)
        out += encode_entry(new_entry(index=40 + number, term=term, pos=1000 + len(out), body=body))
    return bytes(out)


LOG, LEDGER = small_log(), small_ledger()


def check_messages(data: bytes, position: int) -> int:
    """Against `scan`; returns how many records there are."""
    chunk = find_messages(data, position, crc=False, size_max=RECORD_BYTES_MAX)
    wanted, scanned = scan(data, physical_offset=position, check_crc=False)
    assert list(zip(chunk.starts.tolist(), chunk.sizes.tolist(), strict=True)) == wanted
    assert chunk.scanned == scanned
    return len(wanted)


def check_entries(data: bytes, position: int, behind: Behind) -> int:
    chunk = find_entries(data, position, behind)
    index = None if behind.index is None else behind.index + 1
    wanted, scanned = scan_ledger(data, pos=position, index=index, term=behind.term)
    assert chunk.starts.tolist() == [head.at for head in wanted]
    assert chunk.sizes.tolist() == [head.size for head in wanted]
    assert chunk.indexes.tolist() == [head.index for head in wanted]
    assert chunk.terms.tolist() == [head.term for head in wanted]
    assert chunk.scanned == scanned
    return len(wanted)


@pytest.mark.parametrize("path", SEGMENTS, ids=lambda p: "-".join(p.parts[-4:]))
def test_golden_segments_hold_what_the_scan_finds(path: Path) -> None:
    assert check_messages(path.read_bytes(), int(path.name)) > 0


@pytest.mark.parametrize("path", LEDGERS, ids=lambda p: "-".join(p.parts[-3:]))
def test_golden_ledgers_hold_what_the_scan_finds(path: Path) -> None:
    assert check_entries(path.read_bytes(), int(path.name), Behind()) > 0


@given(
    cut=st.integers(0, len(LOG)),
    at=st.integers(0, len(LOG) - 1),
    mask=st.integers(0, 255),
    behind=st.sampled_from((b"", bytes(7), bytes(100), b"\xff" * 120, encode_blank(500))),
)
def test_damaged_messages_are_found_as_the_scan_finds_them(
    cut: int, at: int, mask: int, behind: bytes
) -> None:
    data = bytearray(LOG)
    data[at] ^= mask
    check_messages(bytes(data[:cut]) + behind, 1000)


@given(
    cut=st.integers(0, len(LEDGER)),
    at=st.integers(0, len(LEDGER) - 1),
    mask=st.integers(0, 255),
    behind=st.sampled_from((b"", bytes(7), bytes(100), ledger_blank(500))),
    follows=st.sampled_from((Behind(), Behind(39, 1), Behind(38, 1), Behind(39, 2))),
)
def test_damaged_entries_are_found_as_the_scan_finds_them(
    cut: int, at: int, mask: int, behind: bytes, follows: Behind
) -> None:
    data = bytearray(LEDGER)
    data[at] ^= mask
    check_entries(bytes(data[:cut]) + behind, 1000, follows)


def test_a_wrong_crc_marks_its_record_and_no_other() -> None:
    at = find_messages(LOG, 1000, crc=False, size_max=1 << 20).body_at
    data = bytearray(LOG)
    data[int(at[2])] ^= 1
    chunk = find_messages(bytes(data), 1000, crc=True, size_max=1 << 20)
    assert chunk.wrong is not None
    assert np.flatnonzero(chunk.wrong).tolist() == [2]
    assert chunk.scanned.stop is Stop.END
    damage = MESSAGE_COLUMNS["damage"][1](chunk, "n0").to_pylist()
    assert [text for text in damage if text] == ["body CRC is wrong"]
    assert damage[2] == "body CRC is wrong"
    assert find_messages(LOG, 1000, crc=True, size_max=1 << 20).wrong is None


def message_row(record: Any, data: bytes, node: str) -> dict[str, Any]:
    """What the columns should be, from the wire's own reading of one record."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    by_name = decode_properties(record.properties)
    texts = [
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for host, port in (record.born_host, record.store_host)
    ]
    return {
        "node": node, "offset": record.physical_offset, "size": record.size, "damage": None,
        "topic": record.topic, "queue_id": record.queue_id, "queue_offset": record.queue_offset,
        "store_time": epoch + timedelta(milliseconds=record.store_ts),
        "born_time": epoch + timedelta(milliseconds=record.born_ts),
        "born_host": texts[0], "store_host": texts[1], "flag": record.flag,
        "sys_flag": record.sys_flag, "reconsume_times": record.reconsume_times,
        "prepared_offset": record.prepared_transaction_offset, "body_crc": record.body_crc,
        "properties": record.properties.decode("utf-8", "replace"), "body": record.body,
        "property_map": list(by_name.items()), "tags": by_name.get("TAGS"),
        "keys": by_name["KEYS"].split(" ") if "KEYS" in by_name else None,
        "record": data, "record_crc": zlib.crc32(data),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "position"),
    [(LOG, 1000), *((path.read_bytes(), int(path.name)) for path in SEGMENTS[:4])],
)
def test_message_columns_are_what_one_record_says(data: bytes, position: int) -> None:
    chunk = find_messages(data, position, crc=True, size_max=RECORD_BYTES_MAX)
    made = {name: maker(chunk, "n0") for name, (_, maker) in MESSAGE_COLUMNS.items()}
    for name, (kind, _) in MESSAGE_COLUMNS.items():
        assert made[name].type == kind, name
        made[name].validate(full=True)
    for row, (start, size) in enumerate(zip(chunk.starts, chunk.sizes, strict=True)):
        wanted = message_row(decode_record(data, int(start)), data[start : start + size], "n0")
        assert {name: cells[row].as_py() for name, cells in made.items()} == wanted


def test_entry_columns_are_what_one_entry_says() -> None:
    chunk = find_entries(LEDGER, 1000, Behind())
    made = {name: maker(chunk, "n0") for name, (_, maker) in ENTRY_COLUMNS.items()}
    for row, (start, size) in enumerate(zip(chunk.starts, chunk.sizes, strict=True)):
        entry, data = decode_entry(LEDGER, int(start)), LEDGER[start : start + size]
        assert {name: cells[row].as_py() for name, cells in made.items()} == {
            "node": "n0", "offset": entry.pos, "size": entry.size, "damage": None,
            "index": entry.index, "term": entry.term, "body": entry.body, "record": data,
            "record_crc": zlib.crc32(data),
        }  # fmt: skip
    assert len(chunk.starts) == 6


def test_golden_records_are_as_rocketmq_printed_them() -> None:
    """The manifest holds what RocketMQ's own decoder said of each record."""
    manifest = json.loads((GOLDEN / "classic/5.3.3/manifest.json").read_text())
    wanted = [each for each in manifest["records"] if "topic" in each]
    keys = ("physicalOffset", "topic", "queueId", "size", "bornHost", "storeHost", "bodyCRC")
    found = []
    for path in sorted((GOLDEN / "classic/5.3.3/master/commitlog").iterdir()):
        chunk = find_messages(path.read_bytes(), int(path.name), crc=True, size_max=1 << 22)
        names = ("offset", "topic", "queue_id", "size", "born_host", "store_host", "body_crc")
        made = [MESSAGE_COLUMNS[name][1](chunk, "").to_pylist() for name in names]
        found += list(zip(*made, strict=True))
    assert found == [tuple(each[key] for key in keys) for each in wanted]


def test_text_that_is_no_utf8_is_shown_with_replacements() -> None:
    data = bytearray(LOG)
    chunk = find_messages(LOG, 1000, crc=False, size_max=1 << 20)
    data[int(chunk.topic_at[0])] = 0xFF
    spoilt = find_messages(bytes(data), 1000, crc=False, size_max=1 << 20)
    assert MESSAGE_COLUMNS["topic"][1](spoilt, "").to_pylist()[0] == "�"


def test_times_beyond_sparks_clock_are_null() -> None:
    cells = time_cells(np.array([0, 2**62, -(2**63), 5], np.int64))
    assert cells.is_valid().to_pylist() == [True, False, False, True]
