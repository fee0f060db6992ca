"""What one name server is told of a broker, and when: the core beside a name server's core."""

from __future__ import annotations

import msgspec
import pytest

from actors.broker.core.registration import (
    CALL_S,
    CHANGES_MAX,
    PART_TOPICS,
    PERIOD_S,
    RETRY_FIRST_S,
    RETRY_MAX_S,
    TOPIC_CALL_S,
    Registration,
    in_parts,
)
from actors.namesrv.core.name_server import Asked, NameServer, Place
from actors.storage.files.stepping import finish
from wire.broker.codes import RequestCode
from wire.broker.java_json import encode
from wire.broker.registration import VersionChanged, encode_registration
from wire.broker.routes import decode_route
from wire.broker.topics import DataVersion, TopicConfig, TopicTable
from wire.remoting.header import Header, read_fields

FIELDS = {
    "brokerName": "b",
    "brokerAddr": "a:1",
    "clusterName": "C",
    "haServerAddr": "a:2",
    "brokerId": "0",
    "enableActingMaster": "false",
}


def table(*names: str, counter: int = 1, queues: int = 4) -> TopicTable:
    rows = {name: TopicConfig(topic_name=name, write_queue_nums=queues) for name in names}
    version = DataVersion(counter=counter, state_version=0, timestamp=1000)
    return TopicTable(data_version=version, topic_config_table=rows)


class Told:
    """A registration, and the name server that it is of."""

    def __init__(self) -> None:
        self.registration = Registration()
        self.server = NameServer(Place(host="127.0.0.1", port=9876, folder="/data"))
        self.sent: list[list[str]] = []
        self.compared = 0
        self.now_s = 0.0

    def send(self, have: TopicTable) -> bool:
        """One request, if there is one. Returns: whether there was."""
        told = self.registration.next(have, self.now_s)
        if told is None:
            return False
        if told.compares:
            self.compared += 1
            fields = {key: FIELDS[key] for key in ("brokerName", "brokerAddr", "clusterName")}
            body = encode(told.table.data_version)
            answer = self._answer(RequestCode.QUERY_DATA_VERSION, fields, body)
            changed = read_fields(answer, VersionChanged).changed
            self.registration.answered(self.now_s, changed=changed)
            return True
        self.sent.append(list(told.table.topic_config_table))
        code = self._ask(
            RequestCode.REGISTER_BROKER,
            FIELDS,
            encode_registration(told.table, version=479),
        )
        if code == 0:
            self.registration.answered(self.now_s)
        else:
            self.registration.failed(f"code {code}", self.now_s)
        return True

    def send_all(self, have: TopicTable) -> None:
        while self.send(have):
            pass

    def _ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> int:
        return self._answer(code, fields, body).code

    def _answer(self, code: int, fields: dict[str, str], body: bytes) -> Header:
        header = Header(code=code, version=479, ext_fields=fields)
        asked = Asked(header=header, connection=1, body=body)
        effects = finish(self.server.serve(asked, self.now_s))
        assert effects.answer is not None
        found = effects.answer.fields
        return Header(code=effects.answer.code, ext_fields=dict(found or {}))

    def wipe(self) -> None:
        assert self._ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "b"}) == 0

    def perm(self, topic: str) -> int:
        return self.server.tables.topics[topic]["b"].perm

    def restart_server(self) -> None:
        self.server = NameServer(Place(host="127.0.0.1", port=9876, folder="/data"))

    def queues(self, topic: str) -> int:
        """As clients are told; 0: the topic is unknown."""
        code = RequestCode.GET_ROUTEINFO_BY_TOPIC
        header = Header(code=code, version=479, ext_fields={"topic": topic})
        asked = Asked(header=header, connection=2, body=b"")
        answer = finish(self.server.serve(asked, self.now_s)).answer
        assert answer is not None
        return decode_route(answer.body).queue_datas[0].write_queue_nums if answer.code == 0 else 0


@pytest.mark.parametrize("names", [(), ("a",), ("a", "b"), ("a", "b", "c")])
def test_all_topics_come_first_and_never_exactly_one(names: tuple[str, ...]) -> None:
    told = Told()
    told.send_all(table(*names))
    assert told.registration.is_registered
    assert len(told.sent[0]) != 1
    assert all(told.queues(name) for name in names)


def test_a_change_is_told_by_itself_with_a_newer_version() -> None:
    told, sent = Told(), []
    told.send_all(table("a", "b"))
    del told.sent[:]
    changed = table("a", "b", "c", counter=2)
    first = told.registration.next(changed, 1.0)
    assert first is not None
    assert list(first.table.topic_config_table) == ["c"]
    assert first.table.data_version.counter == 2
    assert first.timeout_s == TOPIC_CALL_S < CALL_S
    told.registration.answered(1.0)
    sent.append(told.registration.next(changed, 1.0))
    assert sent == [None], "nothing is left to tell"
    told.send_all(table("a", "b", "c", counter=3, queues=9))
    assert told.sent == [["a"], ["b"], ["c"]]
    assert [told.queues(name) for name in "abc"] == [9, 9, 9]


def test_a_topic_that_is_gone_is_not_told_and_told_when_it_is_back() -> None:
    told = Told()
    told.send_all(table("a", "b"))
    assert not told.send(table("a", counter=2))
    assert told.send(table("a", "b", counter=3))
    assert told.sent[-1] == ["b"]


def test_it_registers_in_full_every_period_and_one_at_a_time() -> None:
    told, have = Told(), table("a", "b")
    assert told.registration.next(have, 0.0) is not None
    assert told.registration.due_s is None
    assert told.registration.next(have, 500.0) is None
    told.registration.answered(1.0)
    assert told.registration.due_s == 1.0 + PERIOD_S
    assert told.registration.next(have, 1.0 + PERIOD_S - 0.1) is None
    assert told.registration.next(have, 1.0 + PERIOD_S) is not None


def test_what_fails_is_tried_again_in_full_after_longer_and_longer_pauses() -> None:
    told, have, pauses = Registration(), table("a", "b"), []
    now_s = 0.0
    for _ in range(8):
        assert told.next(have, now_s) is not None
        told.failed("no", now_s)
        assert not told.is_registered
        assert told.due_s is not None
        pauses.append(told.due_s - now_s)
        assert told.next(have, told.due_s - 0.01) is None
        now_s = told.due_s
    assert pauses[:3] == [RETRY_FIRST_S, 2 * RETRY_FIRST_S, 4 * RETRY_FIRST_S]
    assert pauses[-1] == RETRY_MAX_S


def test_a_name_server_that_has_lost_all_gets_all_after_it_refused_a_single_topic() -> None:
    told = Told()
    told.send_all(table("a", "b"))
    told.server = NameServer(Place(host="127.0.0.1", port=9876, folder="/data"))
    assert told.send(table("a", "b", "c", counter=2))
    assert not told.registration.is_registered
    assert told.registration.due_s is not None
    told.now_s = told.registration.due_s
    told.send_all(table("a", "b", "c", counter=2))
    assert [told.queues(name) for name in "abc"] == [4, 4, 4]


def test_a_failure_between_two_parts_begins_anew() -> None:
    told, have = Registration(), table("a")
    assert told.next(have, 0.0) is not None
    told.answered(0.0)
    assert not told.is_registered, "the topic itself has not been told"
    assert told.next(have, 0.0) is not None
    told.failed("lost", 0.0)
    again = told.next(have, 10.0)
    assert again is not None
    assert not again.table.topic_config_table


def test_many_changes_are_told_in_full() -> None:
    told = Told()
    told.send_all(table("a", "b"))
    many = [f"t{number}" for number in range(CHANGES_MAX + 1)]
    told.send_all(table("a", "b", *many, counter=2))
    assert len(told.sent) == 2
    assert all(told.queues(name) for name in many)


@pytest.mark.parametrize("count", [0, 1, 2, PART_TOPICS, PART_TOPICS + 1, 2 * PART_TOPICS + 7])
def test_parts_hold_each_topic_once_under_different_versions(count: int) -> None:
    have = table(*(f"t{number}" for number in range(count)))
    parts = in_parts(have)
    rows = [name for part in parts for name in part.topic_config_table]
    assert rows == list(have.topic_config_table)
    versions = [part.data_version for part in parts]
    assert versions[-1] == have.data_version
    assert len(set(versions)) == len(parts)
    assert len(parts[0].topic_config_table) != 1
    assert all(len(part.topic_config_table) <= PART_TOPICS for part in parts)


def test_a_4x_name_server_takes_each_part_and_all_behind_a_lone_topic() -> None:
    """It takes a table of a known broker only if its version is another one than the last."""

    def takes(seen: list[DataVersion], version: DataVersion) -> bool:
        taken = not seen or version != seen[-1]
        seen.append(version)
        return taken

    seen: list[DataVersion] = []
    assert all(takes(seen, part.data_version) for part in in_parts(table("a")))
    told, have = Registration(), table("a", "b")
    assert told.next(have, 0.0) is not None
    told.answered(0.0)
    changed = msgspec.structs.replace(
        table("a", "b", "c"), data_version=DataVersion(counter=2, timestamp=5)
    )
    seen = []  # it was started anew
    for now_s in (1.0, 1.0 + 2 * PERIOD_S):
        sent = told.next(changed, now_s)
        assert sent is not None
        assert takes(seen, sent.table.data_version)
        told.answered(now_s)


@pytest.mark.parametrize("count", [1, 2, PART_TOPICS + 1])
def test_what_was_wiped_stays_so_until_a_topic_changes(count: int) -> None:
    """As upstream, whose name servers take no table under a version that they have."""
    told, have = Told(), table(*(f"t{number}" for number in range(count)))
    told.send_all(have)
    told.wipe()
    for _ in range(5):
        told.now_s += PERIOD_S
        told.send_all(have)
        assert {told.perm("t0"), told.perm(f"t{count - 1}")} == {4}
    told.now_s += 4 * PERIOD_S
    assert not finish(told.server.tick(told.now_s)).events, "each period renews the registration"
    told.restart_server()
    for _ in range(2):
        told.now_s = max(told.now_s, told.registration.due_s or 0.0)
        told.send_all(have)
    assert {told.perm("t0"), told.perm(f"t{count - 1}")} == {6}
    assert told.registration.is_registered


def test_a_large_table_is_told_once_while_a_name_server_has_it() -> None:
    told, have = Told(), table(*(f"t{number}" for number in range(PART_TOPICS + 1)))
    told.send_all(have)
    del told.sent[:]
    told.now_s += PERIOD_S
    told.send_all(have)
    assert (told.compared, told.sent) == (1, [])
    assert told.registration.due_s == told.now_s + PERIOD_S
    told.restart_server()
    told.now_s += PERIOD_S
    told.send_all(have)
    assert (told.compared, len(told.sent)) == (2, 2)


def test_a_name_server_that_compares_nothing_is_told_all() -> None:
    """3.2.6 does not know the question, and leaves it unanswered."""
    told, have = Told(), table(*(f"t{number}" for number in range(PART_TOPICS + 1)))
    told.send_all(have)
    now_s = PERIOD_S
    asked = told.registration.next(have, now_s)
    assert asked is not None
    assert asked.compares
    assert asked.timeout_s == TOPIC_CALL_S
    told.registration.failed("code 3", now_s)
    assert told.registration.is_registered, "nobody said that it is not"
    sent = told.registration.next(have, now_s)
    assert sent is not None
    assert not sent.compares
    told.registration.failed("no", now_s)
    assert not told.registration.is_registered
