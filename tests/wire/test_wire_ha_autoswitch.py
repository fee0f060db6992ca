"""Auto-switch HA's messages: Java's bytes, the examples of autoswitch-ha.md 2, every cutting, and
what is refused.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable

import golden_autoswitch as golden
import pytest
from golden_classic import three_ways
from hypothesis import given
from hypothesis import strategies as st

from wire.buffer import NEED_DATA, NeedData
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.files.epoch_file import EPOCH_MAX, EpochStart
from wire.ha.autoswitch import (
    ADDRESS_BYTES_MAX,
    ANSWER_BYTES,
    ANSWER_EPOCHS_MAX,
    BROKER_ID_MAX,
    EPOCH_BYTES,
    FRAME_BODY_MAX,
    FRAME_HEADER_BYTES,
    MASTER_HEADER,
    EpochFrameStarted,
    HandshakeAnswer,
    HandshakeRequest,
    MasterMessage,
    SlaveDecoder,
    SlaveMessage,
    encode_answer,
    encode_frame_header,
    encode_report,
    encode_request,
)
from wire.ha.frames import (
    OFFSET_MAX,
    RECEIVE_LIMIT_BYTES,
    FrameData,
    FrameDecoder,
    FrameEnded,
    FrameMeter,
    Report,
)

Whole = HandshakeAnswer | tuple[EpochFrameStarted, bytes]


def read_slave(chunks: Iterable[bytes], decoder: SlaveDecoder | None = None) -> list[SlaveMessage]:
    decoder = decoder or SlaveDecoder()
    found: list[SlaveMessage] = []
    for chunk in chunks:
        decoder.receive_data(chunk)
        while (message := decoder.next_message()) is not NEED_DATA:
            assert not isinstance(message, NeedData)
            found.append(message)
    return found


def read_master(chunks: Iterable[bytes]) -> list[Whole]:
    """A master's answers, and its frames with their bodies."""
    decoder: FrameDecoder[MasterMessage] = FrameDecoder(MASTER_HEADER)
    found: list[Whole] = []
    body, header = b"", None
    for chunk in chunks:
        decoder.receive_data(chunk)
        while (event := decoder.next_event()) is not NEED_DATA:
            match event:
                case HandshakeAnswer():
                    assert header is None
                    found.append(event)
                case EpochFrameStarted():
                    header, body = event, b""
                case FrameData():
                    assert header is not None
                    assert event.offset == header.offset + len(body)
                    body += event.data
                case FrameEnded():
                    assert header is not None
                    assert event.offset_end == header.offset + len(body)
                    assert len(body) == header.size
                    found.append((header, body))
                    header = None
                case NeedData():
                    raise AssertionError
    return found


def encode_slave(message: SlaveMessage) -> bytes:
    if isinstance(message, Report):
        return encode_report(message.offset)
    return encode_request(message)


def encode_master(message: Whole) -> bytes:
    if isinstance(message, HandshakeAnswer):
        return encode_answer(message)
    return encode_frame_header(message[0]) + message[1]


def answer(end: int, *epochs: tuple[int, int]) -> HandshakeAnswer:
    listed = tuple(EpochStart(*epoch) for epoch in epochs)
    return HandshakeAnswer(end, listed[-1].epoch if listed else -1, listed)


def frame(offset: int, body: bytes, epoch: int = 1, start: int = 0, confirm: int = 0) -> Whole:
    return EpochFrameStarted(offset, len(body), epoch, start, confirm), body


# ---- recorded ----


@pytest.mark.parametrize("connection", golden.CONNECTIONS)
def test_what_java_sent_is_read_and_written_alike(connection: str) -> None:
    slave, master = (golden.segments(connection, end) for end in ("slave", "master"))
    asked, sent = read_slave(slave), read_master(master)
    assert isinstance(asked[0], HandshakeRequest)
    assert isinstance(sent[0], HandshakeAnswer)
    assert len(asked) > 2
    assert len(sent) > 2
    assert b"".join(map(encode_slave, asked)) == b"".join(slave)
    assert b"".join(map(encode_master, sent)) == b"".join(master)
    for chunks in three_ways(b"".join(slave)).values():
        assert read_slave(chunks) == asked
    for chunks in three_ways(b"".join(master)).values():
        assert read_master(chunks) == sent


def test_a_recorded_master_that_comes_back_learns_where_it_parts() -> None:
    sent = read_master(golden.segments("2-a-from-b", "master"))
    assert sent[0] == answer(1784, (1, 0), (2, 1338))
    assert read_slave(golden.segments("2-a-from-b", "slave"))[:2] == [
        HandshakeRequest(broker_id=1),
        Report(1338),
    ]


@pytest.mark.checklist(7, of="autoswitch")
def test_java_names_the_next_epoch_in_the_frame_that_ends_one() -> None:
    sent = read_master(golden.segments("5-c-from-b", "master"))
    frames = [each[0] for each in sent if not isinstance(each, HandshakeAnswer)]
    above = [each for each in frames if each.size and each.epoch_start > each.offset]
    assert [(each.offset, each.epoch, each.epoch_start) for each in above] == [
        (0, 2, 1338),
        (1338, 3, 2234),
        (2234, 4, 2901),
    ]


# ---- examples ----


@pytest.mark.checklist(1, of="autoswitch")
@pytest.mark.parametrize(
    ("request_", "data"),
    [
        (HandshakeRequest(broker_id=2), "00000001 0000 0000 0000000000000002"),
        (
            HandshakeRequest(broker_id=2, sync_from_last_file=True),
            "00000001 0001 0000 0000000000000002",
        ),
        (
            HandshakeRequest(broker_id=7, async_learner=True),
            "00000001 0000 0001 0000000000000007",
        ),
    ],
)
def test_requests(request_: HandshakeRequest, data: str) -> None:
    encoded = bytes.fromhex(data)
    assert encode_request(request_) == encoded
    for cut in range(len(encoded) + 1):
        decoder = SlaveDecoder()
        assert read_slave([encoded[:cut]], decoder) == ([request_] if cut == len(encoded) else [])
        assert read_slave([encoded[cut:]], decoder) == ([] if cut == len(encoded) else [request_])


@pytest.mark.checklist(2, of="autoswitch")
def test_an_answer() -> None:
    expected = (
        "00000001 00000018 0000000000000c44 00000002"
        "00000001 0000000000000000 00000002 0000000000000622"
    )
    given_ = answer(3140, (1, 0), (2, 1570))
    assert encode_answer(given_) == bytes.fromhex(expected)
    assert read_master([bytes.fromhex(expected)]) == [given_]


@pytest.mark.checklist(3, 4, of="autoswitch")
def test_a_frame_and_a_report() -> None:
    header = "00000002 00000003 0000000000000622 00000002 0000000000000622 0000000000000622"
    data = bytes.fromhex(header) + b"abc"
    assert read_master([data]) == [frame(1570, b"abc", 2, 1570, 1570)]
    assert encode_report(3140) == bytes.fromhex("00000002 0000000000000c44")


def test_a_master_may_not_know_where_to_begin() -> None:
    heartbeat = EpochFrameStarted(-1, 0, 1, 0, -1)
    assert read_master([encode_frame_header(heartbeat)]) == [(heartbeat, b"")]


def test_a_blank_master_has_no_epochs() -> None:
    assert read_master([encode_answer(answer(0)), encode_master(frame(0, b"x"))]) == [
        answer(0),
        frame(0, b"x"),
    ]


# ---- 5.0.0 and 5.1.0 ----


@pytest.mark.checklist(5, of="autoswitch")
@pytest.mark.parametrize("address", ["127.0.0.1:10911", "b", "é" * (ADDRESS_BYTES_MAX // 2)])
def test_requests_with_an_address_are_read(address: str) -> None:
    text = address.encode()
    old = struct.pack(">ihhi", 1, 0, 1, len(text)) + text
    expected = HandshakeRequest(broker_id=None, address=address, async_learner=True)
    for chunks in three_ways(old + encode_report(5)).values():
        assert read_slave(chunks) == [expected, Report(5)]


@pytest.mark.checklist(5, of="autoswitch")
def test_an_answer_of_36_bytes_is_read() -> None:
    new = encode_answer(answer(1784, (1, 0), (2, 1338)))
    old = new[:ANSWER_BYTES] + bytes(16) + new[ANSWER_BYTES:]
    for chunks in three_ways(old + encode_master(frame(1784, b"ab", 2, 1338))).values():
        assert read_master(chunks) == [
            answer(1784, (1, 0), (2, 1338)),
            frame(1784, b"ab", 2, 1338),
        ]


# ---- refused ----


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (struct.pack(">iq", 0, 5), "begins with 0"),
        (struct.pack(">iq", 3, 5), "begins with 3"),
        (struct.pack(">iq", -1, 5), "begins with -1"),
        (struct.pack(">iq", 2, -1), "report -1 is negative"),
        (struct.pack(">ihhi", 1, 0, 0, -1), "address of -1 bytes"),
        (struct.pack(">ihhi", 1, 0, 0, ADDRESS_BYTES_MAX + 1), "address of 51 bytes"),
        (struct.pack(">ihhi", 1, 0, 0, 1) + b"\xff", "no UTF-8"),
    ],
)
def test_a_slave_that_breaks_the_format_is_refused_for_ever(data: bytes, what: str) -> None:
    decoder = SlaveDecoder()
    assert read_slave([encode_report(1)], decoder) == [Report(1)]
    decoder.receive_data(data)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=what):
            decoder.next_message()
        decoder.receive_data(encode_report(1))


def header(state: int, size: int, *rest: int, layout: str) -> bytes:
    return struct.pack(">ii" + layout, state, size, *rest)


@pytest.mark.checklist(11, of="autoswitch")
@pytest.mark.parametrize(
    ("data", "what"),
    [
        (header(0, 0, 0, 0, layout="qi"), "begins with 0"),
        (header(4, 0, 0, 0, layout="qi"), "begins with 4"),
        (header(1, -12, 0, 0, layout="qi"), "-12 bytes of epochs"),
        (header(1, 13, 0, 0, layout="qi"), "13 bytes of epochs"),
        (header(1, (ANSWER_EPOCHS_MAX + 1) * 12, 0, 0, layout="qi"), "bytes of epochs"),
        (header(1, 12, 9, 2, 1, 0, layout="qiiq"), "epoch 2 is not the last"),
        (header(1, 0, 9, 2, layout="qi"), "epoch 2 is not the last"),
        (header(1, 12, -2, 1, 1, 0, layout="qiiq"), "max offset -2"),
        (header(1, 12, 9, 1, 1, -1, layout="qiiq"), "begins at -1"),
        (header(1, 12, 9, -3, -3, 0, layout="qiiq"), "epoch -3 follows"),
        (header(1, 24, 9, 1, 1, 0, 1, 5, layout="qiiqiq"), "epoch 1 follows epoch 1"),
        (header(1, 24, 9, 2, 1, 5, 2, 4, layout="qiiqiq"), "begins at 4"),
        (header(2, -1, 0, 1, 0, 0, layout="qiqq"), "frame size -1"),
        (header(2, FRAME_BODY_MAX + 1, 0, 1, 0, 0, layout="qiqq"), "frame size 4194269"),
        (header(2, 1, -1, 1, 0, 0, layout="qiqq"), "frame offset -1"),
        (header(2, 0, -2, 1, 0, 0, layout="qiqq"), "frame offset -2"),
        (header(2, 1, OFFSET_MAX, 1, 0, 0, layout="qiqq"), "frame offset"),
        (header(2, 0, 0, -1, 0, 0, layout="qiqq"), "frame of epoch -1"),
        (header(2, 0, 0, 1, -1, 0, layout="qiqq"), "begins at -1"),
        (header(2, 0, 0, 1, 0, -2, layout="qiqq"), "confirm offset -2"),
    ],
)
def test_a_master_that_breaks_the_format_is_refused_for_ever(data: bytes, what: str) -> None:
    decoder = FrameDecoder(MASTER_HEADER)
    decoder.receive_data(data)
    meter = FrameMeter(MASTER_HEADER)
    meter.passed(data + bytes(100))
    assert (meter.body_bytes, meter.rest_bytes, meter.header_bytes) == (0, 0, 0)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=what):
            decoder.next_event()


@pytest.mark.parametrize("broker_id", [None, 0, -1, BROKER_ID_MAX + 1])
def test_such_ids_are_not_written(broker_id: int | None) -> None:
    with pytest.raises(LocalProtocolError, match="broker id"):
        encode_request(HandshakeRequest(broker_id=broker_id))


@pytest.mark.checklist(11, of="autoswitch")
def test_what_is_out_of_range_is_not_written() -> None:
    with pytest.raises(LocalProtocolError, match="report"):
        encode_report(-1)
    for bad in (answer(-2, (1, 0)), answer(0, (2, 0), (1, 0)), HandshakeAnswer(0, 3, ())):
        with pytest.raises(LocalProtocolError, match=r"offset|epoch"):
            encode_answer(bad)
    many = tuple(EpochStart(epoch, 0) for epoch in range(1, ANSWER_EPOCHS_MAX + 2))
    with pytest.raises(LocalProtocolError, match="are more than"):
        encode_answer(HandshakeAnswer(0, len(many), many))
    for sizes in ((0, FRAME_BODY_MAX + 1, 1, 0, 0), (0, 0, -1, 0, 0), (0, 0, 1, 0, -2)):
        with pytest.raises(LocalProtocolError, match=r"frame|confirm"):
            encode_frame_header(EpochFrameStarted(*sizes))


def test_more_than_1000_epochs_are_written_and_read() -> None:
    """autoswitch-ha.md T24: upstream's master closes the connection for ever."""
    epochs = tuple(EpochStart(epoch, epoch * 10) for epoch in range(1, 5001))
    whole = HandshakeAnswer(60_000, 5000, epochs)
    assert len(encode_answer(whole)) == ANSWER_BYTES + 5000 * EPOCH_BYTES
    assert read_master(three_ways(encode_answer(whole))["sevens"]) == [whole]


def test_undrained_decoders_are_our_error() -> None:
    for decoder in (SlaveDecoder(), FrameDecoder(MASTER_HEADER)):
        decoder.receive_data(bytes(RECEIVE_LIMIT_BYTES))
        with pytest.raises(LocalProtocolError, match="exceed"):
            decoder.receive_data(b"x")


# ---- any ----

offsets = st.integers(0, OFFSET_MAX)
requests = st.builds(
    HandshakeRequest,
    broker_id=st.integers(1, BROKER_ID_MAX),
    sync_from_last_file=st.booleans(),
    async_learner=st.booleans(),
)
slave_messages = st.lists(requests | st.builds(Report, offsets), max_size=8)
frames = st.builds(
    frame,
    st.integers(0, OFFSET_MAX - 100),
    st.binary(max_size=100),
    st.integers(0, EPOCH_MAX),
    offsets,
    st.integers(-1, OFFSET_MAX),
)


@st.composite
def answers(draw: st.DrawFn) -> HandshakeAnswer:
    numbers = sorted(draw(st.sets(st.integers(1, EPOCH_MAX), max_size=5)))
    size = len(numbers)
    begins = sorted(draw(st.lists(offsets, min_size=size, max_size=size)))
    return answer(draw(st.integers(-1, OFFSET_MAX)), *zip(numbers, begins, strict=True))


def cut_up(data: bytes, sizes: list[int]) -> list[bytes]:
    chunks, at = [], 0
    for size in sizes:
        chunks.append(data[at : at + size])
        at += size
    return [*chunks, data[at:]]


@given(slave_messages, st.lists(st.integers(0, 20), max_size=20))
def test_slave_messages_survive_any_cutting(messages: list[SlaveMessage], cuts: list[int]) -> None:
    assert read_slave(cut_up(b"".join(map(encode_slave, messages)), cuts)) == messages


@given(st.lists(frames | answers(), max_size=6), st.lists(st.integers(0, 60), max_size=20))
def test_master_messages_survive_any_cutting(messages: list[Whole], cuts: list[int]) -> None:
    chunks = cut_up(b"".join(map(encode_master, messages)), cuts)
    assert read_master(chunks) == messages
    meter = FrameMeter(MASTER_HEADER)
    for chunk in chunks:
        meter.passed(chunk)
    assert meter.rest_bytes == 0
    assert meter.header_bytes == MASTER_HEADER.first_bytes


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_refused(data: bytes) -> None:
    for prefix in (b"", struct.pack(">i", 1), struct.pack(">i", 2)):
        for read in (read_slave, read_master):
            with contextlib.suppress(RemoteProtocolError):
                read([prefix + data])


def test_a_meter_knows_what_is_still_to_come() -> None:
    meter = FrameMeter(MASTER_HEADER)
    data = encode_answer(answer(9, (1, 0), (2, 5))) + encode_master(frame(9, bytes(50)))
    ends = ANSWER_BYTES + 2 * EPOCH_BYTES
    meter.passed(data[: ends - 1])
    assert (meter.header_bytes, meter.rest_bytes) == (1, 0)
    meter.passed(data[ends - 1 : ends + FRAME_HEADER_BYTES - 3])
    assert (meter.header_bytes, meter.rest_bytes) == (3, 0)
    meter.passed(data[ends + FRAME_HEADER_BYTES - 3 : ends + FRAME_HEADER_BYTES + 10])
    assert (meter.body_bytes, meter.rest_bytes) == (50, 40)
    meter.body_passed(40)
    assert (meter.header_bytes, meter.rest_bytes) == (MASTER_HEADER.first_bytes, 0)
