"""The registered brokers and their topics, of which routes are made.

Source: apache/rocketmq, namesrv/routeinfo/RouteInfoManager.java, 5.3.3; broker.md 2.1 to 2.6.

Differs from upstream:
- A broker's address is in a route exactly as long as its registration lives. Upstream keeps tables
  of both, which differ once an address is registered under a second name, a name in a second
  cluster, or an id by a second address: then an address stays in routes for ever.
- The end of a connection removes every address that was last registered on it; upstream the first.
- A registration that is refused or ignored changes nothing. Upstream has already removed the
  address's other id.
- A name belongs to one cluster. A broker of another cluster that registers with it is refused,
  where upstream mixes the addresses of both.
- An id below 0, which is a DLedger member without a role, never writes topics. Upstream's lets it,
  and with an acting master all topics turn read-only (I#7600, I#7626).
- Giving back the write permission keeps the other bits of a topic's permissions; upstream sets 6.
- There is a bound for brokers, for topics of brokers and for their names: a registration above it
  is refused.
- There are no acting masters and no static topics. Of them only the effect of
  `enable_acting_master` on permissions is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from itertools import islice
from typing import Final, TypeAlias, TypeVar

import attrs
import msgspec

from actors.events import namesrv as events
from wire.broker.registration import (
    HEARTBEAT_TIMEOUT_S,
    MASTER_ID,
    BrokerAddress,
    MasterOfGroup,
    RegisterBroker,
)
from wire.broker.routes import BrokerData, QueueData
from wire.broker.topics import PERM_WRITE, DataVersion, TopicTable

BROKERS_MAX: Final = 10_000
"""The most addresses that may be registered."""
QUEUE_DATA_MAX: Final = 1_000_000
"""The most topics, counted once for each broker name that has them. Each takes some 300 bytes and
its name."""
NAME_CHARS_MAX: Final = 512
"""The most characters of a topic's name, and of each text in a registration. Upstream's longest
name is that of a group's retry topic, with some 400.
"""
TOPIC_CHARS_MAX: Final = 128 << 20
"""The most characters of the names of all topics, counted like QUEUE_DATA_MAX."""
SLICE_TOPICS: Final = 4096
"""How many topics are handled between two turns of other tasks. That takes some 4 ms, and 25 ms
while a dictionary of 290,000 grows."""
FAILED: Final = "register broker failed"
"""Upstream's answer to a broker whose first registration has only one topic."""

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Work that yields after each SLICE_TOPICS topics. The tables must not be used before its end."""
Event: TypeAlias = (
    events.BrokerRegistered
    | events.BrokerLeft
    | events.RegistrationRefused
    | events.TopicsRegistered
    | events.NameServerNotSaved
)
Key: TypeAlias = tuple[str, str]
"""The cluster and the address of a broker."""


@attrs.frozen(kw_only=True)
class Live:
    """A registration.

    Attributes:
        broker, broker_id: the name and the id that the address has in routes.
        last_s: when the registration was made or renewed, in seconds.
        timeout_s: how many seconds it lives from then on.
        version: the version of the broker's topics, without its unknown keys.
        connection: the number of the connection of the last registration.
    """

    broker: str
    broker_id: int
    last_s: float
    timeout_s: float
    version: DataVersion
    connection: int
    ha_address: str


@attrs.frozen(kw_only=True)
class Registered:
    """The outcome of a registration.

    Attributes:
        refused: why it failed, or "" if it did not.
        master: the registered master of the group, if a slave has registered.
        events: the events to emit.
    """

    refused: str = ""
    master: MasterOfGroup = attrs.field(factory=MasterOfGroup)
    events: tuple[Event, ...] = ()


@attrs.define
class Broker:
    """The brokers of one name, with their addresses by id."""

    cluster: str
    name: str
    addresses: dict[int, str] = attrs.field(factory=dict, init=False)
    is_acting: bool = attrs.field(default=False, init=False)
    zone: str | None = attrs.field(default=None, init=False)

    @property
    def data(self) -> BrokerData:
        return BrokerData(
            broker_addrs=dict(sorted(self.addresses.items())),
            broker_name=self.name,
            cluster=self.cluster,
            enable_acting_master=self.is_acting,
            zone_name=self.zone,
        )


@attrs.define
class Tables:
    """Brokers by name, topics by name and broker, registrations by cluster and address.

    Every address in `brokers` has a registration, and every registration has its address in
    `brokers`. Every broker in `topics` is in `brokers`.
    """

    brokers: dict[str, Broker] = attrs.field(factory=dict, init=False)
    topics: dict[str, dict[str, QueueData]] = attrs.field(factory=dict, init=False)
    live: dict[Key, Live] = attrs.field(factory=dict, init=False)
    _queue_data_count: int = attrs.field(default=0, init=False)
    _topic_chars: int = attrs.field(default=0, init=False)

    # Coming.

    def register(
        self, said: RegisterBroker, table: TopicTable, connection: int, now_s: float
    ) -> Steps[Registered]:
        """Register a broker with its topics, or refuse that.

        Args:
            said: the fields of the request.
            table: the topics in the request.
            connection: the number of the request's connection.
            now_s: the time in seconds.
        """
        refused = yield from self._refusal(said, table)
        if refused or self._is_outdated(said, table):
            return _refusing(said, refused)
        key = (said.cluster_name, said.broker_addr)
        known = self.live.get(key)
        left = yield from self._make_way(said, known)
        broker = self.brokers.setdefault(
            said.broker_name, Broker(said.cluster_name, said.broker_name)
        )
        is_first = said.broker_id not in broker.addresses
        broker.addresses[said.broker_id] = said.broker_addr
        broker.is_acting = said.enable_acting_master is True
        broker.zone = said.zone_name
        self.live[key] = _live(said, table, connection, now_s)
        is_other = is_first or known is None or _identity(known) != _identity(self.live[key])
        changed = yield from self._write_topics(broker, said, table, everything=is_other)
        told = [*left]
        if known is None or left:
            told.append(_registered(said, table, connection))
        if changed:
            told.append(events.TopicsRegistered(broker=said.broker_name, changed=changed))
        return Registered(master=self._master_of(broker, said), events=tuple(told))

    def _refusal(self, said: RegisterBroker, table: TopicTable) -> Steps[str]:
        topics, name = table.topic_config_table, said.broker_name
        broker = self.brokers.get(name)
        if (broker is None or said.broker_id not in broker.addresses) and len(topics) == 1:
            return FAILED
        others = set() if broker is None else {*broker.addresses.values()} - {said.broker_addr}
        if broker is not None and broker.cluster != said.cluster_name and others:
            return f"the name {name} is taken in cluster {broker.cluster}"
        if (said.cluster_name, said.broker_addr) not in self.live and len(self.live) >= BROKERS_MAX:
            return f"there are {BROKERS_MAX} brokers, and no more are taken"
        new: list[str] = []
        for some in _slices(topics):
            new += [topic for topic in some if name not in self.topics.get(topic, ())]
            yield from _turn(some)
        texts = (name, said.broker_addr, said.cluster_name, said.ha_server_addr, said.zone_name)
        if is_too_long(*texts, *new):
            return f"a name of more than {NAME_CHARS_MAX} characters"
        if self._queue_data_count + len(new) > QUEUE_DATA_MAX:
            return f"there would be more than {QUEUE_DATA_MAX} topics of brokers"
        if self._topic_chars + sum(map(len, new)) > TOPIC_CHARS_MAX:
            return f"topics' names would have more than {TOPIC_CHARS_MAX} characters"
        return ""

    def _is_outdated(self, said: RegisterBroker, table: TopicTable) -> bool:
        """Return whether another address has this id with a later state version."""
        broker = self.brokers.get(said.broker_name)
        holder = None if broker is None else broker.addresses.get(said.broker_id)
        if broker is None or holder in (None, said.broker_addr):
            return False
        held = self.live[broker.cluster, holder].version.state_version or 0
        return held > (table.data_version.state_version or 0)

    def _make_way(self, said: RegisterBroker, known: Live | None) -> Steps[list[Event]]:
        """Remove other registrations of the address, and the address that has its id.

        Returns:
            The events about removed brokers.
        """
        name, address = said.broker_name, said.broker_addr
        now = f"is now {said.cluster_name} {name} {said.broker_id}"
        if known is not None and known.broker != name:
            left = yield from self.remove((said.cluster_name, address), now)
            return [*left, *(yield from self._make_way(said, None))]
        broker = self.brokers.get(name)
        if broker is None:
            return []
        if broker.cluster != said.cluster_name:
            return (yield from self.remove((broker.cluster, address), now))
        left = []
        holder = broker.addresses.get(said.broker_id, address)
        if holder != address:
            del self.live[said.cluster_name, holder]
            left.append(_left(broker, said.broker_id, holder, f"replaced by {address}"))
        if known is not None and known.broker_id != said.broker_id:
            del broker.addresses[known.broker_id]
            left.append(_left(broker, known.broker_id, address, now))
        return left

    def _write_topics(
        self, broker: Broker, said: RegisterBroker, table: TopicTable, *, everything: bool
    ) -> Steps[int]:
        """Take over a broker's topics, and return how many changed.

        Args:
            everything: whether topics that the broker name has already are written as well.
        """
        slaves = [each for each in broker.addresses if each > MASTER_ID]
        is_master = said.broker_id == MASTER_ID
        is_prime = (
            said.enable_acting_master is not None
            and MASTER_ID not in broker.addresses
            and said.broker_id == min(slaves, default=None)
        )
        if not is_master and not is_prime:
            return 0
        kept = ~PERM_WRITE if is_prime and broker.is_acting else ~0
        changed = 0
        for some in _slices(table.topic_config_table.items()):
            for name, topic in some:
                if not everything and broker.name in self.topics.get(name, ()):
                    continue
                changed += self.put_queues(
                    name,
                    QueueData(
                        broker_name=broker.name,
                        perm=topic.perm & kept,
                        read_queue_nums=topic.read_queue_nums,
                        topic_sys_flag=topic.topic_sys_flag,
                        write_queue_nums=topic.write_queue_nums,
                    ),
                )
            yield from _turn(some)
        return changed

    def put_queues(self, topic: str, queues: QueueData) -> bool:
        """Put these queues into the topic's routes, if their broker is known and there is room.

        Returns:
            Whether that changed anything.
        """
        if queues.broker_name not in self.brokers:
            return False
        table = self.topics.get(topic, {})
        before = table.get(queues.broker_name)
        if before == queues:
            return False
        if before is None:
            chars = self._topic_chars + len(topic)
            if self._queue_data_count >= QUEUE_DATA_MAX or chars > TOPIC_CHARS_MAX:
                return False
            self._queue_data_count += 1
            self._topic_chars = chars
        table[queues.broker_name] = queues
        self.topics[topic] = table
        return True

    def _master_of(self, broker: Broker, said: RegisterBroker) -> MasterOfGroup:
        address = broker.addresses.get(MASTER_ID)
        if said.broker_id == MASTER_ID or address is None:
            return MasterOfGroup()
        live = self.live[broker.cluster, address]
        return MasterOfGroup(ha_server_addr=live.ha_address, master_addr=address)

    def renew(self, said: BrokerAddress, now_s: float) -> Live | None:
        """Renew a broker's registration, and return it if there is one."""
        key = (said.cluster_name, said.broker_addr)
        live = self.live.get(key)
        if live is not None:
            self.live[key] = live = attrs.evolve(live, last_s=now_s)
        return live

    # Going.

    def remove(self, key: Key, reason: str) -> Steps[list[Event]]:
        """Remove a registration, and return the events.

        If the name has no other address left, the name and its topics are removed as well.
        """
        live = self.live.pop(key, None)
        if live is None:
            return []
        broker = self.brokers[live.broker]
        del broker.addresses[live.broker_id]
        if not broker.addresses:
            del self.brokers[live.broker]
            yield from self._remove_queues(live.broker)
        elif broker.is_acting and MASTER_ID not in broker.addresses:
            yield from self.change_permissions(live.broker, lambda perm: perm & ~PERM_WRITE)
        return [_left(broker, live.broker_id, key[1], reason)]

    def unregister(self, said: BrokerAddress) -> Steps[list[Event]]:
        """Remove a broker that announces its stop, and return the events."""
        key = (said.cluster_name, said.broker_addr)
        live = self.live.get(key)
        if live is None or said.broker_name not in ("", live.broker):
            return []
        return (yield from self.remove(key, "unregistered"))

    def ended(self, connection: int) -> Steps[list[Event]]:
        """Remove the registrations that last came on a connection which has ended."""
        gone = [key for key, live in self.live.items() if live.connection == connection]
        return (yield from self._remove_all(gone, "connection ended"))

    def expire(self, now_s: float) -> Steps[tuple[list[Event], tuple[int, ...]]]:
        """Remove brokers that were silent for too long.

        Returns:
            The events, and the numbers of the connections to close.
        """
        gone = [key for key, live in self.live.items() if live.last_s + live.timeout_s < now_s]
        connections = dict.fromkeys(self.live[key].connection for key in gone)
        left = yield from self._remove_all(gone, "expired")
        return left, tuple(connections)

    def _remove_all(self, keys: Iterable[Key], reason: str) -> Steps[list[Event]]:
        left = []
        for key in keys:
            left += yield from self.remove(key, reason)
        return left

    def _remove_queues(self, broker: str) -> Steps[None]:
        for some in _slices((yield from self._having(broker))):
            for topic in some:
                self._drop(topic, (broker,))
            yield from _turn(some)

    def _having(self, broker: str) -> Steps[list[str]]:
        """Return the names of a broker's topics."""
        found: list[str] = []
        for some in _slices(self.topics.items()):
            found += [name for name, table in some if broker in table]
            yield from _turn(some)
        return found

    def delete_topic(self, topic: str, cluster: str) -> None:
        """Remove a topic from the routes of a cluster, or from all if `cluster` is ""."""
        named = tuple(self.topics.get(topic, ()))
        brokers = (each for each in named if not cluster or self.brokers[each].cluster == cluster)
        self._drop(topic, tuple(brokers))

    def _drop(self, topic: str, brokers: Iterable[str]) -> None:
        for broker in brokers:
            del self.topics[topic][broker]
            self._queue_data_count -= 1
            self._topic_chars -= len(topic)
        if topic in self.topics and not self.topics[topic]:
            del self.topics[topic]

    def change_permissions(self, broker: str, change: Callable[[int], int]) -> Steps[int]:
        """Change the permissions of a broker's topics, and return how many topics it has."""
        names = yield from self._having(broker)
        for some in _slices(names):
            for name in some:
                queues = self.topics[name][broker]
                changed = msgspec.structs.replace(queues, perm=change(queues.perm))
                self.topics[name][broker] = changed
            yield from _turn(some)
        return len(names)

    # Looking.

    def clusters(self) -> dict[str, tuple[str, ...]]:
        """Return the broker names of each cluster, sorted."""
        found: dict[str, list[str]] = {}
        for name in sorted(self.brokers):
            found.setdefault(self.brokers[name].cluster, []).append(name)
        return {cluster: tuple(found[cluster]) for cluster in sorted(found)}

    def topics_of(self, cluster: str) -> tuple[str, ...]:
        """Return the topics that a cluster's brokers have."""
        names = {name for name, each in self.brokers.items() if each.cluster == cluster}
        return tuple(topic for topic, table in self.topics.items() if names & table.keys())


def _slices(rows: Iterable[T]) -> Iterator[tuple[T, ...]]:
    """Yield the rows in tuples of SLICE_TOPICS, of which the last may be shorter."""
    left = iter(rows)
    while some := tuple(islice(left, SLICE_TOPICS)):
        yield some


def _turn(done: Sized) -> Steps[None]:
    """Yield after a whole slice, to give other tasks a turn."""
    if len(done) == SLICE_TOPICS:
        yield


def is_too_long(*texts: str | None) -> bool:
    """Return whether a text has more than NAME_CHARS_MAX characters."""
    return any(text is not None and len(text) > NAME_CHARS_MAX for text in texts)


def _live(said: RegisterBroker, table: TopicTable, connection: int, now_s: float) -> Live:
    timeout_ms = said.heartbeat_timeout_millis
    return Live(
        broker=said.broker_name,
        broker_id=said.broker_id,
        last_s=now_s,
        timeout_s=HEARTBEAT_TIMEOUT_S if timeout_ms is None else timeout_ms / 1000,
        version=msgspec.structs.replace(table.data_version, more=None),
        connection=connection,
        ha_address=said.ha_server_addr,
    )


def _identity(live: Live) -> tuple[str, int, DataVersion]:
    return live.broker, live.broker_id, live.version


def _registered(said: RegisterBroker, table: TopicTable, connection: int) -> Event:
    return events.BrokerRegistered(
        cluster=said.cluster_name,
        broker=said.broker_name,
        broker_id=said.broker_id,
        address=said.broker_addr,
        connection=connection,
        topics=len(table.topic_config_table),
    )


def _left(broker: Broker, broker_id: int, address: str, reason: str) -> Event:
    return events.BrokerLeft(
        cluster=broker.cluster,
        broker=broker.name,
        broker_id=broker_id,
        address=address,
        reason=reason,
    )


def _refusing(said: RegisterBroker, refused: str) -> Registered:
    told = events.RegistrationRefused(
        cluster=said.cluster_name,
        broker=said.broker_name,
        broker_id=said.broker_id,
        address=said.broker_addr,
        reason=refused or "another address has this id, and a later state of its topics",
    )
    return Registered(refused=refused, events=(told,))
