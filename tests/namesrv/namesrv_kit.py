"""A name server's core, and brokers that register with it: requests by keywords, answers read."""

from __future__ import annotations

import gzip
import json
import pathlib
import zlib
from collections.abc import Mapping
from typing import Any

import attrs
from registering import encode_registration

from actors.namesrv.core.name_server import Answer, Asked, Effects, NameServer, Place
from actors.storage.files.stepping import finish
from wire.broker.codes import RequestCode
from wire.broker.routes import TopicRouteData, decode_route
from wire.broker.topics import DataVersion, TopicConfig, TopicTable
from wire.remoting.header import Header

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "broker"
VERSION = 479


def golden_session() -> list[dict[str, Any]]:
    """Requests and replies of a recorded session, in order; `end`: the connection ended."""
    text = gzip.decompress((GOLDEN / "name-server-5.3.3.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def table(
    *names: str, counter: int = 1, state: int = 0, perm: int = 6, queues: int = 4
) -> TopicTable:
    """The topics of a broker."""
    topics = {
        name: TopicConfig(
            topic_name=name, perm=perm, read_queue_nums=queues, write_queue_nums=queues
        )
        for name in names
    }
    version = DataVersion(counter=counter, state_version=state, timestamp=1)
    return TopicTable(data_version=version, topic_config_table=topics)


@attrs.define
class Driven:
    """A core with a clock that tests move.

    Attributes:
        told: all events so far.
        last: the effects of the last input.
    """

    core: NameServer = attrs.field(
        factory=lambda: NameServer(Place(host="127.0.0.1", port=9876, folder="/data"))
    )
    now_s: float = 1000.0
    told: list[Any] = attrs.field(factory=list)
    last: Effects = attrs.field(factory=Effects)

    def ask(
        self,
        code: int,
        *,
        version: int = VERSION,
        connection: int = 1,
        body: bytes = b"",
        **fields: object,
    ) -> Answer:
        """The answer to a request; what is to be saved is."""
        texts = {key: str(value).lower() if isinstance(value, bool) else str(value)
                 for key, value in fields.items()}  # fmt: skip
        return self.serve(code, version, connection, texts, body)

    def serve(
        self, code: int, version: int, connection: int, fields: Mapping[str, str], body: bytes
    ) -> Answer:
        header = Header(code=code, version=version, ext_fields=dict(fields) or None)
        asked = Asked(header=header, connection=connection, body=body)
        self._take(finish(self.core.serve(asked, self.now_s)))
        if self.last.save is not None:
            self.core.saved(self.last.save)
        assert self.last.answer is not None
        return self.last.answer

    def _take(self, effects: Effects) -> None:
        self.last = effects
        self.told += effects.events

    def end(self, connection: int) -> None:
        self._take(finish(self.core.ended(connection)))

    def pass_s(self, seconds: float) -> None:
        """Time passes, with a look at who is silent at its end."""
        self.now_s += seconds
        self._take(finish(self.core.tick(self.now_s)))

    def register(
        self,
        *names: str,
        broker: str = "a",
        broker_id: int = 0,
        address: str = "",
        cluster: str = "C",
        connection: int | None = None,
        topics: TopicTable | None = None,
        version: int = VERSION,
        compressed: bool = False,
        **more: object,
    ) -> Answer:
        """A broker registers these topics. Its address and connection follow from name and id."""
        where = address or f"{broker}:{broker_id}"
        topics = table(*names) if topics is None else topics
        return self.ask(
            RequestCode.REGISTER_BROKER,
            version=version,
            connection=connection_of(where) if connection is None else connection,
            body=encode_registration(topics, compressed=compressed, version=version),
            brokerName=broker,
            brokerAddr=where,
            clusterName=cluster,
            haServerAddr=f"ha-{where}",
            brokerId=broker_id,
            compressed=compressed,
            **more,
        )

    def unregister(self, broker: str = "a", broker_id: int = 0, cluster: str = "C") -> Answer:
        return self.ask(
            RequestCode.UNREGISTER_BROKER,
            brokerName=broker,
            brokerAddr=f"{broker}:{broker_id}",
            clusterName=cluster,
            brokerId=broker_id,
        )

    def route(self, topic: str) -> TopicRouteData | None:
        """A topic's route; None: code 17."""
        answer = self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)
        if answer.code == 17:
            return None
        assert answer.code == 0
        return decode_route(answer.body)

    def addresses(self, topic: str) -> dict[str, dict[int, str]]:
        """Who is in a topic's route: broker name -> id -> address."""
        route = self.route(topic)
        if route is None:
            return {}
        return {each.broker_name: each.broker_addrs for each in route.broker_datas}

    def perms(self, topic: str) -> dict[str, int]:
        route = self.route(topic)
        return {} if route is None else {each.broker_name: each.perm for each in route.queue_datas}


def connection_of(address: str) -> int:
    """A number for each address."""
    return zlib.crc32(address.encode())
