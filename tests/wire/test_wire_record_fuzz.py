"""Records of any content round trip; damaged or arbitrary bytes decode or are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import IncompleteData, RemoteProtocolError
from wire.files.message_record import Record, body_crc, decode_record, encode_record
from wire.files.record_scan import scan, scan_heads
from wire.files.scanned import Stop
from wire.files.shown_record import ShownRecord, decode_shown

ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
hosts = st.tuples(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str), ints)


@st.composite
def records(draw: st.DrawFn) -> Record:
    born, store = draw(hosts), draw(hosts)
    topic = draw(texts)
    version = 2 if len(topic.encode()) > 127 else draw(st.sampled_from([1, 2]))
    body, properties = draw(st.binary(max_size=300)), draw(st.binary(max_size=300))
    host_bytes = sum(20 if ":" in host[0] else 8 for host in (born, store))
    return Record(
        version=version,
        body_crc=body_crc(body),
        queue_id=draw(ints),
        flag=draw(ints),
        queue_offset=draw(longs),
        physical_offset=draw(longs),
        sys_flag=draw(ints) & ~0x30 | 0x10 * (":" in born[0]) | 0x20 * (":" in store[0]),
        born_ts=draw(longs),
        born_host=born,
        store_ts=draw(longs),
        store_host=store,
        reconsume_times=draw(ints),
        prepared_transaction_offset=draw(longs),
        body=body,
        topic=topic,
        properties=properties,
        size=74 + host_bytes + version + len(body) + len(topic.encode()) + len(properties),
    )


def shown_of(record: Record) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in ShownRecord._fields)


@given(records(), st.binary(max_size=100))
def test_records_round_trip_with_anything_behind(record: Record, behind: bytes) -> None:
    data = encode_record(record)
    assert decode_record(data + behind) == record
    spans, _ = scan(data + behind)
    assert spans[0] == (0, record.size)
    assert decode_shown(behind + data + behind, len(behind), record.size) == shown_of(record)
    head = scan_heads(data + behind)[0][0]
    properties = record.properties_map
    assert (head.keys, head.uniq_key) == (
        properties.get("KEYS", ""),
        properties.get("UNIQ_KEY", ""),
    )
    assert head.store_ts == record.store_ts


@given(records(), st.data())
def test_damaged_records_decode_or_are_refused(record: Record, data: st.DataObject) -> None:
    damaged = bytearray(encode_record(record))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    spans, scanned = scan(damaged)
    heads, heads_scanned = scan_heads(damaged)
    assert len(heads) >= len(spans)
    for at, size in scan(damaged, check_crc=False)[0]:
        if (at, size) in spans:
            exact = decode_record(damaged, at)
            assert decode_shown(bytes(damaged), at, size) == shown_of(exact)
        else:
            with pytest.raises(RemoteProtocolError, match="body CRC is not"):
                decode_shown(bytes(damaged), at, size)
    try:
        decoded = decode_record(damaged)
    except IncompleteData:
        assert scanned.stop in (Stop.INCOMPLETE, Stop.END)
        assert heads_scanned.stop is scanned.stop
    except RemoteProtocolError:
        assert scanned.end == 0
    else:
        assert spans[0] == (0, decoded.size)
        assert heads[0].size == decoded.size


@given(st.binary(max_size=300))
def test_any_bytes_scan(data: bytes) -> None:
    for check_crc in (False, True):
        spans, scanned = scan(data, check_crc=check_crc)
        assert scanned.end == sum(size for _, size in spans)
    assert scan_heads(data)[1].end >= scanned.end
