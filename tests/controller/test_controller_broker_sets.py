"""A controller's decisions: those of Java 5.3.3 to the same requests, and where ours differ."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import attrs
import golden_autoswitch as golden
import pytest
from controller_kit import CLUSTER, NAME, address, apply, living, recorded_events, recorded_sets

from actors.controller.core import broker_sets
from actors.controller.core.broker_sets import BrokerSet, BrokerSets, Decision, Replica
from actors.controller.core.liveness import Living
from wire.broker import controller as said
from wire.broker import controller_events as events
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.dialect import bare_integer_keys, encode_body
from wire.errors import RemoteProtocolError
from wire.remoting.header import Header, read_fields, write_fields


def answer(decision: Decision) -> tuple[int, str, dict[str, str], bytes]:
    fields = {} if decision.fields is None else write_fields(decision.fields)
    body = b"" if decision.body is None else bare_integer_keys(encode_body(decision.body))
    return decision.code, decision.remark or "", fields, body


# ---- recorded ----


def test_recorded_events_are_read_written_and_applied() -> None:
    for body in recorded_events():
        event = events.decode_event(body)
        assert (b"" if event is None else events.encode_event(event)) == body
    assert list(recorded_sets()) == [
        BrokerSet(
            cluster=CLUSTER, name=NAME, next_id=4, master_id=2, master_epoch=4,
            in_sync=(1, 2, 3), in_sync_epoch=9,
            replicas={
                1: Replica(address(1), "127.0.0.1:30920;1795198917629"),
                2: Replica(address(2), "127.0.0.1:30930;1795198924205"),
                3: Replica(address(3), "127.0.0.1:30940;1795199048261"),
            },
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"\0", "begins with its type"),
        (b"\0\4{}", "no event of type 4"),
        (b"\0\1{}", "missing"),
        (b'\0\1{"brokerName":"b","eventType":"ELECT_MASTER_EVENT"}', "eventType"),
        (b"\0\1", "truncated"),
    ],
)
def test_other_events_are_refused(body: bytes, what: str) -> None:
    with pytest.raises(RemoteProtocolError, match=what):
        events.decode_event(body)


def probes() -> list[Any]:
    """Requests that were made by hand, each with Java's answer."""
    rows = list(golden.frames())
    found = []
    for at, row in enumerate(rows):
        if row["handmade"] and row["kind"] == "request":
            reply = next(
                each
                for each in rows[at + 1 :]
                if each["conn"] == row["conn"] and each["kind"] == "answer"
            )
            found.append((row, reply))
    return found


Ids: TypeAlias = tuple[int, ...]
Ask = Callable[[BrokerSets, Header, bytes, Ids], Decision]
ALL: Ids = (1, 2, 3)


def alive_of(header: Header, ids: Ids) -> dict[int, Living]:
    """They lived, as members of their cluster."""
    fields = header.ext_fields or {}
    here = fields.get("clusterName", CLUSTER) == CLUSTER and fields.get("brokerName") == NAME
    return living(*ids) if here else {}


ASK: dict[int, Ask] = {
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: lambda sets, header, body, ids: sets.alter(
        read_fields(header, said.AlterSyncStateSet),
        said.decode_sync_state_set(body),
        alive_of(header, ids),
    ),
    RequestCode.CONTROLLER_ELECT_MASTER: lambda sets, header, body, ids: sets.elect(
        read_fields(header, said.ElectMaster), alive_of(header, ids)
    ),
    RequestCode.CONTROLLER_REGISTER_BROKER: lambda sets, header, body, ids: sets.register(
        read_fields(header, said.RegisterToController), alive_of(header, ids)
    ),
    RequestCode.CONTROLLER_GET_REPLICA_INFO: lambda sets, header, body, ids: sets.replica_info(
        read_fields(header, said.BrokerSet)
    ),
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: lambda sets, header, body, ids: (
        sets.sync_state_data(said.decode_names(body), lambda found: living(*ids))
    ),
    RequestCode.CLEAN_BROKER_DATA: lambda sets, header, body, ids: sets.clean(
        read_fields(header, said.CleanBrokerData), alive_of(header, ids)
    ),
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: lambda sets, header, body, ids: sets.next_id(
        read_fields(header, said.BrokerSet)
    ),
    RequestCode.CONTROLLER_APPLY_BROKER_ID: lambda sets, header, body, ids: sets.apply_id(
        read_fields(header, said.ApplyBrokerId)
    ),
}


@pytest.mark.checklist(37, 40, 45, of="autoswitch")
def test_probes_get_javas_answers() -> None:
    asked = [(row, reply) for row, reply in probes() if row["code"] in ASK]
    assert {row["code"] for row, _ in asked} >= ASK.keys() - {1004}
    for row, reply in asked:
        header = Header(ext_fields=row["header"])
        decision = ASK[row["code"]](recorded_sets(), header, row["body"], ALL)
        expected = (reply["code"], reply.get("remark") or "", reply["header"], reply["body"])
        assert answer(decision) == expected, row


def replies() -> dict[tuple[int, int], Any]:
    """Java's answers by connection and by the number of the request."""
    return {(row["conn"], row["opaque"]): row for row in golden.frames() if row["kind"] == "answer"}


def test_the_session_gets_javas_answers() -> None:
    """What brokers and mqadmin asked gets Java's answer byte for byte, and appends Java's event.

    Who lived at that moment was not recorded, nor when the controller elected by itself. So the
    answer has to be that of the recorded events up to some point, which never goes back, with some
    of the replicas alive.
    """
    log = [event for body in recorded_events() if (event := events.decode_event(body)) is not None]
    found, at, asked, appended = replies(), 0, set(), 0
    for row in golden.frames():
        key = (row["conn"], row["opaque"])
        if row["handmade"] or row["kind"] != "request" or row["code"] not in ASK:
            continue
        if key not in found:
            continue  # the controller was killed
        if at == len(log):
            break  # the log was saved here
        reply = found[key]
        expected = (reply["code"], reply.get("remark") or "", reply["header"], reply["body"])
        at, decision = next(
            (point, decision)
            for point in range(at, len(log))
            for decision in decisions(log[:point], row)
            if answer(decision) == expected and decision.event in (None, log[point])
        )
        asked.add(row["code"])
        if decision.event is not None:
            at, appended = at + 1, appended + 1
    assert asked == ASK.keys() - {RequestCode.CLEAN_BROKER_DATA}
    assert appended > 8


def decisions(log: list[events.ControllerEvent], row: Any) -> Iterator[Decision]:
    """What is decided about a request after these events, for each choice of living replicas."""
    sets = BrokerSets()
    for event in log:
        sets.apply(event)
    for count in range(4):
        for ids in itertools.combinations((1, 2, 3), count):
            yield ASK[row["code"]](sets, Header(ext_fields=row["header"]), row["body"], ids)


# ---- elections ----


def pair(**fields: Any) -> BrokerSets:
    """A set of the replicas 1, 2 and 3; 1 is master of epoch 1, 1 and 2 are in sync."""
    sets = BrokerSets(unclean=fields.pop("unclean", False))
    for broker_id in (1, 2, 3):
        asked = apply(broker_id)
        decision = sets.apply_id(asked)
        assert decision.event is not None
        sets.apply(decision.event)
    for event in (
        events.ElectMaster(broker_name=NAME, new_master_broker_id=1, new_master_elected=True),
        events.AlterSyncStateSet(broker_name=NAME, new_sync_state_set=(1, 2)),
    ):
        sets.apply(event)
    return sets


def elect(sets: BrokerSets, alive: dict[int, Living], **fields: Any) -> int | None:
    """The elected master's id, after its event was applied."""
    decision = sets.elect(said.ElectMaster(broker_name=NAME, **fields), alive)
    if decision.event is not None:
        sets.apply(decision.event)
    found = decision.fields
    return found.master_broker_id if isinstance(found, said.ElectedMaster) else None


def only(sets: BrokerSets) -> BrokerSet:
    found = sets.get(NAME)
    assert found is not None
    return found


@pytest.mark.checklist(38, of="autoswitch")
def test_the_first_master_is_who_asks_first() -> None:
    sets = BrokerSets()
    for broker_id in (1, 2):
        decision = sets.apply_id(apply(broker_id))
        assert decision.event is not None
        sets.apply(decision.event)
    assert elect(sets, living(1, 2)) is None  # the controller itself
    assert elect(sets, living(1, 2), broker_id=9) is None
    assert sets.wanting(NAME, living(1, 2)) is None
    assert elect(sets, {}, broker_id=2) == 2
    assert (only(sets).master_epoch, only(sets).in_sync, only(sets).in_sync_epoch) == (1, (2,), 1)


@pytest.mark.checklist(39, of="autoswitch")
def test_only_members_of_the_set_are_elected() -> None:
    sets = pair()
    assert elect(sets, living(2, 3)) == 2
    assert (only(sets).master_epoch, only(sets).in_sync, only(sets).in_sync_epoch) == (2, (2,), 3)
    assert elect(sets, living(1, 3), broker_id=3) is None
    assert only(sets).master_id == 2
    assert elect(sets, living(1, 3)) is None  # the controller itself clears a dead master, once
    assert (only(sets).master_id, only(sets).master_epoch, only(sets).in_sync) == (None, 3, (2,))
    assert elect(sets, living(1, 3)) is None
    assert only(sets).master_epoch == 3
    assert elect(sets, living(1, 2, 3)) == 2
    assert only(sets).master_epoch == 4


def test_an_unclean_election_takes_anybody_after_the_members() -> None:
    sets = pair(unclean=True)
    assert elect(sets, living(2, 3) | living(3, epoch=9)) == 2
    assert elect(sets, living(3)) == 3


@pytest.mark.checklist(38, of="autoswitch")
@pytest.mark.parametrize(
    ("one", "two", "best"),
    [
        ({"epoch": 2, "max_offset": 1}, {"epoch": 1, "max_offset": 9}, 1),
        ({"epoch": 1, "max_offset": 9}, {"epoch": 1, "max_offset": 8}, 1),
        ({"max_offset": 2**31}, {"max_offset": 0}, 1),
        ({"max_offset": 0}, {"max_offset": 2**32}, 2),
        ({"priority": 5}, {"priority": 4}, 2),
        ({}, {}, 1),
    ],
)
def test_the_best_of_the_members_is_elected(
    one: dict[str, int], two: dict[str, int], best: int
) -> None:
    sets = pair()
    sets.apply(events.AlterSyncStateSet(broker_name=NAME, new_sync_state_set=(1, 2, 3)))
    sets.apply(events.ElectMaster(broker_name=NAME))
    for alive in (living(1, **one) | living(2, **two), living(2, **two) | living(1, **one)):
        decision = sets.elect(said.ElectMaster(broker_name=NAME), alive)
        assert isinstance(decision.fields, said.ElectedMaster)
        assert decision.fields.master_broker_id == best


def test_an_operator_gets_the_replica_that_he_names_or_none() -> None:
    sets = pair()
    assert elect(sets, living(1, 2, 3), broker_id=3, designate_elect=True) is None
    assert elect(sets, living(1, 3), broker_id=2, designate_elect=True) is None
    assert elect(sets, living(1, 2), broker_id=2, designate_elect=True) == 2


def test_a_set_wants_an_election_until_somebody_may_be_elected() -> None:
    """autoswitch-ha.md T35: upstream looks once, when the master dies."""
    sets = pair()
    assert sets.wanting(NAME, living(1, 2)) is None
    asked = sets.wanting(NAME, living(3))
    assert asked is not None
    assert asked.broker_id == said.CONTROLLER_ITSELF
    decision = sets.elect(asked, living(3))
    assert decision.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    assert decision.event is not None
    sets.apply(decision.event)
    assert sets.wanting(NAME, living(3)) is None
    assert sets.wanting(NAME, living(2, 3)) is not None


# ---- ids, addresses, cleaning ----


@pytest.mark.checklist(42, of="autoswitch")
def test_an_id_is_given_once_and_to_its_owner_again() -> None:
    sets = pair()
    assert sets.apply_id(apply(2)) == Decision(
        fields=said.BrokerSet(broker_name=NAME, cluster_name=CLUSTER)
    )
    other = sets.apply_id(apply(2, "127.0.0.1:1;8"))
    assert other.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    late = sets.apply_id(apply(9))
    assert late.event is not None
    sets.apply(late.event)
    following = sets.next_id(said.BrokerSet(broker_name=NAME)).fields
    assert isinstance(following, said.NextBrokerId)
    assert following.next_broker_id == 10  # upstream says 5, and comes to 9 again


@pytest.mark.parametrize("broker_id", [0, -1, 4 + broker_sets.IDS_AHEAD_MAX + 1, 2**32])
def test_ids_out_of_range_are_refused(broker_id: int) -> None:
    decision = pair().apply_id(apply(broker_id))
    assert decision.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert decision.event is None


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_sets, "SETS_MAX", 1)
    monkeypatch.setattr(broker_sets, "REPLICAS_MAX", 3)
    sets = pair()
    for asked in (
        apply(1, name="another"),
        apply(4),
        apply(4, "x" * (broker_sets.TEXT_CHARS_MAX + 1)),
    ):
        decision = sets.apply_id(asked)
        assert decision.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
        assert decision.event is None
    long = said.RegisterToController(
        broker_address="x" * (broker_sets.TEXT_CHARS_MAX + 1), broker_id=1, broker_name=NAME,
        cluster_name=CLUSTER,
    )  # fmt: skip
    assert sets.register(long, {}).code == ResponseCode.CONTROLLER_INVALID_REQUEST


@pytest.mark.checklist(43, of="autoswitch")
def test_a_changed_address_is_noted_and_the_master_told_if_it_lives() -> None:
    sets = pair()
    moved = said.RegisterToController(
        broker_address="other:1", broker_id=2, broker_name=NAME, cluster_name=CLUSTER
    )
    decision = sets.register(moved, living(1))
    assert isinstance(decision.fields, said.RegisteredToController)
    assert decision.fields.master_broker_id == 1
    assert decision.event is not None
    sets.apply(decision.event)
    assert only(sets).replicas[2] == Replica("other:1", f"{address(2)};7")
    again = sets.register(moved, {})
    assert again.event is None
    assert isinstance(again.fields, said.RegisteredToController)
    assert again.fields.master_broker_id is None


def clean(sets: BrokerSets, ids: str | None, alive: dict[int, Living], *, force: bool) -> int:
    asked = said.CleanBrokerData(
        broker_controller_ids_to_clean=ids, broker_name=NAME, is_clean_living_broker=force
    )
    decision = sets.clean(asked, alive)
    if decision.event is not None:
        sets.apply(decision.event)
    return decision.code


@pytest.mark.checklist(45, of="autoswitch")
def test_cleaning_takes_the_dead_and_with_force_the_named() -> None:
    sets = pair()
    refused = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    assert clean(sets, None, {}, force=False) == refused
    assert clean(sets, "2;3", living(3), force=False) == refused
    assert clean(sets, "2;x", {}, force=False) == refused
    assert clean(sets, "3", living(1, 2), force=False) == 0
    assert list(only(sets).replicas) == [1, 2]
    assert clean(sets, "1", living(1, 2), force=True) == 0  # upstream forgets the set
    assert (list(only(sets).replicas), only(sets).in_sync, only(sets).master_id) == (
        [2],
        (2,),
        None,
    )
    assert elect(sets, living(2)) == 2
    assert clean(sets, None, living(2), force=True) == 0
    assert sets.get(NAME) is None
    assert clean(sets, None, {}, force=True) == refused


def test_a_set_whose_members_were_cleaned_elects_nobody_else() -> None:
    """Upstream forgets the set, and the next replica that asks is master, whatever it holds."""
    sets = pair()
    assert clean(sets, "1;2", {}, force=False) == 0
    assert elect(sets, living(3), broker_id=3) is None
    assert elect(sets, living(3)) is None
    sets.unclean = True
    assert elect(sets, living(3)) == 3


def test_events_about_unknown_sets_and_replicas_change_nothing() -> None:
    sets = pair()
    before = list(sets)
    for event in (
        events.AlterSyncStateSet(broker_name="other"),
        events.UpdateBrokerAddress(
            broker_address="a:1", broker_id=9, broker_name=NAME, cluster_name=CLUSTER
        ),
        events.CleanBrokerData(broker_name="other"),
    ):
        sets.apply(event)
    assert list(sets) == before


def test_a_master_is_altered_by_nobody_else_after_it_was_cleared() -> None:
    sets = pair()
    sets.apply(events.ElectMaster(broker_name=NAME))
    asked = said.AlterSyncStateSet(broker_name=NAME, master_broker_id=1, master_epoch=2)
    wanted = said.SyncStateSet(sync_state_set=(1,), sync_state_set_epoch=2)
    decision = sets.alter(asked, wanted, living(1, 2))
    assert decision.code == ResponseCode.CONTROLLER_INVALID_MASTER
    assert decision.remark is not None
    assert "{null}" in decision.remark


@pytest.mark.checklist(37, of="autoswitch")
def test_a_dead_member_cannot_join() -> None:
    sets = pair()
    asked = said.AlterSyncStateSet(broker_name=NAME, master_broker_id=1, master_epoch=1)
    wanted = said.SyncStateSet(sync_state_set=(3, 1, 3), sync_state_set_epoch=2)
    assert sets.alter(asked, wanted, living(1)).code == ResponseCode.CONTROLLER_BROKER_NOT_ALIVE
    decision = sets.alter(asked, wanted, living(1, 3))
    assert decision.event is not None
    sets.apply(decision.event)
    assert (only(sets).in_sync, only(sets).in_sync_epoch) == ((1, 3), 3)
    assert attrs.asdict(only(sets))["master_epoch"] == 1
