"""What befalls the nodes in one stretch; each fault ends with its node free to be whole again."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import attrs
import trio
from kills_nodes import (
    CLASSIC,
    DISK_INODES,
    DLEDGER,
    GROUPS,
    NODES,
    SWITCHING,
    Cluster,
    Node,
)

DOWN_MAX_S = 3.0
HANGS_S = (0.5, 8.0)
FULL_S = (2.0, 8.0)
CHUNK_BYTES = 1 << 20
FILLER = "filler-of-another-program"
INODES = "files-of-another-program"


@attrs.define(eq=False)
class Stretch:
    """Attributes:
    noted: what happened, for people.
    """

    cluster: Cluster
    rng: random.Random
    noted: list[str] = attrs.field(factory=list)

    def node(self) -> Node:
        return self.cluster.nodes[self.rng.choice(NODES)]

    def tell(self, text: str) -> None:
        self.noted.append(text)


@attrs.frozen
class Fault:
    """Attributes:
    mixes: another one may befall the nodes at the same time.
    """

    befall: Callable[[Stretch], Awaitable[None]]
    mixes: bool = True


async def kill(stretch: Stretch) -> None:
    node = stretch.node()
    node.kill()
    stretch.tell(f"{node.name} killed")
    await trio.sleep(stretch.rng.uniform(0, DOWN_MAX_S))
    node.start()


async def kill_leader(stretch: Stretch) -> None:
    group = stretch.rng.choice(GROUPS)
    name = await stretch.cluster.leader_of(group) or NODES[0]
    stretch.cluster.nodes[name].kill()
    stretch.tell(f"{name} killed, which led {group}")
    await trio.sleep(stretch.rng.uniform(0, 3 * DOWN_MAX_S))
    stretch.cluster.nodes[name].start()


async def kill_all(stretch: Stretch) -> None:
    stretch.cluster.kill_all()
    stretch.tell("all killed")
    for name in stretch.rng.sample(NODES, len(NODES)):
        await trio.sleep(stretch.rng.uniform(0, DOWN_MAX_S / 3))
        stretch.cluster.nodes[name].start()


async def hang(stretch: Stretch) -> None:
    node = stretch.node()
    seconds = stretch.rng.uniform(*HANGS_S)
    node.signal(signal.SIGSTOP)
    stretch.tell(f"{node.name} stopped for {seconds:.1f} s")
    await trio.sleep(seconds)
    node.signal(signal.SIGCONT)


async def ordered_stop(stretch: Stretch) -> None:
    node = stretch.node()
    stretch.tell(f"{node.name} stopped in order")
    await node.stop()
    node.start()


async def fill(stretch: Stretch) -> None:
    """Another program writes until nothing is free, on one node's disk or on all."""
    nodes = some(stretch)
    stretch.tell(f"disk full: {', '.join(node.name for node in nodes)}")
    for node in nodes:
        await trio.to_thread.run_sync(fill_up, node.disk / FILLER)
    await full_for_a_while(stretch, nodes)
    for node in nodes:
        (node.disk / FILLER).unlink(missing_ok=True)


async def take_inodes(stretch: Stretch) -> None:
    """Another program leaves no name free for a new file."""
    nodes = some(stretch)
    stretch.tell(f"no inodes: {', '.join(node.name for node in nodes)}")
    for node in nodes:
        await trio.to_thread.run_sync(take_names, node.disk / INODES)
    await full_for_a_while(stretch, nodes)
    for node in nodes:
        await trio.to_thread.run_sync(give_names_back, node.disk / INODES)


def some(stretch: Stretch) -> list[Node]:
    if stretch.rng.random() < 0.3:
        return list(stretch.cluster.nodes.values())
    return [stretch.node()]


async def full_for_a_while(stretch: Stretch, nodes: list[Node]) -> None:
    """A node may be killed meanwhile and started: it waits for room, or starts."""
    await trio.sleep(stretch.rng.uniform(*FULL_S))
    if stretch.rng.random() < 0.4:
        node = stretch.rng.choice(nodes)
        node.kill()
        stretch.tell(f"{node.name} killed meanwhile")
        node.start()
        await trio.sleep(stretch.rng.uniform(*FULL_S))
    for node in nodes:
        if node.runs or node.starts:
            node.check_alive()


def fill_up(file: Path) -> None:
    """Until the file system has nothing left; another fault may have taken all names already."""
    block = bytes(CHUNK_BYTES)
    with until_full(), file.open("wb", buffering=0) as out:
        for size in (CHUNK_BYTES, 4096, 1):
            with until_full():
                while out.write(block[:size]):
                    pass


def take_names(folder: Path) -> None:
    with until_full():
        folder.mkdir(exist_ok=True)
        for number in range(DISK_INODES):
            os.close(os.open(folder / str(number), os.O_CREAT | os.O_WRONLY))


@contextlib.contextmanager
def until_full() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def give_names_back(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


async def promote(stretch: Stretch) -> None:
    """A hand-over, to a node or the furthest, under load."""
    node = stretch.rng.choice((*NODES, ""))
    code, words = await stretch.cluster.command("promote", CLASSIC, *filter(None, (node,)))
    stretch.tell(f"promote {node or 'the furthest'}: {code} {last(words) if code else ''}".strip())


async def elect(stretch: Stretch) -> None:
    """An operator has a replica elected, or whom the controllers choose, under load."""
    node = stretch.rng.choice((*NODES, ""))
    code, words = await stretch.cluster.command("promote", SWITCHING, *filter(None, (node,)))
    stretch.tell(f"elect {node or 'any'}: {code} {last(words) if code else ''}".strip())


async def lost_master(stretch: Stretch) -> None:
    """The master is killed or hangs, another one is promoted, the old one comes back."""
    name = await stretch.cluster.leader_of(CLASSIC) or NODES[0]
    old = stretch.cluster.nodes[name]
    hangs = stretch.rng.random() < 0.5
    if hangs:
        old.signal(signal.SIGSTOP)
    else:
        old.kill()
    code, words = await stretch.cluster.command("promote", CLASSIC)
    stretch.tell(f"master {name} {'hung' if hangs else 'killed'}, promote: {code} {last(words)}")
    old.signal(signal.SIGCONT)
    old.start()


async def transfer(stretch: Stretch) -> None:
    code, words = await stretch.cluster.command("transfer-leader", DLEDGER)
    stretch.tell(f"transfer-leader: {code} {last(words) if code else ''}".strip())


async def wipe(stretch: Stretch) -> None:
    """A new disk for a node; another one is promoted first if it was the master."""
    node = stretch.node()
    led = await stretch.cluster.leader_of(CLASSIC) == node.name
    node.kill()
    node.wipe()
    stretch.tell(f"{node.name} wiped")
    if led:
        code, words = await stretch.cluster.command("promote", CLASSIC)
        stretch.tell(f"it was the master, promote: {code} {last(words)}")
    node.start()


def last(words: str) -> str:
    return words.splitlines()[-1] if words else ""


FAULTS = {
    "kill": Fault(kill),
    "kill_leader": Fault(kill_leader),
    "kill_all": Fault(kill_all),
    "hang": Fault(hang),
    "ordered_stop": Fault(ordered_stop, mixes=False),
    "fill": Fault(fill),
    "take_inodes": Fault(take_inodes),
    "promote": Fault(promote),
    "elect": Fault(elect),
    "lost_master": Fault(lost_master, mixes=False),
    "transfer": Fault(transfer),
    "wipe": Fault(wipe, mixes=False),
}
