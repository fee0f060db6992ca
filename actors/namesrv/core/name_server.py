"""A name server as a state machine, which returns the effects of each request, ended connection or
tick.

Work on all topics of a broker, which may have 290,000, yields after each SLICE_TOPICS, so that the
caller can give other tasks a turn. The next input must wait until it has ended.

Source: apache/rocketmq, namesrv/processor/DefaultRequestProcessor.java and
ClientRequestProcessor.java, 5.3.3; broker.md 1.3 and 2.

Differs from upstream:
- A request that cannot be read is answered with code 1 and a line about what is missing or wrong.
  Upstream's is the text of an exception.
- A change of the KV table or of settings counts once it is on the disk. Upstream answers before.
- UNREGISTER_BROKER is carried out before it is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias, TypeVar

import attrs

from actors.events import namesrv as events
from actors.namesrv.core import settings
from actors.namesrv.core.tables import NAME_CHARS_MAX, Event, Steps, Tables, is_too_long
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.dialect import Fields, encode_body
from wire.broker.java_json import encode
from wire.broker.registration import (
    BrokerAddress,
    RegisterBroker,
    VersionChanged,
    decode_registration,
    registration_crc,
)
from wire.broker.routes import (
    ORDER_TOPIC_CONFIG,
    SYS_FLAG_UNIT,
    SYS_FLAG_UNIT_SUB,
    AddedTopics,
    BrokerMemberGroup,
    BrokerNamed,
    ClusterInfo,
    ClusterNamed,
    KVConfig,
    KVFound,
    KVKey,
    KVNamespace,
    KVTable,
    KVValue,
    MemberGroupFound,
    MembersAsked,
    RouteAsked,
    TopicDeleted,
    TopicList,
    TopicNamed,
    TopicRouteData,
    WipedTopics,
    decode_kv_config,
    decode_route,
    encode_properties,
    encode_route,
)
from wire.broker.topics import DATA_VERSION, PERM_WRITE, TopicTable
from wire.dledger.files import decode_properties_file
from wire.errors import RemoteProtocolError
from wire.remoting.header import Header, read_fields, write_fields

SCAN_S: Final = 5.0
"""The seconds between two searches for silent brokers. Upstream: scanNotActiveBrokerInterval."""
READ_AT_ONCE_BYTES: Final = 64 << 10
"""A registration with a larger body is decoded in a thread: with unknown keys one MiB takes 0.3 s.
"""

OF_FILES: Final = frozenset(
    {
        RequestCode.PUT_KV_CONFIG,
        RequestCode.GET_KV_CONFIG,
        RequestCode.DELETE_KV_CONFIG,
        RequestCode.GET_KVLIST_BY_NAMESPACE,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.GET_NAMESRV_CONFIG,
    }
)
"""The requests about content of files. They wait while a change of a file is being saved."""

D = TypeVar("D")
KV: TypeAlias = Mapping[str, Mapping[str, str]]


@attrs.frozen(kw_only=True)
class Asked:
    """A request.

    Attributes:
        connection: the number of the connection that it came on.
        topics: the decoded body, or the error in it, of a registration that was decoded
            beforehand; None for all other requests.
    """

    header: Header
    connection: int
    body: bytes = b""
    topics: TopicTable | RemoteProtocolError | None = None

    @property
    def is_long_to_read(self) -> bool:
        """Whether `read_ahead` is to run in a thread, as it may take seconds."""
        if self.header.code != RequestCode.REGISTER_BROKER:
            return False
        is_compressed = (self.header.ext_fields or {}).get("compressed", "false") != "false"
        return is_compressed or len(self.body) > READ_AT_ONCE_BYTES

    def read_ahead(self) -> Asked:
        """Return the same registration with its body decoded into `topics`."""
        try:
            topics = _topics(self, read_fields(self.header, RegisterBroker))
        except RemoteProtocolError as error:
            return attrs.evolve(self, topics=error)
        return attrs.evolve(self, topics=topics)


@attrs.frozen(kw_only=True)
class Answer:
    """A reply. `fields` are the header's `ext_fields`."""

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    fields: Mapping[str, str] | None = None
    body: bytes = b""


@attrs.frozen(kw_only=True)
class Change:
    """New content of a file, which takes effect with `NameServer.saved` once it is on the disk.

    Attributes:
        file: the name of the file in the data folder.
        data: the content of the file.
        kv, settings: the KV table and the settings after the change.
    """

    file: str
    data: bytes
    kv: KV
    settings: Mapping[str, bool]


@attrs.frozen(kw_only=True)
class Effects:
    """The effects of one input, to be carried out in the order of the fields.

    Attributes:
        save: the file to save. If that fails, the effects of `not_saved` replace these.
        answer: the reply, or None if the input was no request.
        registered: whether a broker has registered on the connection of the request, so that
            `ended` has to be called when it ends.
        close: the numbers of connections to close, as their brokers were silent for too long.
        events: the events to emit.
    """

    save: Change | None = None
    answer: Answer | None = None
    registered: bool = False
    close: tuple[int, ...] = ()
    events: tuple[Event, ...] = ()


@attrs.frozen(kw_only=True)
class Place:
    """Where a name server runs, as GET_NAMESRV_CONFIG shows it.

    Attributes:
        folder: the folder of its files, or "" if it has none.
    """

    host: str
    port: int
    folder: str

    def shown(self) -> dict[str, str]:
        return {
            "bindAddress": self.host,
            "configStorePath": f"{self.folder}/{settings.CONFIG_FILE}",
            "kvConfigPath": f"{self.folder}/{settings.KV_FILE}",
            "listenPort": str(self.port),
        }


@attrs.define
class NameServer:
    """Routes, KV table and settings of one name server. A restart forgets the routes."""

    _place: Place
    kv: KV = attrs.field(factory=dict, init=False)
    settings: Mapping[str, bool] = attrs.field(factory=lambda: settings.DEFAULTS, init=False)
    _others: Mapping[str, str] = attrs.field(factory=dict, init=False)  # in the settings' file
    tables: Tables = attrs.field(factory=Tables, init=False)
    _served: Mapping[int, Callable[[Asked, float], Effects | Steps[Effects]]] = attrs.field(
        init=False
    )

    def __attrs_post_init__(self) -> None:
        self._served = {
            RequestCode.PUT_KV_CONFIG: self._put_kv,
            RequestCode.GET_KV_CONFIG: self._get_kv,
            RequestCode.DELETE_KV_CONFIG: self._delete_kv,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self._kv_list,
            RequestCode.REGISTER_BROKER: self._register,
            RequestCode.UNREGISTER_BROKER: self._unregister,
            RequestCode.QUERY_DATA_VERSION: self._query_version,
            RequestCode.BROKER_HEARTBEAT: self._heartbeat,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._clusters,
            RequestCode.GET_BROKER_MEMBER_GROUP: self._members,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self._wipe,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self._add,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._all_topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: self._cluster_topics,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self._system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self._unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._unit_topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self._delete_topic,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self._register_topic,
            RequestCode.UPDATE_NAMESRV_CONFIG: self._update_config,
            RequestCode.GET_NAMESRV_CONFIG: self._get_config,
        }

    # Inputs.

    def read_files(self, kv: bytes | None, config: bytes | None) -> None:
        """Restore the KV table and the settings from the files of an earlier run.

        Args:
            kv, config: the content of the two files, or None if there is no such file.

        Raises:
            RemoteProtocolError: a file cannot be decoded. The text begins with its name.
        """
        if kv is not None:
            self.kv = _decoded(settings.KV_FILE, decode_kv_config, kv)
        if config is not None:
            found = _decoded(settings.CONFIG_FILE, decode_properties_file, config)
            known = {key: found[key] for key in settings.DEFAULTS if key in found}
            values = settings.changed(settings.DEFAULTS, known, fixed={})
            if isinstance(values, settings.Refusal):
                raise RemoteProtocolError(f"{settings.CONFIG_FILE}: {values.remark}")
            self.settings = values
            self._others = {key: found[key] for key in found if key not in known}

    def serve(self, asked: Asked, now_s: float) -> Steps[Effects]:
        """Serve a request and return its effects.

        Args:
            now_s: the time in seconds, of a clock that never jumps.
        """
        serve = self._served.get(asked.header.code)
        if serve is None:
            remark = f" request type {asked.header.code} not supported"
            return _answer(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
        try:
            served = serve(asked, now_s)
            return served if isinstance(served, Effects) else (yield from served)
        except RemoteProtocolError as error:
            return _answer(code=ResponseCode.SYSTEM_ERROR, remark=str(error))

    def ended(self, connection: int) -> Steps[Effects]:
        """Note that a connection has ended."""
        return Effects(events=tuple((yield from self.tables.ended(connection))))

    def tick(self, now_s: float) -> Steps[Effects]:
        """Remove brokers that were silent for too long. To be called every SCAN_S.

        Args:
            now_s: the time at which the call was due, in seconds.
        """
        left, connections = yield from self.tables.expire(now_s)
        return Effects(events=tuple(left), close=connections)

    def saved(self, change: Change) -> None:
        """Note that the content of `Effects.save` is on the disk, which puts it into effect."""
        self.kv, self.settings = change.kv, change.settings

    def not_acting(self) -> tuple[str, ...]:
        """Return the keys in the settings' file that have no effect here.

        An upstream name server would obey them, so they are kept in the file.
        """
        shown = {**settings.FIXED, **self._place.shown()}
        return tuple(key for key, value in sorted(self._others.items()) if shown.get(key) != value)

    def contents(self) -> tuple[Change, Change]:
        """Return the content with which missing files are to be created."""
        return self._kv_change(self.kv), self._settings_change(self.settings)

    # Brokers.

    def _register(self, asked: Asked, now_s: float) -> Steps[Effects]:
        said = read_fields(asked.header, RegisterBroker)
        table = _topics(asked, said) if asked.topics is None else asked.topics
        if isinstance(table, RemoteProtocolError):
            raise table
        found = yield from self.tables.register(said, table, asked.connection, now_s)
        if found.refused:
            answer = Answer(code=ResponseCode.SYSTEM_ERROR, remark=found.refused)
            return Effects(answer=answer, events=found.events)
        order = self.kv.get(ORDER_TOPIC_CONFIG)
        is_told = order and self.settings[settings.RETURN_ORDER_TOPIC_CONFIG]
        answer = Answer(
            fields=write_fields(found.master),
            body=encode_body(KVTable(table=dict(order))) if order and is_told else b"",
        )
        return Effects(answer=answer, registered=True, events=found.events)

    def _unregister(self, asked: Asked, now_s: float) -> Steps[Effects]:
        left = yield from self.tables.unregister(read_fields(asked.header, BrokerAddress))
        return Effects(answer=Answer(), events=tuple(left))

    def _query_version(self, asked: Asked, now_s: float) -> Effects:
        said = read_fields(asked.header, BrokerAddress)
        version = DATA_VERSION.decode(asked.body)
        live = self.tables.renew(said, now_s)
        changed = VersionChanged(changed=live is None or live.version != version)
        return _answer(fields=changed, body=encode(live.version) if live is not None else b"")

    def _heartbeat(self, asked: Asked, now_s: float) -> Effects:
        self.tables.renew(read_fields(asked.header, BrokerAddress), now_s)
        return _answer()

    # Clients and brokers look.

    def _route(self, asked: Asked, now_s: float) -> Effects:
        said = read_fields(asked.header, RouteAsked)
        queues = self.tables.topics.get(said.topic)
        if not queues:
            remark = f"No topic route info in name server for the topic: {said.topic}"
            return _answer(code=ResponseCode.TOPIC_NOT_EXIST, remark=remark)
        order = None
        if self.settings[settings.ORDER_MESSAGE_ENABLE]:
            order = self.kv.get(ORDER_TOPIC_CONFIG, {}).get(said.topic)
        route = TopicRouteData(
            broker_datas=tuple(self.tables.brokers[name].data for name in queues),
            order_topic_conf=order,
            queue_datas=tuple(queues.values()),
        )
        standard = said.accept_standard_json_only
        return _answer(
            body=encode_route(route, version=asked.header.version, standard_json=standard)
        )

    def _clusters(self, asked: Asked, now_s: float) -> Effects:
        brokers = {name: each.data for name, each in self.tables.brokers.items()}
        found = ClusterInfo(broker_addr_table=brokers, cluster_addr_table=self.tables.clusters())
        return _answer(body=encode_body(found))

    def _members(self, asked: Asked, now_s: float) -> Effects:
        said = read_fields(asked.header, MembersAsked)
        broker = self.tables.brokers.get(said.broker_name)
        group = BrokerMemberGroup(
            broker_addrs={} if broker is None else broker.data.broker_addrs,
            broker_name=said.broker_name,
            cluster=said.cluster_name,
        )
        return _answer(body=encode_body(MemberGroupFound(broker_member_group=group)))

    # Topics.

    def _all_topics(self, asked: Asked, now_s: float) -> Effects:
        if not self.settings[settings.ENABLE_ALL_TOPIC_LIST]:
            return _answer(code=ResponseCode.SYSTEM_ERROR, remark="disable")
        return _topic_list(self.tables.topics)

    def _cluster_topics(self, asked: Asked, now_s: float) -> Effects:
        return _topic_list(self.tables.topics_of(read_fields(asked.header, ClusterNamed).cluster))

    def _system_topics(self, asked: Asked, now_s: float) -> Effects:
        clusters = self.tables.clusters()
        names = dict.fromkeys((*clusters, *(name for each in clusters.values() for name in each)))
        addresses = (
            address
            for broker in self.tables.brokers.values()
            for address in broker.addresses.values()
        )
        found = TopicList(broker_addr=next(addresses, None), topic_list=tuple(names))
        return _answer(body=encode_body(found))

    def _unit_topics(self, asked: Asked, now_s: float) -> Effects:
        def is_asked(flag: int) -> bool:
            if asked.header.code == RequestCode.GET_UNIT_TOPIC_LIST:
                return bool(flag & SYS_FLAG_UNIT)
            is_sub = bool(flag & SYS_FLAG_UNIT_SUB)
            is_any = asked.header.code == RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST
            return is_sub and (is_any or not flag & SYS_FLAG_UNIT)

        return _topic_list(
            topic
            for topic, table in self.tables.topics.items()
            if is_asked(next(iter(table.values())).topic_sys_flag)
        )

    def _delete_topic(self, asked: Asked, now_s: float) -> Effects:
        said = read_fields(asked.header, TopicDeleted)
        self.tables.delete_topic(said.topic, said.cluster_name)
        return _answer()

    def _register_topic(self, asked: Asked, now_s: float) -> Effects:
        topic = read_fields(asked.header, TopicNamed).topic
        if is_too_long(topic):
            raise RemoteProtocolError(f"a topic of more than {NAME_CHARS_MAX} characters")
        for queues in decode_route(asked.body).queue_datas:
            self.tables.put_queues(topic, queues)
        return _answer()

    def _wipe(self, asked: Asked, now_s: float) -> Steps[Effects]:
        name = read_fields(asked.header, BrokerNamed).broker_name
        count = yield from self.tables.change_permissions(name, lambda perm: perm & ~PERM_WRITE)
        return _answer(fields=WipedTopics(wipe_topic_count=count))

    def _add(self, asked: Asked, now_s: float) -> Steps[Effects]:
        name = read_fields(asked.header, BrokerNamed).broker_name
        count = yield from self.tables.change_permissions(name, lambda perm: perm | PERM_WRITE)
        return _answer(fields=AddedTopics(add_topic_count=count))

    # KV table and settings.

    def _put_kv(self, asked: Asked, now_s: float) -> Effects:
        said = read_fields(asked.header, KVValue)
        table = {**self.kv.get(said.namespace, {}), said.key: said.value}
        change = self._kv_change({**self.kv, said.namespace: table})
        if len(change.data) > settings.KV_BYTES_MAX:
            remark = f"the KV table would take more than {settings.KV_BYTES_MAX} bytes"
            return _answer(code=ResponseCode.SYSTEM_ERROR, remark=remark)
        return Effects(save=change, answer=Answer())

    def _delete_kv(self, asked: Asked, now_s: float) -> Effects:
        said = read_fields(asked.header, KVKey)
        if said.key not in self.kv.get(said.namespace, {}):
            return _answer()
        table = {key: value for key, value in self.kv[said.namespace].items() if key != said.key}
        change = self._kv_change({**self.kv, said.namespace: table})
        return Effects(save=change, answer=Answer())  # also where an upstream file is too large

    def _kv_change(self, kv: KV) -> Change:
        tables = {namespace: dict(table) for namespace, table in kv.items() if table}
        data = encode_body(KVConfig(config_table=tables))
        return Change(file=settings.KV_FILE, data=data, kv=tables, settings=self.settings)

    def _settings_change(self, values: Mapping[str, bool]) -> Change:
        data = encode_properties({**self._others, **settings.shown(values)})
        return Change(file=settings.CONFIG_FILE, data=data, kv=self.kv, settings=values)

    def _get_kv(self, asked: Asked, now_s: float) -> Effects:
        said = read_fields(asked.header, KVKey)
        value = self.kv.get(said.namespace, {}).get(said.key)
        if value is None:
            remark = f"No config item, Namespace: {said.namespace} Key: {said.key}"
            none = KVFound(value=None)
            return _answer(code=ResponseCode.QUERY_NOT_FOUND, remark=remark, fields=none)
        return _answer(fields=KVFound(value=value))

    def _kv_list(self, asked: Asked, now_s: float) -> Effects:
        namespace = read_fields(asked.header, KVNamespace).namespace
        if not (table := self.kv.get(namespace)):
            remark = f"No config item, Namespace: {namespace}"
            return _answer(code=ResponseCode.QUERY_NOT_FOUND, remark=remark)
        return _answer(body=encode_body(KVTable(table=dict(table))))

    def _update_config(self, asked: Asked, now_s: float) -> Effects:
        shown = {**settings.FIXED, **self._place.shown()}
        values = settings.changed(self.settings, decode_properties_file(asked.body), fixed=shown)
        if isinstance(values, settings.Refusal):
            return _answer(code=values.code, remark=values.remark)
        return Effects(save=self._settings_change(values), answer=Answer())

    def _get_config(self, asked: Asked, now_s: float) -> Effects:
        values = settings.shown(self.settings)
        return _answer(body=encode_properties({**settings.FIXED, **self._place.shown(), **values}))


def not_saved(change: Change, reason: str) -> Effects:
    """Return the effects of a failed `Effects.save`: the old content stays in effect."""
    return Effects(
        answer=Answer(code=ResponseCode.SYSTEM_ERROR, remark=f"not saved: {reason}"),
        events=(events.NameServerNotSaved(file=change.file, reason=reason),),
    )


def _decoded(file: str, decode: Callable[[bytes], D], data: bytes) -> D:
    """Decode a file's content. Raises: RemoteProtocolError, with the file's name."""
    try:
        return decode(data)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"{file}: cannot be read: {error}") from error


def _topics(asked: Asked, said: RegisterBroker) -> TopicTable:
    if said.body_crc32 and said.body_crc32 != registration_crc(asked.body):
        raise RemoteProtocolError("crc32 not match")
    return decode_registration(asked.body, compressed=said.compressed, version=asked.header.version)


def _answer(
    *,
    code: int = ResponseCode.SUCCESS,
    remark: str | None = None,
    fields: Fields | None = None,
    body: bytes = b"",
) -> Effects:
    given = None if fields is None else write_fields(fields)
    return Effects(answer=Answer(code=code, remark=remark, fields=given, body=body))


def _topic_list(topics: Iterable[str]) -> Effects:
    return _answer(body=encode_body(TopicList(topic_list=tuple(topics))))
