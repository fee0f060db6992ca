"""One node in a process of its own, its network watched: `compare_node.py CLUSTER NODE METER`.

METER is a file of METER_BYTES, for what is counted. Otherwise as `bench_node.py`.
"""

from __future__ import annotations

import json
import mmap
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import attrs
import trio
from bench_kit import GROUP
from bench_node import commands
from compare_links import METER_BYTES, Gate, Meter, WatchedNetwork

from actors import load_config, open_node
from actors.collector import collect_less
from actors.env.real import real_env


def obey(gate: Gate, hosts: dict[str, str], command: dict[str, Any]) -> bool:
    """Cut or heal the link to a node."""
    act = {"cut": gate.shut, "heal": gate.open}[command["do"]]
    act(hosts[command["node"]])
    return True


def counted(path: str) -> mmap.mmap:
    """The bytes of the meter's file, which outlive this process."""
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), METER_BYTES)


async def main(cluster: str, name: str, meter: str) -> None:
    config = load_config(cluster)
    group = config.groups[GROUP]
    env = real_env()
    elects = GROUP not in config.classic_groups
    network = WatchedNetwork(env.network, group.port, elects, Meter(counted(meter)))
    env = attrs.evolve(env, network=network)
    async with open_node(config, name, env=env):
        print(json.dumps(True), flush=True)
        async for command in commands():
            print(json.dumps(obey(network.gate, dict(config.nodes), command)), flush=True)


if __name__ == "__main__":
    collect_less()
    trio.run(main, *sys.argv[1:])
