"""Many frames in one message of the API socket: documented bytes, round trips, bounds, junk."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.api import frames as api
from wire.api import gather
from wire.errors import LocalProtocolError, RemoteProtocolError

MAX = gather.FRAMES_PER_MESSAGE_MAX
requests = st.builds(
    api.Append,
    id=st.integers(0, api.ID_MAX),
    group=st.just("orders"),
    records=st.lists(st.binary(max_size=50), min_size=1, max_size=3).map(tuple),
) | st.builds(api.Cancel, id=st.integers(0, api.ID_MAX))
answers = st.builds(api.Ended, id=st.integers(0, api.ID_MAX))


@given(st.lists(requests, min_size=1, max_size=30), st.booleans())
def test_requests_survive_together(frames: list[api.Request], text: bool) -> None:
    data = gather.gathered([api.encode(frame, text=text) for frame in frames])
    assert isinstance(data, str) == text
    assert gather.decode_requests(data) == tuple(frames)


@given(st.lists(answers, min_size=1, max_size=30), st.booleans())
def test_answers_survive_together(frames: list[api.Answer], text: bool) -> None:
    data = gather.gathered([api.encode(frame, text=text) for frame in frames])
    assert gather.decode_answers(data) == tuple(frames)


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_junk_is_the_peers_error(data: bytes | str) -> None:
    for decode in (gather.decode_requests, gather.decode_answers):
        try:
            decode(data)
        except RemoteProtocolError:
            continue


@given(st.lists(requests, min_size=2, max_size=5), st.data())
def test_damaged_messages_decode_or_are_the_peers_error(
    frames: list[api.Request], data: st.DataObject
) -> None:
    whole = gather.gathered([api.encode(frame) for frame in frames])
    assert isinstance(whole, bytes)
    place = data.draw(st.integers(0, len(whole) - 1))
    for each in (
        whole[:place],
        whole[:place] + bytes([data.draw(st.integers(0, 255))]) + whole[place + 1 :],
        whole + whole[:place],
    ):
        try:
            gather.decode_requests(each)
        except RemoteProtocolError:
            continue


def test_one_frame_is_a_message_of_its_own() -> None:
    frame = api.encode(api.Stop(id=1))
    assert gather.gathered([frame]) == frame


def test_the_bytes_are_as_documented() -> None:
    frame = api.encode(api.Stop(id=1))
    assert isinstance(frame, bytes)
    assert gather.gathered([frame, frame]) == b"\xdc\x00\x02" + frame + frame
    short = b"\x92" + frame + frame
    assert gather.decode_requests(short) == (api.Stop(id=1), api.Stop(id=1))
    text = gather.gathered([api.encode(api.Stop(id=1), text=True)] * 2)
    assert json.loads(text) == [{"type": "stop", "id": 1}] * 2


@pytest.mark.parametrize("text", [False, True])
def test_messages_are_bounded_both_ways(text: bool) -> None:
    frame = api.encode(api.Stop(id=1), text=text)
    assert len(gather.decode_requests(gather.gathered([frame] * MAX))) == MAX
    for count in (0, MAX + 1):
        with pytest.raises(LocalProtocolError, match=f"a message of {count} frames"):
            gather.gathered([frame] * count)
    large = api.encode(api.Append(id=1, group="g", records=(bytes(4 << 20),)), text=text)
    with pytest.raises(LocalProtocolError, match="are above"):
        gather.gathered([large, large])
    longest = "x" * (api.FRAME_BYTES_MAX + 1)
    for decode in (gather.decode_requests, gather.decode_answers):
        with pytest.raises(RemoteProtocolError, match="at most"):
            decode(longest)


@pytest.mark.parametrize(
    "junk",
    [
        "[]",
        b"\x90",
        "[[]]",
        "[null]",
        '[{"type":"stop","id":1},{"type":"nope","id":2}]',
        b"\xdc\x01\x01" + api.encode(api.Stop(id=1)) * (MAX + 1),  # type: ignore[operator]
        "[" * 1_000_000,
        b"\x91" * 1_000_000,
    ],
    ids=lambda junk: repr(junk[:40]),
)
def test_a_message_that_breaks_the_format_is_refused(junk: bytes | str) -> None:
    with pytest.raises(RemoteProtocolError, match="the request cannot be decoded"):
        gather.decode_requests(junk)
    with pytest.raises(RemoteProtocolError, match="unreadable answer"):
        gather.decode_answers(junk)
