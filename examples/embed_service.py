"""A replicated log inside your own Trio program: three nodes, some appends, one reader.

    python examples/embed_service.py [FOLDER]

In real life each node runs in a program of its own, on a machine of its own, with the same cluster
file. Here all three stand in one nursery, so that you see them work without three machines.
"""

import sys
import tempfile
from pathlib import Path

import trio

import actors

CLUSTER = """
version = 1
name = "embedded"
data_dir = "data"                # relative to this file
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
[groups.orders]
mode = "classic"
master = "n0"
slaves = ["n1", "n2"]
copies = 2                       # the master and one slave, each on its disk
port = 10952
segment_bytes = 16_777_216
"""


async def sell(log: actors.Log) -> None:
    """One batch with one answer, then many records through the pipelined appender."""
    receipt = await log.append([b"order 1: tea", b"order 2: rice"])
    print(f"{receipt.count} orders on {receipt.copies} nodes, {receipt.durability}")
    async with log.appender() as out:
        for number in range(3, 1001):
            await out.send(b"order %d: more tea" % number)
    print(f"{out.acknowledged_count} more, all acknowledged")


async def count(log: actors.Log, orders: int) -> None:
    """Follow the log on a slave until it has shown `orders` records."""
    seen = 0
    async with log.reader(follow=True) as batches:
        async for batch in batches:
            seen += len(batch.records)
            if seen >= orders:
                print(f"the slave has shown {seen} orders, the last is {batch.records[-1].body!r}")
                return


async def main(folder: Path) -> None:
    file = folder / "cluster.toml"
    file.write_text(CLUSTER)
    # Each is ready on entry and stops in order on exit: first the master, which drains its slaves.
    async with (
        actors.open_node(file, "n1") as slave,
        actors.open_node(file, "n2"),
        actors.open_node(file, "n0") as master,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(count, slave.log("orders"), 1000)
        await sell(master.log("orders"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        trio.run(main, Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            trio.run(main, Path(folder))
