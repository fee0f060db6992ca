"""Frames of RocketMQ's remoting: golden bytes both ways, any cutting, every refusal."""

import itertools
import struct

import golden_dledger as golden
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wire.buffer import NEED_DATA, NeedData
from wire.dledger.codes import RequestCode
from wire.dledger.rpc import request_code
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.remoting import frame as remoting
from wire.remoting.frame import (
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    RECEIVE_BYTES_MAX,
    Decoder,
    Frame,
    encode_frame,
    encode_frame_head,
    encode_reply,
)
from wire.remoting.header import (
    FLAG_ONEWAY,
    FLAG_REPLY,
    VERSION,
    Header,
    Language,
    SerializeType,
    decode_header,
    read_fields,
    reply_header,
    write_fields,
)
from wire.remoting.tolerant_json import Long

SAMPLE = (
    b'\x00\x00\x00\x80\x00\x00\x00\x62{"code":51004,"flag":0,"language":"JAVA","opaque":12,'
    b'"serializeTypeCurrentRPC":"JSON","version":0}{"term":1,"type":"COMMIT"}'
)


def read_frames(chunks: list[bytes], decoder: Decoder | None = None) -> list[Frame]:
    decoder = decoder or Decoder()
    frames = []
    for chunk in chunks:
        decoder.receive_data(chunk)
        while not isinstance(frame := decoder.next_frame(), NeedData):
            frames.append(frame)
    return frames


def raw_frame(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


# --- golden bytes ---------------------------------------------------------------------------------


@pytest.mark.checklist(1, of="dledger")
@pytest.mark.parametrize("scenario", golden.SCENARIOS)
@pytest.mark.parametrize("way", ["whole", "bytes", "sevens"])
def test_golden_frames_are_read_and_written_alike(scenario: str, way: str) -> None:
    recorded = golden.frames(scenario)
    data = b"".join(each.frame for each in recorded)
    frames = read_frames(golden.three_ways(data)[way])
    assert [frame.header.is_reply for frame in frames] == [each.is_reply for each in recorded]
    assert not any(frame.loose for frame in frames)
    assert [encode_frame(frame.header, frame.body) for frame in frames] == [
        each.frame for each in recorded
    ]


FAILURE = Header(
    code=1,
    ext_fields={"bb": "", "a": "1"},
    flag=FLAG_REPLY,
    language=Language.JAVA,
    opaque=8,
    remark="no é",
    version=435,
)
ONEWAY = Header(code=10, flag=FLAG_ONEWAY, language=Language.OMS, opaque=-1)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("failure-json", FAILURE),
        ("failure-binary", FAILURE),
        ("oneway-json", ONEWAY),
        ("oneway-binary", ONEWAY),
    ],
)
def test_headers_of_java_in_both_encodings(name: str, header: Header) -> None:
    data = golden.binary_headers()[name]
    (frame,) = read_frames([data])
    kind = SerializeType.ROCKETMQ if name.endswith("binary") else SerializeType.JSON
    for field in Header.__struct_fields__:
        wanted = kind if field == "serialize_type" else getattr(header, field)
        assert getattr(frame.header, field) == wanted
    assert frame.header.is_oneway == (header is ONEWAY)
    assert frame.header.is_reply == (header is FAILURE)
    written = encode_frame(frame.header)
    assert read_frames([written]) == [frame]
    if name != "failure-binary":  # Java's HashMap has an order of its own
        assert written == data


@pytest.mark.checklist(1, of="dledger")
def test_a_dledger_code_in_a_binary_header_is_refused() -> None:
    """Java sends it all the same, cut to 16 bits: nobody serves that number."""
    (frame,) = read_frames([golden.binary_headers()["push-binary"]])
    assert frame.header.code == RequestCode.PUSH - 65536 == -14532
    assert request_code(frame.header.code) is None
    assert frame.body == b"{}"
    for code in RequestCode:
        header = Header(code=code, serialize_type=SerializeType.ROCKETMQ)
        with pytest.raises(LocalProtocolError, match="no binary header holds"):
            encode_frame(header)


# --- feeding --------------------------------------------------------------------------------------


def test_the_parts_of_a_frame() -> None:
    (frame,) = read_frames([SAMPLE])
    assert frame.header == Header(code=51004, language=Language.JAVA, opaque=12)
    assert frame.body == b'{"term":1,"type":"COMMIT"}'
    assert not frame.header.is_reply
    assert not frame.header.is_oneway


@pytest.mark.parametrize("cut", range(len(SAMPLE) + 1))
def test_a_frame_split_anywhere_is_read_once(cut: int) -> None:
    frames = read_frames([SAMPLE[:cut], SAMPLE[cut:]])
    assert [encode_frame(frame.header, frame.body) for frame in frames] == [SAMPLE]


def test_trailing_bytes_belong_to_the_next_frame() -> None:
    decoder = Decoder()
    assert len(read_frames([SAMPLE + SAMPLE[:9]], decoder)) == 1
    assert len(read_frames([SAMPLE[9:]], decoder)) == 1


def test_a_body_in_one_chunk_is_handed_out_without_a_copy() -> None:
    body = bytes(1000)
    decoder = Decoder()
    decoder.receive_data(encode_frame_head(Header(code=7), len(body)))
    assert decoder.next_frame() is NEED_DATA
    decoder.receive_data(body)
    frame = decoder.next_frame()
    assert isinstance(frame, Frame)
    assert frame.body is body


def test_an_undrained_decoder_is_our_error() -> None:
    decoder = Decoder(frame_bytes_max=1000)
    decoder.receive_data(bytes(1000 + RECEIVE_BYTES_MAX))
    with pytest.raises(LocalProtocolError, match="exceed"):
        decoder.receive_data(b"x")


# --- limits and refusals --------------------------------------------------------------------------


def test_a_frame_of_exactly_the_limit_passes_and_one_byte_more_does_not() -> None:
    header = Header(code=51006)
    head_bytes = len(encode_frame(header))
    whole = encode_frame(header, bytes(FRAME_BYTES_MAX - head_bytes))
    assert len(whole) == FRAME_BYTES_MAX == 16_777_216
    chunks = [whole[at : at + RECEIVE_BYTES_MAX] for at in range(0, len(whole), RECEIVE_BYTES_MAX)]
    (frame,) = read_frames(chunks)
    assert len(frame.body) == FRAME_BYTES_MAX - head_bytes
    with pytest.raises(LocalProtocolError, match="frame of 16777217 bytes, at most 16777216"):
        encode_frame_head(header, FRAME_BYTES_MAX - head_bytes + 1)


def test_a_frame_that_is_begun_says_its_size() -> None:
    """From its first two words until it is whole."""
    decoder = Decoder()
    sizes = []
    for at in range(len(SAMPLE)):
        decoder.receive_data(SAMPLE[at : at + 1])
        whole = decoder.next_frame() is not NEED_DATA
        sizes.append(decoder.begun_bytes)
    assert whole
    assert sizes == [0] * 7 + [len(SAMPLE)] * (len(SAMPLE) - 8) + [0]


@pytest.mark.parametrize(
    "length", [FRAME_BYTES_MAX - 3, 17 << 20, 2**31 - 1, 3, 0, -1, -(2**31)], ids=str
)
def test_other_lengths_are_refused_before_anything_of_the_frame_arrives(length: int) -> None:
    decoder = Decoder()
    decoder.receive_data(SAMPLE + struct.pack(">ii", length, 0))
    assert isinstance(decoder.next_frame(), Frame)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=f"frame length {length} is not in 4"):
            decoder.next_frame()
        decoder.receive_data(SAMPLE)


def test_the_limit_is_the_callers() -> None:
    assert len(read_frames([SAMPLE], Decoder(frame_bytes_max=len(SAMPLE)))) == 1
    with pytest.raises(RemoteProtocolError, match="not in 4"):
        read_frames([SAMPLE[:8]], Decoder(frame_bytes_max=len(SAMPLE) - 1))


BINARY = struct.Struct(">hbhiii")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">iI", 10, 7), "header of 7 bytes in a frame of 10"),
        (struct.pack(">iI", 4, 0), "Header: Input data was truncated"),
        (raw_frame(b"{}", kind=2), "header encoding 2"),
        (raw_frame(b"{}", kind=255), "header encoding 255"),
        (raw_frame(b"[]"), "Header: Expected `object`"),
        (raw_frame(b"null"), "Header: Expected `object`"),
        (raw_frame(b'{"code":null}'), "Header: Expected `int`, got `null`"),
        (raw_frame(b'{"code":4294967296}'), "Header: Expected `int` <= 2147483647"),
        (raw_frame(b'{"opaque":12345678901234567890}'), "Header: Expected `int` <= 2147483647"),
        (raw_frame(b'{"extFields":["a"]}'), "Header: Expected `object`"),
        (raw_frame(b'{"extFields":{"a":tru}}'), "Header: "),
        (raw_frame(b'{"extFields":' + b"[" * 9000), "Header: "),
        (raw_frame(b'{"remark":"\xff"}'), "Header: "),
        (raw_frame(b"", kind=1), "binary header of 0 bytes"),
        (raw_frame(BINARY.pack(1, 0, 0, 0, 0, 0), kind=1), "binary header of 17 bytes"),
        (raw_frame(BINARY.pack(1, 0, 0, 0, 0, 5) + b"abc", kind=1), "5 bytes of text"),
        (raw_frame(BINARY.pack(1, 0, 0, 0, 0, -1) + bytes(4), kind=1), "-1 bytes of text"),
        (raw_frame(BINARY.pack(1, 0, 0, 0, 0, 0) + b"\xff" * 4, kind=1), "-1 bytes of ext"),
        (raw_frame(BINARY.pack(1, 0, 0, 0, 0, 0) + bytes(5), kind=1), "0 bytes of extFields"),
        (raw_frame(BINARY.pack(1, 0, 0, 0, 0, 1) + b"\xff" + bytes(4), kind=1), "can't decode"),
        (raw_frame(BINARY.pack(1, 0, 0, 0, 0, 0) + b"\0\0\0\1a", kind=1), "binary header of 22"),
        (raw_frame(BINARY.pack(1, 0, 0, 0, 0, 0) + b"\0\0\0\3\0\1a", kind=1), "binary header"),
        (
            raw_frame(BINARY.pack(1, 0, 0, 0, 0, 0) + b"\0\0\0\2\xff\xff", kind=1),
            "-1 bytes of text",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_headers_are_refused_for_ever(data: bytes, reason: str) -> None:
    decoder = Decoder()
    decoder.receive_data(data)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError) as caught:
            decoder.next_frame()
        assert reason in str(caught.value)
        assert "\n" not in str(caught.value)
        decoder.receive_data(SAMPLE)


def test_a_careless_header_is_read_and_reported() -> None:
    data = raw_frame(b'{"CODE":"51004","language":3,"opaque":"7","future":{}}', b"body")
    (frame,) = read_frames([data])
    assert frame == Frame(Header(code=51004, opaque=7), b"body", True)


def test_ext_fields_that_are_no_text_are_text_of_what_they_are() -> None:
    """As fastjson reads them: clients in JavaScript send numbers and booleans."""
    said = b'{"extFields":{"a":1,"b":true,"c":null,"d":"x","e": -1.5e3 ,"f":{"g": [1]}}}'
    (frame,) = read_frames([raw_frame(said)])
    text = {"a": "1", "b": "true", "d": "x", "e": "-1.5e3", "f": '{"g": [1]}'}
    assert (frame.header.ext_fields, frame.loose) == (text, True)
    (frame,) = read_frames([raw_frame(b'{"extFields": null}')])
    assert (frame.header.ext_fields, frame.loose) == (None, False)
    (frame,) = read_frames([raw_frame(b'{"extFields":{"a":"1"},"more":1}')])
    assert (frame.header.ext_fields, frame.loose) == ({"a": "1"}, False)


def test_languages_nobody_knows_are_none() -> None:
    (json,) = read_frames([raw_frame(b'{"code":1,"language":"KLINGON"}')])
    (binary,) = read_frames([raw_frame(BINARY.pack(1, 99, 0, 0, 0, 0) + bytes(4), kind=1)])
    assert json.header.language is binary.header.language is None
    (again,) = read_frames([encode_frame(binary.header)])
    assert again.header.language is Language.OTHER  # the binary header has no word for nobody


def test_a_json_header_that_calls_itself_binary_is_json() -> None:
    (frame,) = read_frames([raw_frame(b'{"code":1,"serializeTypeCurrentRPC":"ROCKETMQ"}')])
    assert frame.header.serialize_type is SerializeType.JSON


@pytest.mark.parametrize("serialize_type", SerializeType)
def test_a_reply_repeats_opaque_and_encoding(serialize_type: SerializeType) -> None:
    request = Header(code=7, opaque=99, serialize_type=serialize_type)
    reply = reply_header(request, code=remoting.REMOTING_CODE_NOT_SUPPORTED, remark="what?")
    (frame,) = read_frames([encode_frame(reply)])
    assert frame.header == reply
    assert (reply.opaque, reply.code, reply.remark) == (99, 3, "what?")
    assert reply.is_reply
    assert reply.serialize_type is serialize_type
    assert reply_header(request).code == 200


@pytest.mark.parametrize(
    "header",
    [
        Header(remark="\ud800"),
        Header(code=40_000, serialize_type=SerializeType.ROCKETMQ),
        Header(opaque=2**31, serialize_type=SerializeType.ROCKETMQ),
        Header(remark="\ud800", serialize_type=SerializeType.ROCKETMQ),
        Header(ext_fields={"k" * 40_000: ""}, serialize_type=SerializeType.ROCKETMQ),
        Header(remark="x" * 2**24),
    ],
    ids=["remark", "short", "int", "text", "key", "too long"],
)
def test_what_no_header_holds_is_our_error(header: Header) -> None:
    with pytest.raises(LocalProtocolError):
        encode_frame(header)


# --- any header, any bytes ------------------------------------------------------------------------

ints = st.integers(-(2**31), 2**31 - 1)
shorts = st.integers(-(2**15), 2**15 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@st.composite
def headers(draw: st.DrawFn) -> Header:
    kind = draw(st.sampled_from(SerializeType))
    small = shorts if kind is SerializeType.ROCKETMQ else ints
    return Header(
        code=draw(small),
        ext_fields=draw(st.dictionaries(texts, texts, max_size=3)) or None,
        flag=draw(ints),
        language=draw(st.sampled_from(Language)),
        opaque=draw(ints),
        remark=draw(texts) or None,
        serialize_type=kind,
        version=draw(small),
    )


frames_strategy = st.lists(st.builds(Frame, headers(), st.binary(max_size=50)), max_size=5)


@given(frames_strategy, st.lists(st.integers(0, 60), max_size=40))
def test_frames_survive_any_cutting(frames: list[Frame], cuts: list[int]) -> None:
    data = b"".join(encode_frame(frame.header, frame.body) for frame in frames)
    chunks, at = [], 0
    for size in cuts:
        chunks.append(data[at : at + size])
        at += size
    assert read_frames([*chunks, data[at:]]) == frames


@given(st.binary(max_size=200), st.sampled_from([0, 1]))
def test_any_bytes_give_a_header_or_a_remote_error(data: bytes, kind: int) -> None:
    try:
        header, _ = decode_header(kind, data)
    except RemoteProtocolError:
        return
    assert decode_header(kind, encode_frame(header)[8:])[0] == header or (
        kind == 1 and header.language is None
    )


encoded_frames = st.builds(encode_frame, headers(), st.binary(max_size=50)) | st.builds(
    raw_frame, st.sampled_from([b"{}", b'{"Code":"7"}', b"{", b""]), st.binary(max_size=9)
)


@settings(max_examples=200)
@given(
    st.lists(encoded_frames, max_size=6),
    st.lists(st.integers(0, 400), max_size=8),
    st.binary(max_size=12),
    st.integers(1, 4),
)
def test_frames_in_few_steps_are_those_one_by_one(
    frames: list[bytes], cuts: list[int], behind: bytes, frames_max: int
) -> None:
    """However they are cut, whatever is behind them, and however many are taken at a time."""
    data = b"".join(frames) + behind
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    one, other = Decoder(300), Decoder(300)
    for start, end in itertools.pairwise(places):
        one.receive_data(data[start:end])
        wanted: list[Frame] = []
        problem = None
        try:
            while (frame := one.next_frame()) is not NEED_DATA:
                wanted.append(frame)
        except RemoteProtocolError as error:
            problem = str(error)
        found, error = other.decode(data[start:end], frames_max)
        step = len(found)
        while step == frames_max:
            more, error = other.decode(b"", frames_max)
            found, step = found + more, len(more)
        assert (found, error) == (wanted, problem)
        if problem is not None:
            assert other.decode(b"", frames_max) == ([], problem), "for ever"
            return


@given(st.integers(-(2**31), 2**31 - 1), st.sampled_from(SerializeType), st.binary(max_size=9))
def test_a_reply_encoded_at_once_is_the_same_reply(
    opaque: int, serialize_type: SerializeType, body: bytes
) -> None:
    asked = Header(code=50001, opaque=opaque, serialize_type=serialize_type, remark="why")
    assert encode_reply(asked, body) == encode_frame(reply_header(asked), body)


# --- extFields ------------------------------------------------------------------------------------


class Fields(msgspec.Struct, frozen=True, rename="camel"):
    broker_name: str
    broker_id: Long
    compressed: bool = False
    zone_name: str | None = None


def fields_of(**fields: str) -> Fields:
    return read_fields(Header(ext_fields=fields), Fields)


def test_ext_fields_are_text_of_java() -> None:
    wanted = Fields(broker_name="b", broker_id=-1, compressed=True)
    assert fields_of(brokerName="b", brokerId="-1", compressed="true", later="x") == wanted
    assert fields_of(brokerName="b", brokerId="-1", compressed="TRUE") == wanted
    assert write_fields(wanted) == {"brokerName": "b", "brokerId": "-1", "compressed": "true"}
    zoned = Fields(broker_name="", broker_id=0, zone_name="z")
    assert fields_of(brokerName="", brokerId="0", zoneName="z") == zoned
    assert write_fields(zoned)["compressed"] == "false"


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "brokerName"),
        ({"brokerName": "b"}, "brokerId"),
        ({"brokerName": "b", "brokerId": ""}, "brokerId"),
        ({"brokerName": "b", "brokerId": "1.5"}, "brokerId"),
        ({"brokerName": "b", "brokerId": "9" * 30}, "brokerId"),
        ({"brokerName": "b", "brokerId": "1", "compressed": "yes"}, "compressed"),
    ],
)
def test_ext_fields_that_are_missing_or_wrong_are_named(fields: dict[str, str], name: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"^extFields: .*{name}"):
        fields_of(**fields)


def test_no_ext_fields_are_none() -> None:
    with pytest.raises(RemoteProtocolError, match="brokerName"):
        read_fields(Header(), Fields)
    request = Header(opaque=3, serialize_type=SerializeType.ROCKETMQ)
    answer = reply_header(request, code=0, ext_fields={}, version=VERSION)
    assert (answer.ext_fields, answer.opaque, answer.version) == ({}, 3, 479)


def test_empty_ext_fields_are_written() -> None:
    """RocketMQ 3.2.6 takes an answer without any as one that is not there."""
    answer = reply_header(Header(), code=0, ext_fields={})
    assert b'"extFields":{}' in encode_frame(answer, b"")
    assert b"extFields" not in encode_frame(reply_header(Header(), code=0), b"")


@pytest.mark.parametrize("over", [0, 1])
def test_a_header_above_the_largest_is_refused(over: int) -> None:
    """As soon as its length is there; it could have a million fields."""
    texts = len(encode_frame(Header(remark="x"))) - 9
    whole = encode_frame(Header(remark="x" * (HEADER_BYTES_MAX - texts + over)))
    for fed in (whole, whole[:8]):
        frames, error = Decoder().decode(fed, 9)
        assert (error is not None) == bool(over)
        assert len(frames) == (not over and fed is whole)
