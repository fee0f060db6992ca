"""The fuzzer's targets in what name servers are told, and a name server itself."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

from fuzz_engine import Target
from fuzz_wire import REMOTE, files_of
from registering import encode_registration

from actors.namesrv.core import name_server, settings, tables
from actors.storage.files.stepping import finish
from wire.broker import dialect, registration, routes
from wire.broker.codes import RequestCode
from wire.broker.topics import DataVersion, TopicConfig, TopicTable
from wire.remoting import header
from wire.remoting.header import Header, read_fields, write_fields

_WIRE = files_of(dialect, registration, routes)
_SERVER = files_of(name_server, settings, tables)
_TOKENS = (b"{0:1}", b'"\\', b"null", b'"topicName":"b"', b"-1", b'"perm":7', b"[" * 40, b" 1 2 6 ")
_TABLE = TopicTable(
    data_version=DataVersion(counter=1, timestamp=2),
    topic_config_table={
        "a": TopicConfig(topic_name="a"),
        "b": TopicConfig(topic_name="b", attributes={"k": "v"}),
    },
)
_PLAIN = encode_registration(_TABLE, version=479)
_COMPRESSED = encode_registration(_TABLE, version=479, compressed=True)
_ROUTE = routes.TopicRouteData(
    broker_datas=(routes.BrokerData(broker_addrs={0: "a:1"}, broker_name="a", cluster="C"),),
    queue_datas=(routes.QueueData(broker_name="a", perm=6, read_queue_nums=4, write_queue_nums=4),),
)
_FIELDS = {
    "brokerName": "a", "brokerAddr": "a:1", "clusterName": "C", "haServerAddr": "a:2",
    "brokerId": "0", "enableActingMaster": "true", "topic": "a", "namespace": "n", "key": "k",
    "value": "v", "cluster": "C",
}  # fmt: skip


def registrations(data: bytes) -> object:
    """The first byte says by which version; what is read is written and read again alike."""
    version = 36 if data[:1] == b"o" else 479
    found = registration.decode_registration(data[1:], compressed=False, version=version)
    again = encode_registration(found, version=479)
    assert registration.decode_registration(again, compressed=False, version=479) == found
    return None


def compressed(data: bytes) -> object:
    """What is in the stream. Written again it is the same, but for what JSON spells otherwise."""
    found = registration.decode_registration(zlib.compress(data, 1), compressed=True, version=479)
    again = encode_registration(found, version=479, compressed=True)
    assert registration.decode_registration(again, compressed=True, version=479) == found
    return None


def streams(data: bytes) -> object:
    """The stream itself, which damage mostly ends."""
    found = registration.decode_registration(data, compressed=True, version=479)
    return len(found.topic_config_table)


def fields(data: bytes) -> object:
    """Fields of a registration, from a JSON object of texts."""
    found = json.loads(data)
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        return None
    read = read_fields(Header(ext_fields=found), registration.RegisterBroker)
    assert read_fields(Header(ext_fields=write_fields(read)), type(read)) == read
    return None


def body(reader: Callable[[bytes], Any]) -> Callable[[bytes], object]:
    def run(data: bytes) -> object:
        found = reader(data)
        assert reader(dialect.encode_body(found)) == found
        assert reader(dialect.bare_integer_keys(dialect.encode_body(found))) == found
        return None

    return run


def server(data: bytes) -> object:
    """A name server answers whatever comes, and its tables fit each other.

    A request is its code, `key=value` lines for fields that differ from `_FIELDS`, and behind a
    colon at the begin of a line the body; two line ends part requests.
    """
    core = name_server.NameServer(name_server.Place(host="h", port=1, folder="f"))
    codes_seen = []
    for number, request in enumerate(data.split(b"\n\n")):
        head, _, body = request.partition(b"\n:")
        lines = head.decode("utf-8", "replace").split("\n")
        texts = dict(_FIELDS) | dict(line.split("=", 1) for line in lines[1:] if "=" in line)
        code = int(lines[0]) if lines[0].isascii() and lines[0].isdecimal() else 0
        head_of = Header(code=code, version=479, ext_fields=texts)
        asked = name_server.Asked(header=head_of, connection=number % 3, body=body)
        effects = finish(core.serve(asked, float(number * 40)))
        assert effects.answer is not None
        if effects.save is not None:
            core.saved(effects.save)
        codes_seen.append(effects.answer.code)
        finish(core.tick(float(number * 40)))
    finish(core.ended(1))
    check(core.tables)
    return tuple(codes_seen[:4])


def check(found: tables.Tables) -> None:
    """Every address has its registration, every topic a broker."""
    named = {
        (broker.cluster, address): (name, broker_id)
        for name, broker in found.brokers.items()
        for broker_id, address in broker.addresses.items()
    }
    assert named == {key: (live.broker, live.broker_id) for key, live in found.live.items()}
    assert all(broker.addresses for broker in found.brokers.values())
    assert all(found.topics.values())
    assert {name for table in found.topics.values() for name in table} <= set(found.brokers)


def _asked(code: RequestCode, body: bytes, *lines: str) -> bytes:
    return "\n".join((str(int(code)), *lines)).encode() + b"\n:" + body


def targets() -> tuple[Target, ...]:
    """All of them."""
    register = RequestCode.REGISTER_BROKER
    history = b"\n\n".join((
        _asked(register, _PLAIN),
        _asked(register, _PLAIN, "brokerId=1", "brokerAddr=b:1"),
        _asked(register, _COMPRESSED, "brokerName=b", "brokerAddr=c:1", "compressed=true"),
        _asked(RequestCode.UNREGISTER_BROKER, b""),
        _asked(register, _PLAIN, "brokerId=0", "brokerAddr=b:1"),
        _asked(RequestCode.PUT_KV_CONFIG, b""),
    ))  # fmt: skip
    route = dialect.encode_body(_ROUTE)
    return (
        Target(name="registrations", run=registrations, seeds=(b"n" + _PLAIN,), files=_WIRE,
               raises=REMOTE, tokens=_TOKENS),
        Target(name="compressed registrations", run=compressed, files=_WIRE, raises=REMOTE,
               seeds=(zlib.decompress(_COMPRESSED),), tokens=_TOKENS),
        Target(name="compressed streams", run=streams, seeds=(_COMPRESSED,), files=_WIRE,
               raises=REMOTE),
        Target(name="fields", run=fields, seeds=(json.dumps(_FIELDS).encode(),),
               files=files_of(header),
               raises=(*REMOTE, ValueError, RecursionError), tokens=_TOKENS),
        Target(name="routes", run=body(routes.decode_route), files=_WIRE, raises=REMOTE,
               seeds=(route, dialect.bare_integer_keys(route)), tokens=_TOKENS),
        Target(name="name server", run=server, seeds=(history,), files=_SERVER, tokens=_TOKENS,
               size_max=8192),
    )  # fmt: skip
