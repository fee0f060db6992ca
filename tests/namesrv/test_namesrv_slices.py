"""A broker of very many topics: the name server's loop is held for a slice of them at a time."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec
import pytest
from namesrv_kit import table
from registering import encode_registration

from actors.namesrv.core.name_server import Asked, Effects, NameServer, Place
from actors.namesrv.core.tables import SLICE_TOPICS, Tables
from wire.broker.codes import RequestCode
from wire.broker.topics import TopicTable
from wire.remoting.header import VERSION, Header

COUNT = 5 * SLICE_TOPICS + 7
FIELDS = {
    "brokerName": "b",
    "brokerAddr": "a:1",
    "clusterName": "C",
    "haServerAddr": "a:2",
    "brokerId": "0",
}
NAMES = tuple(f"t{number}" for number in range(COUNT))


class Touched(dict[str, Any]):
    """Topics by name; counts which are looked at or changed."""

    def __init__(self, rows: dict[str, Any]) -> None:
        super().__init__(rows)
        self.count = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.count += 1
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self.count += 1
        return super().__getitem__(name)

    def items(self) -> Any:
        for item in super().items():
            self.count += 1
            yield item


def most_at_once(server: NameServer, work: Generator[None, None, Effects]) -> tuple[int, int]:
    """How often it yields, and how often it touches a topic between two yields at most."""
    topics = server.tables.topics = Touched(server.tables.topics)
    turns, most = 0, 0
    for _ in work:
        turns, most, topics.count = turns + 1, max(most, topics.count), 0
    return turns, max(most, topics.count)


def asked(code: RequestCode, have: TopicTable | None = None) -> Asked:
    header = Header(code=code, version=VERSION, ext_fields=FIELDS)
    body = b"" if have is None else encode_registration(have, version=VERSION)
    return Asked(header=header, connection=1, body=body)


def registered() -> NameServer:
    server = NameServer(Place(host="127.0.0.1", port=9876, folder="/data"))
    most_at_once(server, server.serve(asked(RequestCode.REGISTER_BROKER, table(*NAMES)), 0.0))
    assert server.tables.topics.keys() == set(NAMES)
    return server


def changed(perm: int) -> TopicTable:
    have = table(*NAMES, counter=2)
    rows = {
        name: msgspec.structs.replace(row, perm=perm)
        for name, row in have.topic_config_table.items()
    }
    return msgspec.structs.replace(have, topic_config_table=rows)


@pytest.mark.parametrize(
    ("what", "topics_left"),
    [
        ("registered", COUNT),
        ("registered again", COUNT),
        ("unregistered", 0),
        ("connection ended", 0),
        ("expired", 0),
        ("wiped", COUNT),
        ("added", COUNT),
    ],
)
def test_nothing_about_all_topics_is_done_at_once(what: str, topics_left: int) -> None:
    server = registered()
    work = {
        "registered": server.serve(asked(RequestCode.REGISTER_BROKER, changed(4)), 1.0),
        "registered again": server.serve(asked(RequestCode.REGISTER_BROKER, table(*NAMES)), 1.0),
        "unregistered": server.serve(asked(RequestCode.UNREGISTER_BROKER), 1.0),
        "connection ended": server.ended(1),
        "expired": server.tick(1000.0),
        "wiped": server.serve(asked(RequestCode.WIPE_WRITE_PERM_OF_BROKER), 1.0),
        "added": server.serve(asked(RequestCode.ADD_WRITE_PERM_OF_BROKER), 1.0),
    }[what]
    turns, most = most_at_once(server, work)
    assert turns >= COUNT // SLICE_TOPICS
    assert most <= 4 * SLICE_TOPICS, "a topic is touched a few times"
    assert len(server.tables.topics) == topics_left


def test_a_small_registration_takes_no_turns() -> None:
    server = NameServer(Place(host="127.0.0.1", port=9876, folder="/data"))
    work = server.serve(asked(RequestCode.REGISTER_BROKER, table("a", "b")), 0.0)
    assert most_at_once(server, work)[0] == 0


def test_a_first_registration_is_in_slices_too() -> None:
    server = NameServer(Place(host="127.0.0.1", port=9876, folder="/data"))
    work = server.serve(asked(RequestCode.REGISTER_BROKER, table(*NAMES)), 0.0)
    turns, most = most_at_once(server, work)
    assert turns >= 2 * (COUNT // SLICE_TOPICS)
    assert most <= 4 * SLICE_TOPICS
    assert isinstance(server.tables, Tables)
