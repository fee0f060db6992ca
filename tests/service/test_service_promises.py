"""What a group promises stands in the event log of each of its members, at every start."""

from __future__ import annotations

from pathlib import Path

import pytest

import actors
from actors.config import loads
from actors.env.local_disk import LocalDisk
from actors.events.node import GroupConfigured
from actors.service import configured
from actors.storage.node.event_reader import read_events

CLASSIC = """
mode = "classic"
master = "n0"
slaves = ["n1", { node = "n2", kind = "java" }]
port = 4000
"""
JAVA = "n2"
DLEDGER = """
mode = "dledger"
members = ["n2", "n0", "n1"]
port = 5000
"""


def cluster(folder: Path, group: str) -> actors.ClusterConfig:
    text = f"""
version = 1
name = "promises"
data_dir = "{folder}"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
[groups.it]
{group}
"""
    return loads(text, "promises.toml")


def promise(
    mode: str,
    copies: int,
    durability: str = "synced",
    store: str = "file",
    java: str = "",
    upstream: bool = False,
) -> GroupConfigured:
    return GroupConfigured(
        mode=mode,
        members=("n0", "n1", "n2"),
        java_members=(java,) if java else (),
        sure_copies=copies,
        durability=durability,
        store=store,
        upstream=upstream,
    )


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (CLASSIC + "copies = 1", promise("classic", 1, java=JAVA)),
        (
            CLASSIC + 'copies = 2\ndurability = "written"',
            promise("classic", 2, "written", java=JAVA),
        ),
        (CLASSIC + 'ack_policy = "4.x"', promise("classic", 2, java=JAVA)),
        (
            CLASSIC + 'copies = 2\ncompat = "upstream"',
            promise("classic", 2, java=JAVA, upstream=True),
        ),
        (DLEDGER, promise("dledger", 2)),
        (DLEDGER + 'compat = "upstream"', promise("dledger", 2, upstream=True)),
        (DLEDGER + 'term_entry = "none"', promise("dledger", 2, upstream=True)),
        (DLEDGER + 'store = "memory"', promise("dledger", 2, store="memory")),
    ],
)
def test_a_group_is_reported_as_configured(
    tmp_path: Path, group: str, expected: GroupConfigured
) -> None:
    assert configured(cluster(tmp_path, group).groups["it"]) == expected


@pytest.mark.real_io
async def test_each_boot_shows_it(tmp_path: Path, free_port: int) -> None:
    text = f'mode = "classic"\nmaster = "n0"\nport = {free_port}\nsegment_bytes = 1048576\n'
    config = cluster(tmp_path, text + "index_slots_count = 100\nindex_units_count = 400")
    for _ in range(2):
        async with actors.open_node(config, "n0"):
            pass
    logged = read_events(LocalDisk(), f"{tmp_path}/n0/events")
    reported = [each for each in logged if isinstance(each.event, GroupConfigured)]
    assert [(each.boot, each.seq, each.path) for each in reported] == [
        (1, 2, "/n0/it"),
        (2, 2, "/n0/it"),
    ]
    assert reported[0].event == configured(config.groups["it"])
