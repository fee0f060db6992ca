"""Requests to and from controllers: each recorded one is read, and written alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import golden_autoswitch as golden
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.broker import controller
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.dialect import Fields, bare_integer_keys, encode_body
from wire.errors import RemoteProtocolError
from wire.remoting.header import Header, read_fields, write_fields

Decode = Callable[[bytes], Any]

ASKED: dict[int, tuple[type[Fields], Decode | None]] = {
    1001: (controller.AlterSyncStateSet, controller.decode_sync_state_set),
    1002: (controller.ElectMaster, None),
    1003: (controller.RegisterToController, None),
    1004: (controller.BrokerSet, None),
    1006: (Fields, controller.decode_names),
    1008: (controller.RoleChange, controller.decode_sync_state_set),
    1011: (controller.CleanBrokerData, None),
    1012: (controller.BrokerSet, None),
    1013: (controller.ApplyBrokerId, None),
    904: (controller.ControllerHeartbeat, None),
    906: (controller.BrokerHaInfo, None),
}
ANSWERED: dict[int, tuple[type[Fields], Decode | None]] = {
    1001: (controller.NewSyncStateSetEpoch, controller.decode_sync_state_set),
    1002: (controller.ElectedMaster, controller.decode_elect_master),
    1003: (controller.RegisteredToController, controller.decode_sync_state_set),
    1004: (controller.ReplicaInfo, controller.decode_sync_state_set),
    1005: (controller.ControllerMetadata, None),
    1006: (Fields, controller.decode_replicas_info),
    1007: (Fields, controller.decode_epoch_cache),
    1012: (controller.NextBrokerId, None),
    1013: (controller.BrokerSet, None),
    906: (controller.BrokerHaInfo, None),
}
DECODERS = [decode for _, decode in (ASKED | ANSWERED).values() if decode is not None]


def recorded(*, answers: bool) -> list[tuple[int, dict[str, Any]]]:
    """Code of the request and frame, of requests or answers that are about a controller."""
    if answers:
        found = [(row["answer_to"], row) for row in golden.frames() if row["kind"] == "answer"]
    else:
        found = [(row["code"], row) for row in golden.frames() if row["kind"] != "answer"]
    return [(code, row) for code, row in found if code in (ANSWERED if answers else ASKED)]


@pytest.mark.checklist(46, of="autoswitch")
@pytest.mark.parametrize("answers", [False, True])
def test_what_was_recorded_is_read_and_written_alike(answers: bool) -> None:
    found = recorded(answers=answers)
    assert {code for code, _ in found} >= (ANSWERED if answers else ASKED).keys() - {906}
    for code, row in found:
        fields, decode = (ANSWERED if answers else ASKED)[code]
        said = write_fields(read_fields(Header(ext_fields=row["header"]), fields))
        assert said | row["header"] == said, (code, row["header"])
        if not row["handmade"]:
            assert said == row["header"], code
        if row["body"]:
            assert decode is not None
            written = bare_integer_keys(encode_body(decode(row["body"])))
            assert written == row["body"].replace(b" ", b""), code


def test_every_code_of_the_recording_has_a_name() -> None:
    rows = [row for row in golden.frames() if 1999 not in (row["code"], row.get("answer_to"))]
    assert {row["code"] for row in rows if row["kind"] != "answer"} <= set(RequestCode)
    assert {row["code"] for row in rows if row["kind"] == "answer"} <= set(ResponseCode)


def test_the_first_election_of_the_session() -> None:
    answer = next(row for code, row in recorded(answers=True) if code == 1002)
    header = Header(ext_fields=answer["header"])
    assert read_fields(header, controller.ElectedMaster) == controller.ElectedMaster(
        master_address="127.0.0.1:30920", master_broker_id=1, master_epoch=1, sync_state_set_epoch=1
    )
    body = controller.decode_elect_master(answer["body"])
    assert body.sync_state_set == (1,)
    assert body.broker_member_group is not None
    assert body.broker_member_group.broker_addrs == {1: "127.0.0.1:30920"}


def test_a_heartbeat_of_an_older_version_has_no_numbers() -> None:
    said = {"brokerAddr": "b:1", "brokerName": "n", "clusterName": "c"}
    found = read_fields(Header(ext_fields=said), controller.ControllerHeartbeat)
    assert found.broker_id is None
    assert write_fields(found) == said


@pytest.mark.parametrize(
    ("fields", "said", "what"),
    [
        (controller.AlterSyncStateSet, {"brokerName": "b", "masterEpoch": "1"}, "masterBrokerId"),
        (
            controller.AlterSyncStateSet,
            {"brokerName": "b", "masterBrokerId": "1", "masterEpoch": str(2**31)},
            "masterEpoch",
        ),
        (controller.ElectMaster, {"brokerName": "b", "designateElect": "perhaps"}, "designate"),
        (controller.ApplyBrokerId, {"brokerName": "b"}, "appliedBrokerId"),
    ],
)
def test_fields_that_are_missing_or_wrong_are_named(
    fields: type[Fields], said: dict[str, str], what: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=what):
        read_fields(Header(ext_fields=said), fields)


@pytest.mark.parametrize(
    ("decode", "body"),
    [
        (controller.decode_sync_state_set, b'{"syncStateSet":["one"]}'),
        (controller.decode_sync_state_set, b'{"syncStateSet":{"1":2}}'),
        (controller.decode_sync_state_set, b""),
        (controller.decode_names, b'{"a":1}'),
        (controller.decode_epoch_cache, b'{"epochList":[{"epoch":2147483648}]}'),
        (controller.decode_replicas_info, b'{"replicasInfoTable":[]}'),
    ],
)
def test_other_bodies_are_refused(decode: Decode, body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(body)


@given(st.binary(max_size=80) | st.recursive(st.none() | st.integers(), st.lists).map(json.dumps))
def test_any_body_is_read_or_refused(data: bytes | str) -> None:
    body = data.encode() if isinstance(data, str) else data
    for decode in DECODERS:
        try:
            found = decode(body)
        except RemoteProtocolError:
            continue
        assert decode(encode_body(found)) == found
