"""Any message round trips, and any bytes are a message or are refused."""

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.dledger.codes import PushType, RequestCode, VoteResult
from wire.dledger.entry import Entry
from wire.dledger.rpc import (
    PushEntryRequest,
    Request,
    Response,
    decode_request,
    decode_response,
    encode_body,
    request_code,
)
from wire.errors import RemoteProtocolError

SPOKEN = tuple(code for code in RequestCode if request_code(code) is code)


def classes(code: RequestCode) -> tuple[type[Request], type[Response]]:
    request, _ = decode_request(code, b"{}")
    response, _ = decode_response(code, b"{}")
    return type(request), type(response)


ALL_CLASSES = tuple(each for code in SPOKEN for each in classes(code))

longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
places = st.integers(0, 2**63 - 1)
texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
entries = st.builds(
    Entry,
    body=st.binary(max_size=40),
    body_crc=ints,
    chain_crc=ints,
    channel=ints,
    index=places,
    magic=ints,
    pos=places,
    size=st.integers(0, 2**31 - 1),
    term=places,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "batch_entry": st.lists(entries, max_size=3).map(tuple),
    "body": st.none() | st.binary(max_size=60),
    "code": ints,
    "count": ints,
    "data": st.none() | st.binary(max_size=60),
    "piece": st.none() | st.binary(max_size=60),
    "piece_at": st.none() | longs,
    "total_bytes": st.none() | longs,
    "total_crc": st.none() | longs,
    "entries": st.lists(entries, max_size=2).map(tuple),
    "entry": st.none() | entries,
    "joins": st.booleans(),
    "index_list": st.none() | st.lists(longs, max_size=3).map(tuple),
    "max_size": ints,
    "peers": st.none() | st.dictionaries(st.text("n0123", max_size=3), st.text("a:1", max_size=4)),
    "type": st.sampled_from(PushType),
    "vote_result": st.sampled_from(VoteResult),
}
TEXTS = ("group", "leader_id", "local_id", "refusal", "remote_id", "transfer_id", "transferee_id")
DERIVED = {"batch", "first_entry_index", "last_entry_index", "total_size"}


def messages(cls: type[Request]) -> st.SearchStrategy[Any]:
    skipped = DERIVED | {"count"} if cls is PushEntryRequest else set()
    wanted = [name for name in cls.__struct_fields__ if name not in skipped]
    chosen = {name: FIELDS.get(name, texts if name in TEXTS else longs) for name in wanted}
    return st.builds(cls, **chosen)


@pytest.mark.parametrize("cls", ALL_CLASSES, ids=lambda cls: cls.__name__)
@given(data=st.data())
def test_any_message_round_trips(cls: type[Request], data: st.DataObject) -> None:
    message = data.draw(messages(cls))
    code = next(code for code in SPOKEN if cls in classes(code))
    decode: Callable[[RequestCode, bytes], Any] = (
        decode_request if cls is classes(code)[0] else decode_response
    )
    written = encode_body(message)
    assert decode(code, written) == (message, False)
    assert list(msgspec.json.decode(written)) == sorted(msgspec.json.decode(written))


@given(st.sampled_from(SPOKEN), st.binary(max_size=60))
def test_any_bytes_give_a_message_or_a_remote_error(code: RequestCode, data: bytes) -> None:
    for decode in (decode_request, decode_response):
        with contextlib.suppress(RemoteProtocolError):
            decode(code, data)
