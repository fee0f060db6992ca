import struct

import golden_classic as golden
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.buffer import NEED_DATA, NeedData
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.ha.classic import (
    FRAME_BODY_MAX,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    REPORT_BYTES,
    ReportDecoder,
    encode_frame_header,
    encode_report,
)
from wire.ha.frames import (
    OFFSET_MAX,
    RECEIVE_LIMIT_BYTES,
    FrameData,
    FrameDecoder,
    FrameEnded,
    FrameMeter,
    FrameStarted,
    Report,
)

Frame = tuple[int, bytes]
Decoder = FrameDecoder[FrameStarted]


def read_frames(chunks: list[bytes], decoder: Decoder | None = None) -> list[Frame]:
    """The complete frames in `chunks`, with every promise of the decoder's events checked."""
    decoder = decoder or FrameDecoder(FRAME_HEADER)
    frames: list[Frame] = []
    start, body, announced = 0, b"", -1
    for chunk in chunks:
        decoder.receive_data(chunk)
        while (event := decoder.next_event()) is not NEED_DATA:
            match event:
                case FrameStarted(offset=offset, size=size):
                    assert announced == -1
                    start, body, announced = offset, b"", size
                case FrameData(offset=offset, data=data):
                    assert data
                    assert offset == start + len(body)
                    body += data
                case FrameEnded(offset_end=offset_end):
                    assert len(body) == announced
                    assert offset_end == start + announced
                    frames.append((start, body))
                    announced = -1
                case NeedData():
                    raise AssertionError
    return frames


def encode_frames(frames: list[Frame]) -> bytes:
    return b"".join(encode_frame_header(offset, len(body)) + body for offset, body in frames)


# --- samples of classic-ha.md 2.2 -----------------------------------------------------------------


def test_bytes_of_the_specification() -> None:
    assert encode_report(0) == bytes(8)
    assert encode_report(0x80008000) == bytes.fromhex("0000000080008000")
    assert encode_frame_header(2_147_483_648, 0) == bytes.fromhex("000000008000000000000000")
    assert encode_frame_header(2_147_483_648, 32768) == bytes.fromhex("000000008000000000008000")
    assert len(encode_report(1)) == REPORT_BYTES
    assert len(encode_frame_header(1, 1)) == FRAME_HEADER_BYTES
    assert FRAME_BODY_MAX == 4_194_292


# --- golden streams -------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "stream"), golden.STREAMS)
@pytest.mark.parametrize("way", ["whole", "bytes", "sevens", "4096"])
def test_golden_frames_are_the_manifests(version: str, stream: str, way: str) -> None:
    data = golden.stream(version, stream, "server")
    if way == "4096":
        chunks = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    else:
        chunks = golden.three_ways(data)[way]
    frames = read_frames(chunks)
    wanted = golden.manifest(version)["ha"][stream]["frames"]
    assert [[offset, len(body)] for offset, body in frames] == wanted
    log = b"".join(golden.segments(version, "master").values())
    assert all(body == log[offset : offset + len(body)] for offset, body in frames)
    assert encode_frames(frames) == data


@pytest.mark.parametrize(("version", "stream"), golden.STREAMS)
def test_golden_reports_are_the_manifests(version: str, stream: str) -> None:
    data = golden.stream(version, stream, "client")
    wanted = golden.manifest(version)["ha"][stream]["reports"]
    decoder = ReportDecoder()
    found = []
    for byte in golden.three_ways(data)["bytes"]:
        decoder.receive_data(byte)
        found.append(decoder.next_message())
    assert [each.offset for each in found if isinstance(each, Report)] == wanted
    assert b"".join(encode_report(offset) for offset in wanted) == data


@pytest.mark.checklist(7)
@pytest.mark.parametrize(("version", "stream"), golden.STREAMS)
def test_golden_reports_in_one_read_give_the_last(version: str, stream: str) -> None:
    wanted = golden.manifest(version)["ha"][stream]["reports"]
    decoder = ReportDecoder()
    decoder.receive_data(golden.stream(version, stream, "client"))
    assert decoder.next_message() == Report(wanted[-1])
    assert decoder.next_message() is NEED_DATA


# --- reports: checklist 7 -------------------------------------------------------------------------


@pytest.mark.checklist(7)
@pytest.mark.parametrize("cut", range(17))
def test_reports_split_anywhere_are_understood(cut: int) -> None:
    data = encode_report(300) + encode_report(700)
    decoder = ReportDecoder()
    decoder.receive_data(data[:cut])
    assert decoder.next_message() == (NEED_DATA, Report(300), Report(700))[cut // 8]
    decoder.receive_data(data[cut:])
    assert decoder.next_message() == (NEED_DATA if cut == 16 else Report(700))


def test_trailing_bytes_of_a_report_wait() -> None:
    decoder = ReportDecoder()
    decoder.receive_data(encode_report(5) + b"\0\0\0\0\0\0\0")
    assert decoder.next_message() == Report(5)
    assert decoder.next_message() is NEED_DATA
    decoder.receive_data(b"\x09")
    assert decoder.next_message() == Report(9)


@pytest.mark.parametrize("offset", [-1, -5, -(2**63)])
def test_a_negative_report_is_refused_for_ever(offset: int) -> None:
    decoder = ReportDecoder()
    decoder.receive_data(struct.pack(">q", offset) + encode_report(8))
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=f"report {offset} is negative"):
            decoder.next_message()


@pytest.mark.parametrize("offset", [-1, OFFSET_MAX + 1])
def test_a_report_out_of_range_is_our_error(offset: int) -> None:
    with pytest.raises(LocalProtocolError, match="report offset"):
        encode_report(offset)


# --- frames: checklist 18 (decoder part) and 19 ---------------------------------------------------


@pytest.mark.checklist(18)
def test_a_frame_split_at_every_byte_comes_once() -> None:
    frames = [(100, b"abcdefgh"), (108, b""), (108, b"ij")]
    data = encode_frames(frames)
    for cut in range(len(data) + 1):
        assert read_frames([data[:cut], data[cut:]]) == frames


def test_trailing_bytes_belong_to_the_next_frame() -> None:
    data = encode_frames([(0, b"abc")])
    decoder = FrameDecoder(FRAME_HEADER)
    assert read_frames([data + data[:5]], decoder) == [(0, b"abc")]
    assert read_frames([data[5:]], decoder) == [(0, b"abc")]


def test_a_body_chunk_is_handed_out_without_a_copy() -> None:
    body = bytes(1000)
    decoder = FrameDecoder(FRAME_HEADER)
    decoder.receive_data(encode_frame_header(7, 2000))
    assert decoder.next_event() == FrameStarted(7, 2000)
    decoder.receive_data(body)
    event = decoder.next_event()
    assert isinstance(event, FrameData)
    assert event.data is body


@pytest.mark.checklist(19)
@pytest.mark.parametrize("size", [0, 1, FRAME_BODY_MAX - 1, FRAME_BODY_MAX])
def test_sizes_up_to_the_limit_are_accepted(size: int) -> None:
    body = bytes(size)
    half = size // 2
    header = encode_frame_header(4096, size)
    assert read_frames([header + body[:half], body[half:]]) == [(4096, body)]


@pytest.mark.checklist(19)
@pytest.mark.parametrize("size", [-1, -(2**31), FRAME_BODY_MAX + 1, 2**31 - 1])
def test_other_sizes_are_refused_for_ever(size: int) -> None:
    decoder = FrameDecoder(FRAME_HEADER)
    decoder.receive_data(encode_frames([(0, b"x")]) + struct.pack(">qi", 1, size) + b"body")
    assert decoder.next_event() == FrameStarted(0, 1)
    assert decoder.next_event() == FrameData(0, b"x")
    assert decoder.next_event() == FrameEnded(1)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=f"frame size {size} is not in"):
            decoder.next_event()
    with pytest.raises(LocalProtocolError, match="frame size"):
        encode_frame_header(1, size)


@pytest.mark.parametrize(("offset", "size"), [(-1, 0), (-(2**63), 5), (OFFSET_MAX, 1)])
def test_offsets_out_of_range_are_refused(offset: int, size: int) -> None:
    decoder = FrameDecoder(FRAME_HEADER)
    decoder.receive_data(struct.pack(">qi", offset, size))
    with pytest.raises(RemoteProtocolError, match="frame offset"):
        decoder.next_event()
    with pytest.raises(LocalProtocolError, match="frame offset"):
        encode_frame_header(offset, size)


def test_the_highest_offsets_pass() -> None:
    assert read_frames([encode_frame_header(OFFSET_MAX, 0)]) == [(OFFSET_MAX, b"")]
    assert read_frames([encode_frame_header(OFFSET_MAX - 1, 1) + b"z"]) == [(OFFSET_MAX - 1, b"z")]
    decoder = ReportDecoder()
    decoder.receive_data(encode_report(OFFSET_MAX))
    assert decoder.next_message() == Report(OFFSET_MAX)


@pytest.mark.parametrize("decoder", [FrameDecoder(FRAME_HEADER), ReportDecoder()])
def test_an_undrained_decoder_is_our_error(
    decoder: Decoder | ReportDecoder,
) -> None:
    decoder.receive_data(bytes(RECEIVE_LIMIT_BYTES))
    with pytest.raises(LocalProtocolError, match="exceed"):
        decoder.receive_data(b"x")


frames_strategy = st.lists(
    st.tuples(st.integers(0, OFFSET_MAX - 100), st.binary(max_size=100)), max_size=8
)


@given(frames_strategy, st.lists(st.integers(0, 40), max_size=40))
def test_frames_survive_any_cutting(frames: list[Frame], cuts: list[int]) -> None:
    data = encode_frames(frames)
    chunks = []
    at = 0
    for size in cuts:
        chunks.append(data[at : at + size])
        at += size
    chunks.append(data[at:])
    assert read_frames(chunks) == frames


@given(st.binary(max_size=200))
def test_any_bytes_give_frames_or_a_remote_error(data: bytes) -> None:
    try:
        frames = read_frames([data])
    except RemoteProtocolError:
        return
    assert data.startswith(encode_frames(frames))


@given(st.binary(max_size=200))
def test_any_bytes_give_reports_or_a_remote_error(data: bytes) -> None:
    decoder = ReportDecoder()
    decoder.receive_data(data)
    try:
        report = decoder.next_message()
    except RemoteProtocolError:
        return
    whole = len(data) // 8 * 8
    last = Report(int.from_bytes(data[whole - 8 : whole], "big")) if whole else NEED_DATA
    assert report == last


# --- bodies that are kept elsewhere ---------------------------------------------------------------


def test_a_decoder_can_be_given_that_body_bytes_passed_by_it() -> None:
    decoder = FrameDecoder(FRAME_HEADER)
    decoder.receive_data(encode_frame_header(100, 10) + b"ab")
    assert decoder.next_event() == FrameStarted(100, 10)
    with pytest.raises(LocalProtocolError, match="not the running frame's next"):
        decoder.body_passed(3)  # two that came before still wait
    assert decoder.next_event() == FrameData(102 - 2, b"ab")
    assert decoder.next_event() is NEED_DATA
    for size in (0, 9):
        with pytest.raises(LocalProtocolError, match="not the running frame's next"):
            decoder.body_passed(size)
    assert decoder.body_passed(5) == 102
    assert decoder.next_event() is NEED_DATA
    assert decoder.body_passed(3) == 107
    assert decoder.next_event() == FrameEnded(110)
    with pytest.raises(LocalProtocolError, match="not the running frame's next"):
        decoder.body_passed(1)
    assert read_frames([encode_frames([(110, b"next")])], decoder) == [(110, b"next")]


@given(
    st.lists(st.binary(max_size=40), max_size=6),
    st.lists(st.integers(1, 30), min_size=1),
    st.data(),
)
def test_a_meter_knows_what_is_still_to_come(
    bodies: list[bytes], cuts: list[int], data: st.DataObject
) -> None:
    """After any cutting, and with bodies taken past it, it says where in which frame one is."""
    stream = encode_frames([(0, body) for body in bodies])
    meter, at, ends = FrameMeter(FRAME_HEADER), 0, [0]
    for body in bodies:
        ends.append(ends[-1] + FRAME_HEADER_BYTES + len(body))
    for cut in cuts * len(stream):
        if at == len(stream):
            break
        if meter.rest_bytes and data.draw(st.booleans()):
            size = min(cut, meter.rest_bytes)
            meter.body_passed(size)
        else:
            size = min(cut, len(stream) - at)
            meter.passed(stream[at : at + size])
        at += size
        frame = max(number for number, end in enumerate(ends) if end <= at)
        into = at - ends[frame]
        if into < FRAME_HEADER_BYTES:
            assert (meter.rest_bytes, meter.header_bytes) == (0, FRAME_HEADER_BYTES - into)
        else:
            assert meter.rest_bytes == ends[frame + 1] - at
            assert meter.body_bytes == len(bodies[frame])


def test_a_meter_expects_nothing_behind_a_bad_header() -> None:
    meter = FrameMeter(FRAME_HEADER)
    meter.passed(encode_frame_header(5, 1) + b"x" + struct.pack(">qi", 6, FRAME_BODY_MAX + 1))
    assert (meter.body_bytes, meter.rest_bytes, meter.header_bytes) == (0, 0, 0)
    meter.passed(encode_frame_header(0, 1000))
    assert (meter.body_bytes, meter.rest_bytes, meter.header_bytes) == (0, 0, 0)
