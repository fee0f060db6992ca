"""Frames of the API socket: documented bytes, round trips, limits, junk."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.api import frames
from wire.api.frames import NUMBER_MAX
from wire.errors import LocalProtocolError, RemoteProtocolError

names = st.text(min_size=1, max_size=255)
ids = st.integers(0, frames.ID_MAX)
positions = st.integers(0, frames.POSITION_MAX)
numbers = st.integers(0, NUMBER_MAX)
granted = st.integers(1, frames.CREDIT_MAX)
pairs = st.lists(st.tuples(st.text(), st.text()), max_size=3).map(tuple)
texts = st.lists(st.text(), max_size=3).map(tuple)
int64s = st.integers(-(2**63), 2**63 - 1)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(st.text(), values, max_size=4)
new_records = st.binary(max_size=300) | st.builds(
    frames.NewMessage,
    body=st.binary(max_size=300),
    topic=st.none() | names,
    tags=st.text(),
    keys=texts,
    properties=pairs,
    queue_id=st.integers(0, 2**31 - 1),
)
stored = st.builds(
    frames.StoredRecord,
    position=positions,
    next_position=positions,
    topic=st.text(),
    queue_id=int64s,
    queue_offset=int64s,
    body=st.binary(max_size=300),
    tags=st.text(),
    keys=texts,
    properties=pairs,
    store_timestamp_ms=int64s,
    born_timestamp_ms=int64s,
)
requests = st.one_of(
    st.builds(frames.Hello, id=ids, version=st.integers(1, 65_535), name=names),
    st.builds(
        frames.Append,
        id=ids,
        group=names,
        records=st.lists(new_records, min_size=1, max_size=5).map(tuple),
    ),
    st.builds(
        frames.Read,
        id=ids,
        group=names,
        start=positions,
        max_bytes=st.integers(1, frames.READ_BYTES_MAX),
        fresh=st.booleans(),
    ),
    st.builds(
        frames.Tail,
        id=ids,
        group=names,
        start=st.none() | positions,
        max_bytes=st.integers(1, frames.READ_BYTES_MAX),
        credit_bytes=granted,
    ),
    st.builds(frames.Grant, id=ids, credit=granted),
    st.builds(frames.Cancel, id=ids),
    st.builds(frames.GetOffsets, id=ids, group=names),
    st.builds(frames.WatchOffsets, id=ids, group=names),
    st.builds(frames.GetStatus, id=ids),
    st.builds(frames.GetTree, id=ids),
    st.builds(frames.TailEvents, id=ids, credit_lines=granted),
    st.builds(frames.Promote, id=ids, group=names, node=st.none() | names, force=st.booleans()),
    st.builds(frames.Stop, id=ids),
    st.builds(frames.GetGroup, id=ids, group=names),
    st.builds(frames.WatchGroup, id=ids, group=names),
    st.builds(
        frames.Fence,
        id=ids,
        group=names,
        number=st.integers(1, NUMBER_MAX),
        on=st.booleans(),
        token=st.integers(0, frames.POSITION_MAX),
        by=names,
        master=names,
        again=st.booleans(),
        kept=st.booleans(),
        force=st.booleans(),
    ),
    st.builds(
        frames.Record,
        id=ids,
        group=names,
        number=st.integers(1, NUMBER_MAX),
        master=names,
        force=st.booleans(),
    ),
    st.builds(frames.Resync, id=ids, group=names),
    st.builds(frames.Transfer, id=ids, group=names, node=st.none() | names),
    st.builds(frames.Repair, id=ids, group=names, source=st.none() | names),
    st.builds(frames.GetRange, id=ids, group=names, start=positions),
)
answers = st.one_of(
    st.builds(
        frames.Welcome,
        id=ids,
        version=int64s,
        cluster=st.text(),
        node=st.text(),
        boot=int64s,
        groups=texts,
        frame_bytes_max=int64s,
        records_per_append_max=int64s,
        in_flight_requests_max=int64s,
        in_flight_bytes_max=int64s,
    ),
    st.builds(
        frames.Appended,
        id=ids,
        first=positions,
        last=positions,
        next=positions,
        count=positions,
        copies=positions,
        durability=st.text(),
    ),
    st.builds(
        frames.Batch,
        id=ids,
        records=st.lists(stored, max_size=3).map(tuple),
        next=positions,
        acknowledged=positions,
        end=positions,
        lag_bytes=positions,
        cost_bytes=positions,
    ),
    st.builds(
        frames.Stored,
        id=ids,
        start=positions,
        data=st.binary(max_size=300),
        entries=st.booleans(),
        skips_empty=st.booleans(),
        next=positions,
        acknowledged=positions,
        end=positions,
        lag_bytes=positions,
        cost_bytes=positions,
    ),
    st.builds(
        frames.Offsets,
        id=ids,
        min=positions,
        written=positions,
        synced=positions,
        acknowledged=positions,
        master=st.none() | st.text(),
    ),
    st.builds(
        frames.Group,
        id=ids,
        group=st.text(),
        cluster=st.text(),
        node=st.text(),
        boot=numbers,
        role=st.text(),
        state=st.text(),
        reason=st.text(),
        opened=st.booleans(),
        number=numbers,
        master=st.text(),
        history=st.lists(
            st.builds(
                frames.Epoch, number=numbers, token=positions, master=st.text(), start=positions
            ),
            max_size=3,
        ).map(tuple),
        min=positions,
        written=positions,
        synced=positions,
        acknowledged=positions,
        high_water=positions,
        unanswered=positions,
    ),
    st.builds(frames.Resynced, id=ids, value=objects),
    st.builds(frames.Transferred, id=ids, value=objects),
    st.builds(frames.Repaired, id=ids, value=objects),
    st.builds(
        frames.Range,
        id=ids,
        start=positions,
        data=st.binary(min_size=1, max_size=100),
        digest=st.integers(0, 2**32 - 1),
    ),
    st.builds(frames.Status, id=ids, value=objects),
    st.builds(frames.Tree, id=ids, value=objects),
    st.builds(frames.Events, id=ids, lines=texts, missed=positions),
    st.builds(frames.Promoted, id=ids, value=objects),
    st.builds(frames.Stopping, id=ids),
    st.builds(frames.Ended, id=ids),
    st.builds(
        frames.Failed,
        id=st.none() | ids,
        error=names,
        message=st.text(),
        hint=st.none() | st.text(),
        first=st.none() | positions,
        last=st.none() | positions,
    ),
)


@given(requests, st.booleans())
def test_requests_survive(frame: frames.Request, text: bool) -> None:
    data = frames.encode(frame, text=text)
    assert isinstance(data, str) == text
    assert frames.decode_request(data) == frame


@given(answers, st.booleans())
def test_answers_survive(frame: frames.Answer, text: bool) -> None:
    assert frames.decode_answer(frames.encode(frame, text=text)) == frame


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_junk_is_the_peers_error(data: bytes | str) -> None:
    for decode in (frames.decode_request, frames.decode_answer):
        try:
            decode(data)
        except RemoteProtocolError:
            continue


@given(requests | answers, st.data())
def test_damaged_frames_decode_or_are_the_peers_error(
    frame: frames.Request | frames.Answer, data: st.DataObject
) -> None:
    whole = frames.encode(frame)
    assert isinstance(whole, bytes)
    place = data.draw(st.integers(0, len(whole) - 1))
    damaged = [
        whole[:place],
        whole[:place] + bytes([data.draw(st.integers(0, 255))]) + whole[place + 1 :],
        whole + whole[:place],
    ]
    for each in damaged:
        for decode in (frames.decode_request, frames.decode_answer):
            try:
                decode(each)
            except RemoteProtocolError:
                continue


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        "",
        b"\xc1",
        b"\x81\xa4type",
        b"\x81\xa4type\xa4stop",
        "null",
        "[]",
        "{}",
        '{"type":"stop"}',
        '{"type":"stop","id":-1}',
        '{"type":"stop","id":9007199254740992}',
        '{"type":"stop","id":"1"}',
        '{"type":"welcome","id":1}',
        '{"type":"read","id":1,"group":"","start":0,"max_bytes":1}',
        '{"type":"read","id":1,"group":"g","start":-1,"max_bytes":1}',
        '{"type":"read","id":1,"group":"g","start":0,"max_bytes":0}',
        '{"type":"read","id":1,"group":"g","start":0,"max_bytes":1048577}',
        '{"type":"append","id":1,"group":"g","records":[]}',
        '{"type":"append","id":1,"group":"g","records":["not base64!"]}',
        '{"type":"append","id":1,"group":"g","records":[["YQ==",""]]}',
        '{"type":"append","id":1,"group":"g","records":[["YQ==","t","",[],[],-1]]}',
        '{"type":"grant","id":1,"credit":0}',
        '{"type":"fence","id":1,"group":"g","on":true,"number":6917529027641081857}',
        '{"type":"record","id":1,"group":"g","master":"n","number":6917529027641081857}',
        "[" * 1_000_000,
        b"\x91" * 1_000_000,
        b"\x82\xa4type\xa4stop\xa1x" + b"\x91" * 1_000_000,
        '{"type":"stop","x":' + "[" * 1_000_000,
        b"\x82\xa4type\xa4stop\xa2id\xc0",
        b"\x83\xa4type\xa5hello\xa2id\x01\xa4name\xa2\xff\xff",
    ],
    ids=lambda junk: repr(junk[:60]),
)
def test_a_request_that_breaks_the_format_is_refused(junk: bytes | str) -> None:
    with pytest.raises(RemoteProtocolError, match="the request cannot be decoded"):
        frames.decode_request(junk)


def test_too_many_records_are_refused() -> None:
    frame = frames.Append(id=1, group="g", records=(b"",) * frames.RECORDS_PER_APPEND_MAX)
    assert frames.decode_request(frames.encode(frame)) == frame
    more = frames.Append(id=1, group="g", records=(b"",) * (frames.RECORDS_PER_APPEND_MAX + 1))
    with pytest.raises(RemoteProtocolError, match="length <= 16384"):
        frames.decode_request(frames.encode(more))


@pytest.mark.parametrize("text", [False, True])
def test_frames_are_bounded_both_ways(text: bool) -> None:
    body = 4 << 20
    frame = frames.Append(id=1, group="g", records=(bytes(body),))
    assert frames.decode_request(frames.encode(frame, text=text)) == frame, (
        "upstream's largest fits"
    )
    with pytest.raises(LocalProtocolError, match=r"Append of .* is above"):
        frames.encode(frames.Append(id=1, group="g", records=(bytes(body),) * 2), text=text)
    large: Any = "x" if text else b"x"
    for decode in (frames.decode_request, frames.decode_answer):
        with pytest.raises(RemoteProtocolError, match="at most"):
            decode(large * (frames.FRAME_BYTES_MAX + 1))


@pytest.mark.parametrize(
    ("value", "text"),
    [(object(), False), (object(), True), ("\ud800", False), ("\ud800", True), (2**70, False)],
)
def test_what_cannot_be_encoded_is_our_error(value: object, text: bool) -> None:
    with pytest.raises(LocalProtocolError, match="cannot encode Status"):
        frames.encode(frames.Status(id=1, value={"x": value}), text=text)


def test_the_bytes_are_as_documented() -> None:
    frame = frames.Append(id=7, group="orders", records=(b"hello",))
    assert frames.encode(frame) == (
        b"\x84" + b"\xa4type" + b"\xa6append" + b"\xa2id" + b"\x07" + b"\xa5group" + b"\xa6orders"
        b"\xa7records" + b"\x91" + b"\xc4\x05hello"
    )


def test_the_json_is_as_documented() -> None:
    line = next(
        line.strip("`") for line in (frames.__doc__ or "").splitlines() if line.startswith("`{")
    )
    frame = frames.decode_request(line)
    message = frames.NewMessage(b"body", "topic", "tag", ("key",), (("a", "b"),), 0)
    assert frame == frames.Append(id=7, group="orders", records=(b"hello", message))
    assert json.loads(frames.encode(frame, text=True)) == json.loads(line)


def test_the_tail_of_a_message_may_be_left_out() -> None:
    frame = frames.decode_request('{"type":"append","id":1,"group":"g","records":[["YQ=="]]}')
    assert frame == frames.Append(id=1, group="g", records=(frames.NewMessage(b"a"),))


def test_unknown_keys_are_skipped() -> None:
    frame = frames.decode_request('{"type":"stop","later":[{"x":1}],"id":1}')
    assert frame == frames.Stop(id=1)


def _tag(cls: type[msgspec.Struct]) -> str:
    return str(cls.__struct_config__.tag)


def test_every_frame_is_documented() -> None:
    rows = [line for line in (frames.__doc__ or "").splitlines() if line.startswith("| ")]
    first_cells = {
        name.strip() for row in rows for name in row.split("|")[1].split(",") if name.strip()
    }
    for cls in frames.Request.__args__:
        assert _tag(cls) in first_cells, f"{cls.__name__} is missing in the table of requests"
    text = "\n".join(rows) + (frames.__doc__ or "")
    for cls in frames.Answer.__args__:
        assert _tag(cls) in text, f"{cls.__name__} is not described"
