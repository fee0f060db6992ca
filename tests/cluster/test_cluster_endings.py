"""How a node that does not run has ended, as `status` says it."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest
import trio
from cluster_world import CONFIG, NODES, three_nodes

from actors.cluster import commands
from actors.cluster.command_line import ended_how
from actors.config import ClusterConfig
from actors.events.codec import LineEncoder
from actors.events.node import NodeStarted, NodeStopped
from actors.storage.node import event_files


@pytest.fixture
def config(tmp_path: Path) -> ClusterConfig:
    return attrs.evolve(CONFIG, data_dir=str(tmp_path))


def write_boot(
    config: ClusterConfig, boot: int, *events: object, live: bool = False, node: str = "n1"
) -> None:
    """One file of the node's event log."""
    encode = LineEncoder(node, boot).encode
    lines = [encode(seq, f"/{node}", 0, 0, event) for seq, event in enumerate(events, 1)]
    root = f"{config.node_dir(node)}/events"
    folder = event_files.folder_of(root, "2026-01-31", node)
    file = event_files.EventFile(boot=boot, start_seq=1, folder=folder)
    Path(folder).mkdir(parents=True, exist_ok=True)
    Path(file.part_path if live else file.path).write_bytes(event_files.compress(lines))


STARTED = NodeStarted(cluster="demo", version="1", groups=("orders",))
DAMAGE = "CorruptLog: /d/0: byte 7 (offset 7): expected entry 0, found 3 of its 9 bytes"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("ordered", ""),
        (DAMAGE, f"ended by damage: {DAMAGE.partition(': ')[2]}"),
        ("LostVote: /d/currterm: none", "ended by damage: /d/currterm: none"),
        ("StorageError: /d: a sync failed", "ended itself: /d: a sync failed"),
        ("no room", "ended itself: no room"),
    ],
)
def test_the_last_word_of_the_newest_boot(config: ClusterConfig, reason: str, words: str) -> None:
    write_boot(config, 1, STARTED, NodeStopped(reason="StorageError: long ago"))
    write_boot(config, 2, STARTED, NodeStopped(reason=reason))
    assert ended_how(config, "n1") == words


@pytest.mark.parametrize("live", [True, False])
def test_a_boot_without_a_last_word(config: ClusterConfig, live: bool) -> None:
    """Killed, before or after its first file was full."""
    write_boot(config, 1, STARTED, NodeStopped(reason=DAMAGE))
    write_boot(config, 2, STARTED, live=live)
    assert ended_how(config, "n1") == ""


def test_a_node_of_another_machine_and_one_whose_events_cannot_be_read(
    config: ClusterConfig,
) -> None:
    assert ended_how(config, "n2") == ""
    write_boot(config, 1, STARTED, NodeStopped(reason=DAMAGE))
    for path in Path(config.node_dir("n1")).rglob("*.gz"):
        path.write_bytes(b"\0" * 40)
    assert ended_how(config, "n1") == ""


async def test_status_says_it(config: ClusterConfig, autojump_clock: trio.abc.Clock) -> None:
    write_boot(config, 1, STARTED, NodeStopped(reason=DAMAGE))
    world = three_nodes()
    world.nodes["n1"].up = False

    async def status(pid: int | None, *, as_json: bool) -> commands.Answer:
        return await commands.status(
            config,
            NODES,
            world.connect,  # type: ignore[arg-type]
            {"n1": pid}.get,
            lambda node: ended_how(config, node),
            as_json=as_json,
        )

    how = ended_how(config, "n1")
    answer = await status(None, as_json=False)
    assert answer.exit_code == 1
    assert f"  n1: not running, {how}" in answer.text.split("\n")
    found = json.loads((await status(None, as_json=True)).text)
    assert found["ended"] == {"n1": how}
    assert found["away"] == {"n1": f"not running, {how}"}
    starts = (await status(7, as_json=False)).text
    assert how not in starts
    assert "  n1: no answer, but process 7 has its data (" in starts
