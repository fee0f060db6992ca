"""What one name server is told of a broker, and when: the core beside a name server's core."""

from __future__ import annotations

import attrs
import msgspec
import pytest
from registering import encode_registration

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
from actors.broker.core.registration import Told as RequestOf
from actors.namesrv.core.name_server import Asked, NameServer, Place
from actors.storage.files.stepping import finish
from wire.broker.codes import RequestCode
from wire.broker.java_json import encode
from wire.broker.registration import (
    VersionChanged,
)
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
        self.last: RequestOf | None = None

    def send(self, have: TopicTable) -> bool:
        """One request, if there is one. Returns: whether there was."""
        self.last = told = self.registration.next(have, self.now_s)
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

    def version(self) -> DataVersion:
        return self.server.tables.live["C", FIELDS["brokerAddr"]].version

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
    told = Told()
    told.send_all(table("a", "b"))
    del told.sent[:]
    changed = table("a", "b", "c", counter=2)
    assert told.send(changed)
    assert (told.compared, told.sent) == (1, []), "whether it still has what it was told"
    assert told.send(changed)
    assert told.sent.pop() == ["c"]
    assert told.last is not None
    assert told.last.table.data_version == changed.data_version
    assert told.last.timeout_s == TOPIC_CALL_S < CALL_S
    assert not told.send(changed), "nothing is left to tell"
    told.send_all(table("a", "b", "c", counter=3, queues=9))
    assert told.sent == [["a"], ["b"], ["c"]]
    assert [told.queues(name) for name in "abc"] == [9, 9, 9]


def test_a_topic_that_is_gone_is_not_told_and_told_when_it_is_back() -> None:
    told = Told()
    told.send_all(table("a", "b"))
    assert not told.send(table("a", counter=2))
    told.send_all(table("a", "b", counter=3))
    assert "b" in told.sent[-1]
    assert told.queues("b")


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


@pytest.mark.parametrize("is_lost_before", [True, False])
def test_a_name_server_that_has_lost_all_gets_all(is_lost_before: bool) -> None:
    """Before it is asked what it has, or when it then refuses a single topic."""
    told, changed = Told(), table("a", "b", "c", counter=2)
    told.send_all(table("a", "b"))
    if is_lost_before:
        told.restart_server()
    assert told.send(changed)
    assert told.compared == 1
    if not is_lost_before:
        told.restart_server()
        assert told.send(changed)
        assert not told.registration.is_registered
        assert told.registration.due_s is not None
        told.now_s = told.registration.due_s
    told.send_all(changed)
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


@attrs.define
class Older:
    """A name server of 4.x, which takes a table of a known broker only if its version is another
    one than the last; one of 3.2.6 compares nothing.
    """

    compares: bool = True
    version: DataVersion | None = None
    topics: set[str] = attrs.field(factory=set)

    def answer(self, registration: Registration, told: RequestOf, now_s: float) -> None:
        version = told.table.data_version
        if told.compares and not self.compares:
            registration.failed("time-out", now_s)
        elif told.compares:
            registration.answered(now_s, changed=version != self.version)
        else:
            if version != self.version:
                self.topics |= told.table.topic_config_table.keys()
            self.version = version
            registration.answered(now_s)


@pytest.mark.parametrize("compares", [True, False], ids=["4.9.7", "3.2.6"])
@pytest.mark.parametrize("names", ["a", "ab"])
def test_an_older_name_server_has_all_whenever_it_is_started_anew(
    compares: bool, names: str
) -> None:
    told, server, now_s = Registration(), Older(compares), 0.0
    have = table(*names)
    for counter in range(2, 9):
        if counter % 2:
            server = Older(compares)
        changed = table(*names, *(f"t{at}" for at in range(counter)), counter=counter)
        for each in (have, changed):
            for _ in range(3):
                while (request := told.next(each, now_s)) is not None:
                    server.answer(told, request, now_s)
                now_s += PERIOD_S
        have = changed
        assert server.topics == have.topic_config_table.keys()


@pytest.mark.parametrize("count", [2, 3, PART_TOPICS + 1])
def test_a_change_gives_back_what_was_wiped_of_its_topic_alone(count: int) -> None:
    """As upstream's brokers, which tell a changed topic under the table's version."""
    told, names = Told(), [f"t{number}" for number in range(count)]
    told.send_all(table(*names))
    told.wipe()
    changed = table(*names, "new", counter=2)
    rows = {**changed.topic_config_table, "t1": TopicConfig(topic_name="t1", write_queue_nums=9)}
    changed = msgspec.structs.replace(changed, topic_config_table=rows)
    for _ in range(4):
        told.send_all(changed)
        assert [told.perm(name) for name in ("t0", "t1", "new")] == [4, 6, 6]
        told.now_s += PERIOD_S
    assert [told.queues(name) for name in ("t0", "t1", "new")] == [4, 9, 4]


def test_a_deletion_gives_back_what_was_wiped_with_the_next_table() -> None:
    """As upstream's brokers, of which nothing but the next table tells that a topic is gone."""
    told = Told()
    told.send_all(table("a", "b", "c"))
    told.wipe()
    told.send_all(table("a", "b", counter=2))
    assert [told.perm(name) for name in "ab"] == [4, 4]
    told.now_s += PERIOD_S
    told.send_all(table("a", "b", counter=2))
    assert [told.perm(name) for name in "ab"] == [6, 6]


@pytest.mark.parametrize("count", [3, PART_TOPICS + 2])
def test_a_deletion_is_told_with_the_next_table_although_a_topic_changed_with_it(
    count: int,
) -> None:
    """Under a version that a name server has, it takes no table, and never hears what is gone."""
    told, (*left, _gone) = Told(), [f"t{number}" for number in range(count)]
    told.send_all(table(*left, "gone"))
    for counter, names in enumerate(([*left, "a", "b"], [*left, "b"]), 2):
        have = table(*names, counter=counter)
        told.send_all(have)
        assert told.queues("b") == 4, "a new topic does not wait for that"
        assert told.version() != have.data_version, "the next table is new to it"
        del told.sent[:]
        told.now_s += PERIOD_S
        told.send_all(have)
        assert {name for part in told.sent for name in part} == set(names)
        assert told.version() == have.data_version


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


def test_a_name_server_that_was_away_is_asked_again_what_it_has() -> None:
    """Only one that takes registrations and compares nothing is not."""
    told, have = Told(), table("a", "b")
    told.send_all(have)
    changed = table("a", "b", "c", counter=2)
    for number in range(2):  # the comparison, and the registration after it
        request = told.registration.next(changed, told.now_s)
        assert request is not None
        assert request.compares is (number == 0)
        told.registration.failed("no connection", told.now_s)
        told.now_s = told.registration.due_s or 0.0
    told.send_all(changed)
    told.wipe()
    told.send_all(table("a", "b", "c", "d", counter=3))
    assert (told.compared, told.sent[-1]) == (1, ["d"])
    told.now_s += 2 * PERIOD_S
    told.send_all(table("a", "b", "c", "d", counter=3))
    assert [told.perm(name) for name in "abcd"] == [4, 4, 4, 6]


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


@pytest.mark.parametrize("timestamp", [-(1 << 63), (1 << 63) - 1])
def test_a_table_is_told_whatever_the_time_of_its_version_is(timestamp: int) -> None:
    """It can be any number that a file can have."""
    told = Told()
    for counter, names in enumerate((["a"], ["b"], ["b", "c", "d"]), 1):
        version = DataVersion(counter=counter, state_version=0, timestamp=timestamp)
        told.send_all(msgspec.structs.replace(table(*names), data_version=version))
        told.now_s += PERIOD_S
        told.send_all(msgspec.structs.replace(table(*names), data_version=version))
        assert all(told.queues(name) for name in names)
        assert told.version() == version
