"""A node inside a host program: start, stop, cancel, fail, twice, and under a host's supervisor."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio

import actors
from actors.api.failures import RequestRefused
from actors.cluster.explain import EXIT_DAMAGED, explain
from actors.config import loads
from actors.env import Syncer
from actors.env.local_disk import LocalDisk
from actors.env.real import real_env
from actors.errors import (
    Closed,
    ConfigError,
    CorruptLog,
    NotEnoughReplicas,
    NotMaster,
    OutcomeUnknown,
    ReplicationTimeout,
    StorageError,
    UnknownName,
)
from actors.events.node import NodeStopped
from actors.events.runtime import ActorCrashed
from actors.log_types import Claim
from actors.runtime import SupervisorSpec, open_system
from actors.service import NodeService
from actors.storage.node.event_reader import read_events

pytestmark = pytest.mark.real_io


def cluster(folder: Path, port: int, *lines: str, nodes: int = 1) -> actors.ClusterConfig:
    """Nodes n0, n1, ... with the group `orders`, in `folder`."""
    addresses = "\n".join(f'n{number} = "127.0.0.{number + 1}"' for number in range(nodes))
    slaves = ", ".join(f'"n{number}"' for number in range(1, nodes))
    more = "\n".join(lines)
    return loads(
        f"""
version = 1
name = "embedded"
data_dir = "{folder}"
[nodes]
{addresses}
[groups.orders]
mode = "classic"
master = "n0"
slaves = [{slaves}]
port = {port}
segment_bytes = 1048576
index_slots_count = 100
index_units_count = 400
{more}
""",
        "embedded.toml",
    )


async def bodies(log: actors.Log, start: int = 0) -> list[bytes]:
    async with log.reader(start) as batches:
        return [record.body for batch in [b async for b in batches] for record in batch.records]


async def test_what_was_appended_is_there_after_a_restart(tmp_path: Path, free_port: int) -> None:
    config = cluster(tmp_path, free_port)
    async with actors.open_node(config, "n0") as node:
        first = await node.log("orders").append([b"one", b"two"])
    async with actors.open_node(config, "n0") as node:
        second = await node.log("orders").append([actors.Message("other", b"three", tags="t")])
        assert second.first == first.next
        assert await bodies(node.log("orders")) == [b"one", b"two", b"three"]
        assert node.identity.boot == 2


async def test_an_unknown_group_and_an_unknown_node(tmp_path: Path, free_port: int) -> None:
    config = cluster(tmp_path, free_port)
    with pytest.raises(ConfigError, match="no node 'n7'; it has n0"):
        async with actors.open_node(config, "n7"):
            pass
    async with actors.open_node(config, "n0") as node:
        with pytest.raises(UnknownName, match=r"^n0: no group 'payments'; it has orders$"):
            node.log("payments")


async def test_a_second_start_on_the_same_directory_is_refused(
    tmp_path: Path, free_port: int
) -> None:
    config = cluster(tmp_path, free_port)
    async with actors.open_node(config, "n0") as node:
        with pytest.raises(ConfigError, match="in use by this process already"):
            async with actors.open_node(config, "n0"):
                pass
        await node.log("orders").append([b"still here"])


async def test_a_port_in_use_is_one_line(tmp_path: Path, free_port: int) -> None:
    config = cluster(tmp_path, free_port)
    listener = await real_env().network.listen("127.0.0.1", free_port)
    with pytest.raises(ConfigError) as caught:
        async with actors.open_node(config, "n0"):
            pass
    await listener.aclose()
    (line,) = caught.value.problems
    assert "groups.orders.port" in line
    assert str(free_port) in line
    async with actors.open_node(config, "n0"):
        pass  # the refusal has left no lock and no listener behind


async def test_damage_below_what_was_synced_refuses_the_start(
    tmp_path: Path, free_port: int
) -> None:
    config = cluster(tmp_path, free_port)
    async with actors.open_node(config, "n0") as node:
        await node.log("orders").append([b"one", b"two"])
    segment = tmp_path / "n0" / "groups" / "orders" / "commitlog" / f"{0:020d}"
    data = bytearray(segment.read_bytes())
    data[data.index(b"one")] ^= 1
    segment.write_bytes(data)
    with pytest.raises(CorruptLog) as caught:
        async with actors.open_node(config, "n0"):
            pass
    assert str(segment.parent) in str(caught.value)
    assert caught.value.__cause__ is None, "it would be the group that it is in"


async def test_damage_met_by_a_promotion_ends_the_node_at_once_and_in_one_line(
    tmp_path: Path, free_port: int
) -> None:
    """The group's tree starts anew in its other role, and reads its log again."""
    config = cluster(tmp_path, free_port, nodes=2)
    async with actors.open_node(config, "n0") as node, actors.open_node(config, "n1"):
        await node.log("orders").append([b"one", b"two"])
    segment = tmp_path / "n1" / "groups" / "orders" / "commitlog" / f"{0:020d}"
    data = bytearray(segment.read_bytes())
    with pytest.RaisesGroup(CorruptLog, flatten_subgroups=True) as caught:
        async with actors.open_node(config, "n1") as slave:
            data[data.index(b"one")] ^= 1
            segment.write_bytes(data)
            claim = Claim(number=1, token=7, by="n0", master="n1")
            await slave.fence("orders", claim, True)
            await slave.fence("orders", attrs.evolve(claim, kept=True), True)
            with pytest.raises(Closed):
                await slave.record("orders", 1, "n1", claim.token, False)
            await trio.sleep_forever()
    explained = explain(caught.value)
    (line,) = explained.lines
    assert line.startswith(f"triolog: {segment}: ")
    assert explained.child_code == EXIT_DAMAGED
    (*logged, last) = read_events(LocalDisk(), f"{tmp_path}/n1/events")
    crashed = [each for each in logged if isinstance(each.event, ActorCrashed)]
    assert [each.path for each in crashed if "store" in each.path] == ["/n1/orders/storage/store"]
    assert isinstance(last.event, NodeStopped)
    assert last.event.reason == f"CorruptLog: {line.removeprefix('triolog: ')}"


@pytest.mark.checklist(58)
async def test_a_slave_refuses_appends_and_names_the_master(tmp_path: Path, free_port: int) -> None:
    config = cluster(tmp_path, free_port, nodes=2)
    async with actors.open_node(config, "n1") as node:
        with pytest.raises(NotMaster) as caught:
            await node.log("orders").append([b"no"])
    assert caught.value.hint == "n0"
    assert caught.value.status == "SERVICE_NOT_AVAILABLE"


@pytest.mark.checklist(58)
async def test_a_fresh_read_on_a_slave_shows_what_the_master_has_acknowledged(
    tmp_path: Path, free_port: int
) -> None:
    config = cluster(tmp_path, free_port, "reconnect_interval_s = 0.2", nodes=2)
    async with actors.open_node(config, "n1") as slave:
        with pytest.raises(RequestRefused, match="n1 does not know what is fresh in orders"):
            await slave.log("orders").read(0, fresh=True)
        async with actors.open_node(config, "n0") as master:
            for number in range(20):
                body = b"%d" % number
                receipt = await master.log("orders").append([body])
                batch = await slave.log("orders").read(receipt.first, fresh=True)
                assert [record.body for record in batch.records] == [body]


async def opened(node: actors.Node) -> None:
    """Wait until a master has heard its members and takes appends."""
    while not node.is_open("orders"):  # noqa: ASYNC110
        await trio.sleep(0.01)


async def test_a_master_that_is_alone_takes_no_appends(tmp_path: Path, free_port: int) -> None:
    config = cluster(tmp_path, free_port, "slave_timeout_s = 0.1", "copies = 1", nodes=2)
    async with actors.open_node(config, "n0") as node:
        with pytest.raises(NotEnoughReplicas, match="has not heard n1"):
            await node.log("orders").append([b"one"])
        assert (await node.log("orders").offsets()).written == 0
        async with actors.open_node(config, "n1") as slave:
            await opened(node)
            assert (await node.log("orders").append([b"one"])).copies >= 1
            with pytest.raises(NotMaster) as caught:
                await slave.log("orders").append([b"two"])
            assert caught.value.hint == "n0"


async def test_a_host_that_is_cancelled_in_mid_append(tmp_path: Path, free_port: int) -> None:
    config = cluster(tmp_path, free_port, "slave_timeout_s = 60.0", nodes=2)
    appending = trio.Event()

    async def host() -> None:
        async with actors.open_node(config, "n0") as node:
            async with actors.open_node(config, "n1"):
                await opened(node)
            appending.set()
            await node.log("orders").append([b"nobody acknowledges this"])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(host)
        await appending.wait()
        await trio.sleep(0.2)
        nursery.cancel_scope.cancel()
    assert logged_kinds(tmp_path)[-1] == "NodeStopped"
    # The outcome was unknown: here it is stored, and a slave gets it after the restart.
    async with (
        actors.open_node(config, "n0") as master,
        actors.open_node(config, "n1"),
    ):
        log = master.log("orders")
        receipt = await log.append([b"next"])
        assert receipt.copies == 2
        assert await bodies(log) == [b"nobody acknowledges this", b"next"]


async def test_a_record_above_upstreams_default_is_read_where_it_is_allowed(
    tmp_path: Path, free_port: int
) -> None:
    config = cluster(tmp_path, free_port)
    large = {"max_message_bytes": 8 << 20, "segment_bytes": 32 << 20}
    groups = {"orders": attrs.evolve(config.groups["orders"], **large)}
    config = attrs.evolve(config, groups=groups)
    async with actors.open_node(config, "n0") as node:
        log = node.log("orders")
        await log.append([b"x" * 5_000_000, b"small"])
        assert [len(body) for body in await bodies(log)] == [5_000_000, 5]
    async with actors.open_node(config, "n0") as node:
        assert len((await bodies(node.log("orders")))[0]) == 5_000_000


async def test_an_append_without_copies_ends_with_a_timeout(tmp_path: Path, free_port: int) -> None:
    config = cluster(tmp_path, free_port, "slave_timeout_s = 0.1", nodes=2)
    async with actors.open_node(config, "n0") as node:
        async with actors.open_node(config, "n1"):
            await opened(node)
        with pytest.raises(ReplicationTimeout) as caught:
            await node.log("orders").append([b"one", b"two"])
        assert caught.value.first == 0
        assert caught.value.last is not None
        assert await bodies(node.log("orders")) == []  # not acknowledged, so not shown
        status = await node.status()
    assert status["groups"]["orders"]["counts"]["outcome_unknown"] == 2


async def test_a_failed_sync_ends_the_node_and_reaches_the_host_as_a_group(
    tmp_path: Path, free_port: int
) -> None:
    config = cluster(tmp_path, free_port)
    disk = BreakingDisk()
    cancelled = False
    with pytest.raises(ExceptionGroup) as caught:
        async with actors.open_node(config, "n0", env=attrs.evolve(real_env(), disk=disk)) as node:
            await node.log("orders").append([b"one"])
            disk.broken = True
            try:
                with pytest.raises(OutcomeUnknown):
                    await node.log("orders").append([b"two"])
                await trio.sleep(60)
            except trio.Cancelled:
                cancelled = True
                raise
    assert caught.group_contains(StorageError, match="No space on this planet")
    assert cancelled
    (*_, last) = read_events(LocalDisk(), f"{tmp_path}/n0/events")
    assert isinstance(last.event, NodeStopped)
    assert "No space on this planet" in last.event.reason
    async with actors.open_node(config, "n0") as node:
        assert (await bodies(node.log("orders")))[:1] == [b"one"]


async def test_two_services_in_one_program(tmp_path: Path, free_port: int) -> None:
    one = cluster(tmp_path / "one", free_port)
    two = cluster(tmp_path / "two", free_port + 1)
    async with actors.open_node(one, "n0") as first, actors.open_node(two, "n0") as second:
        await first.log("orders").append([b"first"])
        await second.log("orders").append([b"second"])
        assert await bodies(first.log("orders")) == [b"first"]
        assert await bodies(second.log("orders")) == [b"second"]


async def test_serve_gives_the_node_and_ends_when_asked(tmp_path: Path, free_port: int) -> None:
    config = cluster(tmp_path, free_port)
    async with trio.open_nursery() as nursery:
        node = await nursery.start(actors.serve, config, "n0")
        await node.log("orders").append([b"one"])
        node.request_stop()
    assert logged_kinds(tmp_path)[-1] == "NodeStopped"


async def test_a_child_of_the_hosts_supervisor_comes_back_with_its_data(
    tmp_path: Path, free_port: int
) -> None:
    config = cluster(tmp_path, free_port)
    services: list[NodeService] = []
    spec = actors.child_spec(config, "n0")
    make = spec.start
    assert callable(make)

    def start() -> NodeService:
        service = make()
        assert isinstance(service, NodeService)
        services.append(service)
        return service

    spec = attrs.evolve(spec, start=start, backoff=None)
    async with open_system("host", SupervisorSpec(children=(spec,))) as host:
        for life in range(3):
            node = await running(services, life)
            await node.log("orders").append([b"life %d" % life])
            if life < 2:
                services[life].ctx.spawn(fail)
        assert await bodies(node.log("orders")) == [b"life 0", b"life 1", b"life 2"]
        found = host.tree().find("/host/n0")
        assert found is not None
        assert found.restarts == 2


class KilledByTest(Exception):
    pass


async def fail() -> None:
    raise KilledByTest


async def running(services: list[NodeService], life: int) -> actors.Node:
    while len(services) <= life or services[life].node is None:  # noqa: ASYNC110
        await trio.sleep(0.01)
    node = services[life].node
    assert node is not None
    return node


def logged_kinds(folder: Path) -> list[str]:
    """The kinds of all events of n0, in order."""
    found = read_events(LocalDisk(), f"{folder}/n0/events")
    return [type(logged.event).__name__ for logged in found]


class BreakingDisk(LocalDisk):
    """This machine's disk, until it is `broken`: then every sync fails."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = False

    def syncer(self) -> Syncer:
        return BreakingSyncer(self, super().syncer())


@attrs.define
class BreakingSyncer:
    _disk: BreakingDisk
    _inner: Syncer

    async def sync(self, paths: Sequence[str]) -> None:
        if self._disk.broken:
            raise OSError(errno.EIO, "No space on this planet")
        await self._inner.sync(paths)

    def forget(self, paths: Sequence[str]) -> None:
        self._inner.forget(paths)

    def close(self) -> None:
        self._inner.close()
