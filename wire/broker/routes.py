"""Answers of name servers to clients, brokers and operators: routes, members, topics, KV table.

Upstream: apache/rocketmq, remoting/.../protocol/route/*.java, body/ClusterInfo.java,
body/BrokerMemberGroup.java, body/TopicList.java, body/KVTable.java, header/namesrv/*.java, 5.3.3;
broker.md 2.5 and 2.6. Upstream's class names are kept.

| Code | Request                            | Fields         | Answer                       |
|------|------------------------------------|----------------|------------------------------|
| 100  | PUT_KV_CONFIG                      | `KVValue`      |                              |
| 101  | GET_KV_CONFIG                      | `KVKey`        | `KVFound`, or code 22        |
| 102  | DELETE_KV_CONFIG                   | `KVKey`        |                              |
| 105  | GET_ROUTEINFO_BY_TOPIC             | `RouteAsked`   | `TopicRouteData`, or code 17 |
| 106  | GET_BROKER_CLUSTER_INFO            |                | `ClusterInfo`                |
| 205  | WIPE_WRITE_PERM_OF_BROKER          | `BrokerNamed`  | `WipedTopics`                |
| 206  | GET_ALL_TOPIC_LIST_FROM_NAMESERVER |                | `TopicList`                  |
| 216  | DELETE_TOPIC_IN_NAMESRV            | `TopicDeleted` |                              |
| 217  | REGISTER_TOPIC_IN_NAMESRV          | `TopicNamed`*  |                              |
| 219  | GET_KVLIST_BY_NAMESPACE            | `KVNamespace`  | `KVTable`, or code 22        |
| 224  | GET_TOPICS_BY_CLUSTER              | `ClusterNamed` | `TopicList`                  |
| 304  | GET_SYSTEM_TOPIC_LIST_FROM_NS      |                | `TopicList`                  |
| 311  | GET_UNIT_TOPIC_LIST                |                | `TopicList`                  |
| 312  | GET_HAS_UNIT_SUB_TOPIC_LIST        |                | `TopicList`                  |
| 313  | GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST |                | `TopicList`                  |
| 318  | UPDATE_NAMESRV_CONFIG              | properties*    |                              |
| 319  | GET_NAMESRV_CONFIG                 |                | properties                   |
| 327  | ADD_WRITE_PERM_OF_BROKER           | `BrokerNamed`  | `AddedTopics`                |
| 901  | GET_BROKER_MEMBER_GROUP            | `MembersAsked` | `MemberGroupFound`           |

*: in the body, of 217 a `TopicRouteData` whose queue_datas count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from wire.broker.dialect import Body, BodyDecoder, Fields, bare_integer_keys, encode_body
from wire.remoting.tolerant_json import Int, Long, always

VERSION_READING_JSON: Final = 401
"""Version 4.9.4; clients of earlier versions may parse a route by hand."""
ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"
"""The KV namespace whose values name the queues of each order topic."""
SYS_FLAG_UNIT: Final = 1
SYS_FLAG_UNIT_SUB: Final = 2
CONFIG_BLACK_LIST: Final = ("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome")
"""Settings that UPDATE_NAMESRV_CONFIG may not change."""


class KVNamespace(Fields, frozen=True, kw_only=True):
    """Fields of GET_KVLIST_BY_NAMESPACE."""

    namespace: str


class KVKey(Fields, frozen=True, kw_only=True):
    """Fields of GET_KV_CONFIG and DELETE_KV_CONFIG."""

    key: str
    namespace: str


class KVValue(Fields, frozen=True, kw_only=True):
    """Fields of PUT_KV_CONFIG."""

    key: str
    namespace: str
    value: str


class KVFound(Fields, frozen=True, kw_only=True):
    """Fields of the answer to GET_KV_CONFIG; no value: there is none."""

    value: str | None


class RouteAsked(Fields, frozen=True, kw_only=True):
    """Fields of GET_ROUTEINFO_BY_TOPIC.

    Attributes:
        accept_standard_json_only: whether the route's keys have to be in quotes, whatever the
            request's version.
    """

    accept_standard_json_only: bool = False
    topic: str


class BrokerNamed(Fields, frozen=True, kw_only=True):
    """Fields of WIPE_WRITE_PERM_OF_BROKER and ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WipedTopics(Fields, frozen=True, kw_only=True):
    """Fields of the answer to WIPE_WRITE_PERM_OF_BROKER."""

    wipe_topic_count: Int


class AddedTopics(Fields, frozen=True, kw_only=True):
    """Fields of the answer to ADD_WRITE_PERM_OF_BROKER."""

    add_topic_count: Int


class TopicNamed(Fields, frozen=True, kw_only=True):
    """Fields of REGISTER_TOPIC_IN_NAMESRV."""

    topic: str


class TopicDeleted(Fields, frozen=True, kw_only=True):
    """Fields of DELETE_TOPIC_IN_NAMESRV; without a cluster the topic is deleted from all."""

    cluster_name: str = ""
    topic: str


class ClusterNamed(Fields, frozen=True, kw_only=True):
    """Fields of GET_TOPICS_BY_CLUSTER."""

    cluster: str


class MembersAsked(Fields, frozen=True, kw_only=True):
    """Fields of GET_BROKER_MEMBER_GROUP."""

    broker_name: str
    cluster_name: str


class BrokerData(Body, frozen=True, kw_only=True):
    """The brokers of one name: a master, id 0, and its slaves."""

    broker_addrs: dict[Long, str]
    broker_name: str
    cluster: str
    enable_acting_master: bool = always(False)
    zone_name: str | None = None


class QueueData(Body, frozen=True, kw_only=True):
    """A topic's queues at the brokers of one name."""

    broker_name: str
    perm: Int
    read_queue_nums: Int
    topic_sys_flag: Int = always(0)
    write_queue_nums: Int


class TopicRouteData(Body, frozen=True, kw_only=True):
    """The brokers and queues of a topic.

    Attributes:
        filter_server_table: always empty now.
        order_topic_conf: for an order topic, the brokers and their numbers of queues, as in
            "broker-a:4;broker-b:4".
    """

    broker_datas: tuple[BrokerData, ...] = always(())
    filter_server_table: dict[str, tuple[str, ...]] = always({})
    order_topic_conf: str | None = None
    queue_datas: tuple[QueueData, ...] = always(())


class ClusterInfo(Body, frozen=True, kw_only=True):
    """All brokers, by name, and the names in each cluster."""

    broker_addr_table: dict[str, BrokerData]
    cluster_addr_table: dict[str, tuple[str, ...]]


class BrokerMemberGroup(Body, frozen=True, kw_only=True):
    """The brokers of one name; none if the name is not known."""

    broker_addrs: dict[Long, str]
    broker_name: str
    cluster: str


class MemberGroupFound(Body, frozen=True, kw_only=True):
    """Body of the answer to GET_BROKER_MEMBER_GROUP."""

    broker_member_group: BrokerMemberGroup


class TopicList(Body, frozen=True, kw_only=True):
    """Names of topics. `broker_addr` is one broker's address, and only beside system topics."""

    broker_addr: str | None = None
    topic_list: tuple[str, ...]


class KVTable(Body, frozen=True, kw_only=True):
    """The values of one KV namespace."""

    table: dict[str, str]


class KVConfig(Body, frozen=True, kw_only=True):
    """The file `kvConfig.json` of a name server: namespace -> key -> value."""

    config_table: dict[str, dict[str, str]]


_ENDS_KEY = re.compile(r"[ \t\f=:#!]")
_ROUTE = BodyDecoder(TopicRouteData)
_TABLE = BodyDecoder(KVTable)
_CONFIG = BodyDecoder(KVConfig)


def encode_route(route: TopicRouteData, *, version: int, standard_json: bool = False) -> bytes:
    """Encode the answer to GET_ROUTEINFO_BY_TOPIC.

    Args:
        version: the version in the request's header.
        standard_json: `RouteAsked.accept_standard_json_only`.
    """
    body = encode_body(route)
    if version >= VERSION_READING_JSON or standard_json:
        return body
    return bare_integer_keys(body)


def decode_route(body: bytes) -> TopicRouteData:
    """Decode a route, with or without quotes around ids. Raises: RemoteProtocolError."""
    return _ROUTE.decode(body)


def decode_kv_table(body: bytes) -> dict[str, str]:
    """Decode the answer to GET_KVLIST_BY_NAMESPACE. Raises: RemoteProtocolError."""
    return _TABLE.decode(body).table


def decode_kv_config(data: bytes) -> dict[str, dict[str, str]]:
    """Decode the file `kvConfig.json`. Raises: RemoteProtocolError."""
    return _CONFIG.decode(data).config_table


def encode_properties(values: Mapping[str, str]) -> bytes:
    """Encode settings as in an answer to GET_NAMESRV_CONFIG: sorted `key=value` lines.

    Characters that Java's `Properties.load` would misread are escaped: backslashes, line ends, a
    leading blank, in keys any blank and separator, and all characters outside ASCII.
    """
    lines = (f"{_escaped_key(key)}={_escaped_value(values[key])}\n" for key in sorted(values))
    return "".join(lines).encode("ascii")


def _escaped_key(key: str) -> str:
    return _ENDS_KEY.sub(r"\\\g<0>", _escaped(key))


def _escaped_value(value: str) -> str:
    text = _escaped(value)
    return "\\" + text if text.startswith((" ", "\t", "\f")) else text


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(code) if code < 0x80 else f"\\u{code:04x}" for code in codes)
