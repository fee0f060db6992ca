"""Bodies of DLedger's requests and replies: golden exchanges both ways, samples, refusals."""

import re
from collections.abc import Callable
from inspect import get_annotations
from typing import Any

import golden_dledger as golden
import pytest
from entry_kit import new_entry

from wire.dledger.codes import (
    PushType,
    RequestCode,
    ResponseCode,
    VoteResult,
    response_code,
)
from wire.dledger.entry import (
    Entry,
)
from wire.dledger.push_rpc import encode_batch
from wire.dledger.rpc import (
    AppendEntryRequest,
    AppendEntryResponse,
    GetEntriesResponse,
    HeartBeatResponse,
    InstallSnapshotRequest,
    MetadataRequest,
    PushEntryRequest,
    PushEntryResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
    decode_request,
    decode_response,
    encode_body,
    request_code,
    request_code_of,
)
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.remoting.frame import Decoder, Frame
from wire.remoting.header import REPLY_CODE, Language

SPOKEN = tuple(code for code in RequestCode if request_code(code) is code)
BASE: dict[str, Any] = {
    "group": "g",
    "leader_id": "n1",
    "local_id": "n1",
    "remote_id": "n0",
    "term": 3,
}


def frame_of(data: bytes) -> Frame:
    decoder = Decoder()
    decoder.receive_data(data)
    frame = decoder.next_frame()
    assert isinstance(frame, Frame)
    return frame


def classes(code: RequestCode) -> tuple[type[Request], type[Response]]:
    request, _ = decode_request(code, b"{}")
    response, _ = decode_response(code, b"{}")
    return type(request), type(response)


ALL_CLASSES = tuple(each for code in SPOKEN for each in classes(code))


# --- golden exchanges -----------------------------------------------------------------------------

HAND_MADE = "requests of 04 with language PYTHON: minimal, with other keys' order; Java read them"


@pytest.mark.checklist(4, of="dledger")
@pytest.mark.parametrize("scenario", golden.SCENARIOS)
def test_golden_exchanges_decode_and_encode_alike(scenario: str) -> None:
    """Every body of Java to the byte; HAND_MADE ones to the same object."""
    for recorded in golden.frames(scenario):
        frame = frame_of(recorded.frame)
        code = RequestCode.__members__.get(recorded.name)
        if code not in SPOKEN or not frame.body:
            assert scenario == "04-refusals"
            continue
        assert code is not None
        decode: Callable[[RequestCode, bytes], tuple[Any, bool]] = (
            decode_response if recorded.is_reply else decode_request
        )
        found, loose = decode(code, frame.body)
        assert not loose
        if recorded.is_reply:
            assert frame.header.code == REPLY_CODE
        else:
            assert frame.header.code == code == request_code_of(found)
        written = encode_body(found)
        assert decode(code, written) == (found, False)
        if frame.header.language is Language.JAVA:
            assert written == frame.body


def test_unspoken_codes_of_the_golden_exchanges_are_answered_without_a_body() -> None:
    """PULL, INSTALL_SNAPSHOT, USER_DEFINE, 7, and APPEND without a body: a remark instead."""
    failed = [each for each in golden.frames("04-refusals") if not frame_of(each.frame).body]
    assert sorted(each.name for each in failed) == [
        "7", "APPEND", "APPEND", "INSTALL_SNAPSHOT", "PULL", "USER_DEFINE",
    ]  # fmt: skip
    for each in failed:
        frame = frame_of(each.frame)
        assert frame.header.code in (1, 3)
        assert frame.header.remark
        with pytest.raises(RemoteProtocolError, match="the reply to APPEND has no body"):
            decode_response(RequestCode.APPEND, frame.body)


@pytest.mark.parametrize("code", [7, -14532, 0, 51003, 59999, 51007])
def test_other_codes_are_nobodys(code: int) -> None:
    assert request_code(code) is None


# --- samples of dledger.md 2.3 --------------------------------------------------------------------

ENTRY = Entry(body=b"hello", index=6, magic=1, pos=533, size=53, term=2)
SAMPLES: list[tuple[RequestCode, bytes, Request | Response]] = [
    (
        RequestCode.VOTE,
        b'{"code":200,"group":"g","leaderId":"n0","ledgerEndIndex":5,"ledgerEndTerm":2,'
        b'"localId":"n0","remoteId":"n1","term":3}',
        VoteRequest(
            group="g", leader_id="n0", ledger_end_index=5, ledger_end_term=2, local_id="n0",
            remote_id="n1", term=3,
        ),
    ),
    (
        RequestCode.VOTE,
        b'{"code":200,"group":"g","leaderId":"n0","localId":"n0","remoteId":"n1","term":3,'
        b'"voteResult":"ACCEPT"}',
        VoteResponse(
            group="g", leader_id="n0", local_id="n0", remote_id="n1", term=3,
            vote_result=VoteResult.ACCEPT,
        ),
    ),
    (RequestCode.HEART_BEAT, b'{"code":200,"term":-1}', HeartBeatResponse()),
    (RequestCode.HEART_BEAT, b'{"code":403,"term":4}', HeartBeatResponse(code=403, term=4)),
    (
        RequestCode.PUSH,
        b'{"beginIndex":0,"code":200,"count":1,"endIndex":5,"group":"g","index":5,"term":2}',
        PushEntryResponse(count=1, end_index=5, group="g", index=5, term=2),
    ),
    (
        RequestCode.GET,
        b'{"code":200,"entries":[{"body":"aGVsbG8=","bodyCrc":0,"chainCrc":0,"channel":0,'
        b'"index":6,"magic":1,"pos":533,"size":53,"term":2}],"group":"g","term":-1}',
        GetEntriesResponse(entries=(ENTRY,), group="g"),
    ),
    (
        RequestCode.INSTALL_SNAPSHOT,
        b'{"code":200,"data":"AAE=","group":"g","lastIncludedIndex":8,"lastIncludedTerm":2,'
        b'"leaderId":"n1","localId":"n1","remoteId":"n0","term":3}',
        InstallSnapshotRequest(
            data=b"\0\1", last_included_index=8, last_included_term=2, **BASE,
        ),
    ),
    (
        RequestCode.INSTALL_SNAPSHOT,
        b'{"code":200,"group":"g","lastIncludedIndex":8,"lastIncludedTerm":2,'
        b'"leaderId":"n1","localId":"n1","piece":"AAE=","pieceAt":4,"remoteId":"n0","term":3,'
        b'"totalBytes":6,"totalCrc":7}',
        InstallSnapshotRequest(
            piece=b"\0\1", piece_at=4, total_bytes=6, total_crc=7,
            last_included_index=8, last_included_term=2, **BASE,
        ),
    ),
]  # fmt: skip


@pytest.mark.checklist(4, of="dledger")
@pytest.mark.parametrize(("code", "data", "wanted"), SAMPLES)
def test_samples(code: RequestCode, data: bytes, wanted: Request | Response) -> None:
    if type(wanted) is classes(code)[0]:
        assert decode_request(code, data) == (wanted, False)
    else:
        assert decode_response(code, data) == (wanted, False)
    assert encode_body(wanted) == data


@pytest.mark.checklist(4, of="dledger")
def test_a_minimal_push_is_accepted() -> None:
    data = (
        b'{"group":"g","remoteId":"n0","leaderId":"n1","localId":"n1","term":3,"commitIndex":5,'
        b'"entry":{"index":6,"term":2,"pos":533,"size":53,"magic":1,"body":"aGVsbG8="}}'
    )
    wanted = PushEntryRequest(entry=ENTRY, commit_index=5, **BASE)
    assert decode_request(RequestCode.PUSH, data) == (wanted, False)
    assert wanted.type is PushType.APPEND


@pytest.mark.checklist(4, of="dledger")
def test_unknown_keys_are_ignored() -> None:
    data = encode_body(VoteRequest(**BASE))
    more = data.replace(b'"term"', b'"quorum":[1,{"x":null}],"term"')
    assert decode_request(RequestCode.VOTE, more) == decode_request(RequestCode.VOTE, data)


@pytest.mark.checklist(4, of="dledger")
@pytest.mark.parametrize(
    ("text", "body"),
    [(b"+/+/", b"\xfb\xff\xbf"), (b"+w==", b"\xfb"), (b"//8=", b"\xff\xff"), (b"", b""),
     (b"\\u0061Gk=", b"hi")],
)  # fmt: skip
def test_base64_survives(text: bytes, body: bytes) -> None:
    data = b'{"body":"%s"}' % text
    assert decode_request(RequestCode.APPEND, data) == (AppendEntryRequest(body=body), False)
    if b"\\" not in text:
        assert data[:-1] in encode_body(AppendEntryRequest(body=body))


def test_an_append_of_a_batch_has_no_body() -> None:
    """Upstream's batch class is for calls in one process: on the wire nobody reads its list."""
    found, _ = decode_request(RequestCode.APPEND, b'{"group":"g","batchMsgs":["eA==","eQ=="]}')
    assert found == AppendEntryRequest(group="g", body=None)


@pytest.mark.parametrize("cls", ALL_CLASSES, ids=lambda cls: cls.__name__)
def test_keys_stand_in_javas_order(cls: type[Request]) -> None:
    keys = list(cls.__struct_encode_fields__)
    assert keys == sorted(keys)
    assert {"code", "group", "leaderId", "localId", "remoteId", "term"} <= set(keys)
    assert cls.__struct_config__.frozen
    with pytest.raises(TypeError):
        cls(200)  # type: ignore[call-arg, arg-type]


# --- pushes ---------------------------------------------------------------------------------------


def chain(count: int, *, index: int = 0, pos: int = 0) -> tuple[Entry, ...]:
    entries = []
    for number in range(index, index + count):
        entries.append(new_entry(index=number, term=3, pos=pos, body=b"b" * (number % 5)))
        pos += entries[-1].size
    return tuple(entries)


def test_what_java_derives_from_the_entries_is_derived_here() -> None:
    batch = PushEntryRequest(batch_entry=chain(3, index=7), **BASE)
    assert (batch.batch, batch.count, batch.total_size) == (True, 3, 48 * 3 + 2 + 3 + 4)
    assert (batch.first_entry_index, batch.last_entry_index) == (7, 9)
    single = PushEntryRequest(entry=ENTRY, **BASE)
    assert (single.batch, single.count, single.total_size) == (False, 1, 0)
    assert (single.first_entry_index, single.last_entry_index) == (6, 6)
    commit = PushEntryRequest(type=PushType.COMMIT, **BASE)
    assert (commit.batch, commit.count, commit.total_size) == (False, 0, 0)
    assert (commit.first_entry_index, commit.last_entry_index) == (-1, -1)
    assert (batch.entries, single.entries, commit.entries) == (chain(3, index=7), (ENTRY,), ())


def test_a_batch_that_is_json_already_makes_the_same_body() -> None:
    entries = chain(3, index=7)
    for more in (BASE, {}, {**BASE, "commit_index": 5, "leader_id": None}):
        push = PushEntryRequest(batch_entry=entries, **more)
        assert encode_body(push, encode_batch(entries)) == encode_body(push)


def test_what_a_peer_derived_is_not_believed() -> None:
    lie = encode_body(PushEntryRequest(entry=ENTRY, **BASE))
    for key in (b'"count":1', b'"firstEntryIndex":6', b'"lastEntryIndex":6', b'"totalSize":0'):
        assert key in lie
        lie = lie.replace(key, key[: key.index(b":")] + b":77")
    lie = lie.replace(b'"batch":false', b'"batch":true')
    assert decode_request(RequestCode.PUSH, lie) == (PushEntryRequest(entry=ENTRY, **BASE), False)


# --- refusals -------------------------------------------------------------------------------------

WHOLE_ENTRY = b'{"body":"aGk=","index":1,"magic":1,"pos":0,"size":50,"term":1}'


@pytest.mark.parametrize("key", [b"body", b"index", b"magic", b"pos", b"size", b"term"])
def test_an_entry_says_all_of_itself(key: bytes) -> None:
    """Java takes 0 for what is missing, and stores it: recovery then ends there."""
    assert decode_request(RequestCode.PUSH, b'{"entry":%s}' % WHOLE_ENTRY)
    without = re.sub(rb',?"%s":[^,}]*' % key, b"", WHOLE_ENTRY).replace(b"{,", b"{")
    null = re.sub(rb'"%s":[^,}]*' % key, b'"%s":null' % key, WHOLE_ENTRY)
    for entry in (without, null):
        for body in (b'{"entry":%s}', b'{"batchEntry":[%s]}'):
            with pytest.raises(RemoteProtocolError, match=rf"{key.decode()}|null"):
                decode_request(RequestCode.PUSH, body % entry)


@pytest.mark.parametrize(
    "entry",
    [b'"index":-1', b'"term":-1', b'"pos":-1', b'"size":-1', b'"size":2147483648',
     b'"index":9223372036854775808', b'"magic":4294967297', b'"pos":12345678901234567890',
     b'"term":"12345678901234567890"', b'"index":true', b'"index":[1]', b'"body":5',
     b'"body":"aGk"', b'"body":"aG-_"', b'"body":"aG k="', b'"body":"aGk=\\n"',
     b'"body":"\xff\xff"'],
)  # fmt: skip
@pytest.mark.parametrize("place", [b'{"entry":%s}', b'{"batchEntry":[%s]}'])
def test_an_entry_out_of_order_is_refused(entry: bytes, place: bytes) -> None:
    bad = WHOLE_ENTRY[:-1] + b"," + entry + b"}"
    with pytest.raises(RemoteProtocolError) as caught:
        decode_request(RequestCode.PUSH, place % bad)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cls", ALL_CLASSES, ids=lambda cls: cls.__name__)
def test_wrong_values_of_every_field_are_refused(cls: type[Request]) -> None:
    """Each field of each class, with what its type does not hold."""
    code = next(code for code in SPOKEN if cls in classes(code))
    decode: Callable[[RequestCode, bytes], Any] = (
        decode_request if cls is classes(code)[0] else decode_response
    )
    hints = {name: hint for each in cls.__mro__ for name, hint in get_annotations(each).items()}
    for key, name in zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True):
        text = hints[name]
        if key in getattr(cls, "UNREAD", ()):
            continue
        bad = ["[[]]", "1.5", "2" if "bool" in text else "true", "12345678901234567890"]
        if "None" not in text:
            bad.append("null")
        if "int" in text.lower() or "Long" in text:
            bad += ['"x"', '""', '"12345678901234567890"', "-9223372036854775809"]
        for value in bad:
            data = f'{{"{key}":{value}}}'.encode()
            with pytest.raises(RemoteProtocolError, match=f"^{cls.__name__}: "):
                decode(code, data)


def test_bodies_of_the_largest_frame_are_read_or_refused() -> None:
    huge = b'{"body":"' + b"A" * (16 << 20) + b'"}'
    found, _ = decode_request(RequestCode.APPEND, huge)
    assert isinstance(found, AppendEntryRequest)
    assert found.body == bytes(12 << 20)
    with pytest.raises(RemoteProtocolError, match="AppendEntryRequest: Invalid base64"):
        decode_request(RequestCode.APPEND, huge.replace(b"A" * 8, b"A" * 7 + b"-", 1))
    with pytest.raises(RemoteProtocolError, match="AppendEntryRequest: "):
        decode_request(RequestCode.APPEND, huge[:-2])


@pytest.mark.parametrize(
    "message",
    [MetadataRequest(group="\ud800"), MetadataRequest(group=object()), MetadataRequest(term=2j)],  # type: ignore[arg-type]
    ids=["surrogate", "object", "complex"],
)
def test_what_json_cannot_hold_is_our_error(message: MetadataRequest) -> None:
    with pytest.raises(LocalProtocolError, match="cannot encode MetadataRequest"):
        encode_body(message)


# --- codes ----------------------------------------------------------------------------------------


def test_numbers_of_upstream() -> None:
    assert [int(code) for code in RequestCode] == [
        50000, 50001, 50002, 51001, 51002, 51003, 51004, 51005, 51006, 59999,
    ]  # fmt: skip
    assert [int(code) for code in ResponseCode] == [
        -1, 200, *range(300, 304), *range(400, 423), *range(500, 509),
    ]  # fmt: skip
    assert response_code(404) is ResponseCode.NOT_LEADER
    assert response_code(-1) is response_code(999) is ResponseCode.UNKNOWN
    assert [each.name for each in PushType] == ["APPEND", "COMMIT", "COMPARE", "TRUNCATE"]
    assert len(VoteResult) == 12
    assert all(each.name == each.value for each in (*PushType, *VoteResult))


def test_append_replies_show_where_or_nowhere() -> None:
    assert encode_body(AppendEntryResponse(code=404)) == (
        b'{"code":404,"index":-1,"pos":-1,"term":-1}'
    )
