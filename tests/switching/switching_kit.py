"""A cluster in simulation whose master changes: a feed that follows it, promotions, and looks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.errors import NotMaster, NotStored, OutcomeUnknown, TriologError
from actors.log_types import GroupState
from actors.records import decoded
from actors.sim.cluster import SimCluster

T = TypeVar("T")

GROUP = "orders"
WAIT_S = 120.0
GOES_ON_S = 8.0
"""A group that can go on needs no longer for it, whatever was killed before."""
RETRY_S = 0.2


@attrs.define
class Ledger:
    """What a producer learned.

    Attributes:
        acknowledged: the lines with a receipt, in order.
        duplicates: lines that were sent again, as nobody knew what had become of them.
        pause_s: between two lines; a test may change it.
    """

    pause_s: float
    acknowledged: list[bytes] = attrs.field(factory=list)
    duplicates: set[bytes] = attrs.field(factory=set)
    errors: list[str] = attrs.field(factory=list)
    stopped: bool = False


@asynccontextmanager
async def load(cluster: SimCluster, *, pause_s: float = 0.05) -> AsyncIterator[Ledger]:
    """One line after the other, each until it is acknowledged, to whoever is master."""
    ledger = Ledger(pause_s)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_produce, cluster, ledger)
        yield ledger
        ledger.stopped = True


async def goes_on(ledger: Ledger, within_s: float = GOES_ON_S) -> None:
    """Acknowledgements come within so long of virtual time, some of them asked for only now."""
    before = len(ledger.acknowledged)
    with trio.fail_after(within_s):
        while True:
            if len(ledger.acknowledged) >= before + 3:
                return
            await trio.sleep(RETRY_S)


async def _produce(cluster: SimCluster, ledger: Ledger) -> None:
    master, number = cluster.config.groups[GROUP].master, 0
    while not ledger.stopped:
        line = b"line %d" % number
        try:
            with trio.fail_after(WAIT_S):
                await cluster.log(GROUP, master).append([line])
        except (NotStored, OutcomeUnknown, trio.TooSlowError) as error:
            ledger.errors.append(f"{type(error).__name__}: {error}")
            if not isinstance(error, NotStored):
                ledger.duplicates.add(line)
            master = next_master(cluster, master, error)
            await trio.sleep(RETRY_S)
        else:
            ledger.acknowledged.append(line)
            number += 1
            await trio.sleep(ledger.pause_s)


def next_master(cluster: SimCluster, tried: str, error: Exception) -> str:
    """A hint, or the next member that runs."""
    if isinstance(error, NotMaster) and error.hint:
        return error.hint
    names = cluster.names
    after = names[names.index(tried) + 1 :] + names
    return next((name for name in after if cluster.runs(name)), tried)


async def promote(
    cluster: SimCluster, by: str, node: str | None = None, *, force: bool = False
) -> dict[str, Any]:
    """What the command does, through one node's handle."""
    return await cluster.node(by).promote(GROUP, node, force)


async def refused(cluster: SimCluster, by: str, node: str | None = None) -> str:
    """The words of a promotion that is refused."""
    try:
        found = await promote(cluster, by, node)
    except RequestRefused as error:
        return str(error)
    raise AssertionError(f"it was not refused: {found}")


async def state(cluster: SimCluster, name: str) -> GroupState:
    return await cluster.node(name).group_state(GROUP)


def emitted(cluster: SimCluster, kind: type[T]) -> list[T]:
    """The events of that kind, of all nodes."""
    return [seen.event for seen in cluster.world.events if isinstance(seen.event, kind)]


async def until(cluster: SimCluster, name: str, wanted: Callable[[GroupState], bool]) -> GroupState:
    """Wait for a node to become what is wanted."""
    found: GroupState | None = None
    with trio.move_on_after(WAIT_S):
        while True:
            try:
                found = await state(cluster, name)
            except TriologError:
                pass
            else:
                if wanted(found):
                    return found
            await trio.sleep(0.05)
    raise AssertionError(f"{name} did not become that: {found}")


async def until_part(cluster: SimCluster, name: str, part: str) -> GroupState:
    return await until(cluster, name, lambda found: found.state == part)


async def lines_on(cluster: SimCluster, name: str) -> list[bytes]:
    """All that a node shows to readers."""
    found: list[bytes] = []
    at = 0
    while True:
        batch = decoded(await cluster.node(name).read(GROUP, at, 1 << 20, fresh=False))
        found += [record.body for record in batch.records]
        if batch.next == at or not batch.records:
            return found
        at = batch.next


def check(ledger: Ledger, lines: list[bytes]) -> None:
    """Every acknowledged line is there, in order, and nothing twice that was not in doubt."""
    there = set(lines)
    assert [line for line in ledger.acknowledged if line not in there] == []
    first = list(dict.fromkeys(lines))
    acknowledged = set(ledger.acknowledged)
    assert [line for line in first if line in acknowledged] == ledger.acknowledged
    twice = {line for line in lines if lines.count(line) > 1}
    assert twice <= ledger.duplicates


def log_bytes(cluster: SimCluster, name: str) -> bytes:
    """The commit log's bytes on a node's disk, up to the last that is not zero."""
    disk = cluster.world.node(name).disk
    folder = f"{cluster.config.group_dir(name, GROUP)}/commitlog"
    found = b""
    for file_name in disk.listdir(folder):
        file = disk.open(f"{folder}/{file_name}", "r")
        found += file.pread(0, file.size_bytes)
        file.close()
    return found.rstrip(b"\0")


def kept_aside(cluster: SimCluster, name: str) -> bytes:
    """All that lies in `aside/` on a node's disk."""
    disk = cluster.world.node(name).disk
    root = f"{cluster.config.group_dir(name, GROUP)}/aside"
    found = b""
    for folder in disk.listdir(root):
        for file_name in disk.listdir(f"{root}/{folder}"):
            file = disk.open(f"{root}/{folder}/{file_name}", "r")
            found += file.pread(0, file.size_bytes)
            file.close()
    return found
