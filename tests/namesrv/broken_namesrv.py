"""A name server of ours, broken on purpose, one rule at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import namesrv_world
import pytest

from actors.env.protocols import Env
from actors.namesrv.core.name_server import NameServer
from actors.namesrv.core.tables import Event, Key, Live, Registered, Steps, T, Tables
from actors.namesrv.tree import NameServerSettings
from actors.runtime import Registry, SupervisorSpec
from wire.broker.registration import BrokerAddress, RegisterBroker
from wire.broker.topics import TopicTable

Break = Callable[[pytest.MonkeyPatch], None]


def _done(result: T) -> Steps[T]:
    yield from ()
    return result


def ended_connections_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tables, "ended", lambda self, connection: _done([]))


def silence_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tables, "expire", lambda self, now_s: _done(([], ())))


def the_wall_clock_decides(patch: pytest.MonkeyPatch) -> None:
    """As in upstream: System.currentTimeMillis()."""
    serve, tick, tree = NameServer.serve, NameServer.tick, namesrv_world.name_server_tree
    clocks: dict[str, Callable[[], int]] = {}

    def now_s(server: NameServer) -> float:
        return clocks[server._place.host]() / 1000

    def broken_tree(settings: NameServerSettings, env: Env, registry: Registry) -> SupervisorSpec:
        clocks[settings.host] = env.wall_clock_ms
        return tree(settings, env, registry)

    patch.setattr(namesrv_world, "name_server_tree", broken_tree)
    patch.setattr(NameServer, "serve", lambda self, asked, _: serve(self, asked, now_s(self)))
    patch.setattr(NameServer, "tick", lambda self, _: tick(self, now_s(self)))


def any_connection_ends_a_registration(patch: pytest.MonkeyPatch) -> None:
    """Also one on which the broker registered earlier."""
    register = Tables.register
    used: dict[tuple[int, int], dict[Key, None]] = {}

    def broken_register(
        self: Tables, said: RegisterBroker, table: TopicTable, connection: int, now_s: float
    ) -> Steps[Registered]:
        keys = used.setdefault((id(self), connection), {})
        keys[said.cluster_name, said.broker_addr] = None
        return register(self, said, table, connection, now_s)

    def broken_ended(self: Tables, connection: int) -> Steps[list[Event]]:
        keys = used.pop((id(self), connection), {})
        return self._remove_all(keys, "connection ended")

    patch.setattr(Tables, "register", broken_register)
    patch.setattr(Tables, "ended", broken_ended)


def a_promoted_address_keeps_its_old_id(patch: pytest.MonkeyPatch) -> None:
    make_way = Tables._make_way

    def broken(self: Tables, said: RegisterBroker, known: Live | None) -> Steps[list[Event]]:
        broker, before = self.brokers.get(said.broker_name), known
        left = yield from make_way(self, said, known)
        if broker is not None and before is not None and before.broker == said.broker_name:
            broker.addresses.setdefault(before.broker_id, said.broker_addr)
        return left

    patch.setattr(Tables, "_make_way", broken)


def an_older_state_takes_the_id(patch: pytest.MonkeyPatch) -> None:
    """As in upstream before 5.0."""
    patch.setattr(Tables, "_is_outdated", lambda self, said, table: False)


def whoever_goes_takes_the_topics_along(patch: pytest.MonkeyPatch) -> None:
    remove = Tables.remove

    def broken(self: Tables, key: Key, reason: str) -> Steps[list[Event]]:
        live = self.live.get(key)
        left = yield from remove(self, key, reason)
        if live is not None:
            yield from self._remove_queues(live.broker)
        return left

    patch.setattr(Tables, "remove", broken)


def routes_survive_a_restart(patch: pytest.MonkeyPatch) -> None:
    read = NameServer.read_files
    kept: dict[str, Tables] = {}

    def broken(self: NameServer, kv: bytes | None, config: bytes | None) -> None:
        read(self, kv, config)
        self.tables = kept.setdefault(self._place.host, self.tables)

    patch.setattr(NameServer, "read_files", broken)


def a_registration_renews_the_whole_group(patch: pytest.MonkeyPatch) -> None:
    register = Tables.register

    def broken(
        self: Tables, said: RegisterBroker, table: TopicTable, connection: int, now_s: float
    ) -> Steps[Registered]:
        for cluster, address in list(self.live):
            if self.live[cluster, address].broker == said.broker_name:
                self.renew(BrokerAddress(broker_addr=address, cluster_name=cluster), now_s)
        return register(self, said, table, connection, now_s)

    patch.setattr(Tables, "register", broken)


MUTATIONS: Final[tuple[Break, ...]] = (
    ended_connections_are_ignored,
    silence_is_ignored,
    the_wall_clock_decides,
    any_connection_ends_a_registration,
    a_promoted_address_keeps_its_old_id,
    an_older_state_takes_the_id,
    whoever_goes_takes_the_topics_along,
    routes_survive_a_restart,
    a_registration_renews_the_whole_group,
)
