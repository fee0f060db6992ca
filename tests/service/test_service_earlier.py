"""Data directories and cluster files of an earlier version open as they are, and go on."""

from __future__ import annotations

import tarfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio
from free_ports import free_port

import actors
from actors.env.local_disk import LocalDisk
from actors.errors import NotMaster, NotStored
from actors.storage.node.event_reader import read_events
from actors.storage.tools.command_line import run_command_line

pytestmark = pytest.mark.real_io

EARLIER = Path(__file__).parents[1] / "golden" / "earlier"
NODES = ("n0", "n1", "n2")
LINES = {"killed": 500, "stopped": 600}
"""Of each group, by what ended the nodes."""
WAIT_S = 60.0


def line(group: str, number: int) -> bytes:
    return f"{group} {number} {'x' * (number * 37 % 300)}".encode()


def unpacked(ended: str, folder: Path) -> Path:
    """The folder as it was, and the cluster file with ports that are free now."""
    with tarfile.open(EARLIER / f"{ended}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    file = folder / "cluster.toml"
    text = file.read_text()
    port = free_port(2)
    for number, before in enumerate(("10962", "20962")):
        text = text.replace(f"port = {before}", f"port = {port + number}")
    file.write_text(text)
    return file


@asynccontextmanager
async def running(file: Path) -> AsyncIterator[dict[str, actors.Node]]:
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(actors.open_node(file, name)) for name in NODES
        }


async def appended(nodes: dict[str, actors.Node], group: str, bodies: list[bytes]) -> str:
    """By whichever node takes appends; gives its name."""
    with trio.fail_after(WAIT_S):
        while True:
            for name, node in nodes.items():
                try:
                    await node.log(group).append(bodies)
                except (NotMaster, NotStored):
                    await trio.sleep(0.1)
                else:
                    return name


async def shown(node: actors.Node, group: str) -> list[bytes]:
    """All that there is, and all that was acknowledged before."""
    found: list[bytes] = []
    position = 0
    with trio.fail_after(WAIT_S):
        while True:
            batch = await node.log(group).read(position, fresh=True)
            if not batch.records:
                return [body for body in found if body]  # a DLedger leader's own entries are empty
            found += [record.body for record in batch.records]
            position = batch.next


@pytest.mark.parametrize("ended", LINES)
async def test_the_nodes_go_on_with_it(ended: str, tmp_path: Path) -> None:
    file = unpacked(ended, tmp_path)
    expected = {
        group: [line(group, number) for number in range(LINES[ended])]
        for group in ("orders", "ledger")
    }
    async with running(file) as nodes:
        for group, lines in expected.items():
            lines.append(b"and on")
            name = await appended(nodes, group, [b"and on"])
            assert group == "ledger" or name == "n1", "a promotion is forgotten"
        await nodes["n1"].promote("orders", "n2", False)
        for group, lines in expected.items():
            lines.append(b"behind a promotion")
            name = await appended(nodes, group, [b"behind a promotion"])
            assert group == "ledger" or name == "n2"
            for node in nodes.values():
                assert await shown(node, group) == lines


@pytest.mark.parametrize("ended", LINES)
@pytest.mark.parametrize("group", ["orders", "ledger"])
@pytest.mark.parametrize("node", NODES)
def test_storage_check_finds_nothing_wrong(
    ended: str, group: str, node: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unpacked(ended, tmp_path)
    code = run_command_line(["check", str(tmp_path / "var" / node), "--group", group])
    assert code == 0, capsys.readouterr().out


@pytest.mark.parametrize("ended", LINES)
def test_its_events_are_read(ended: str, tmp_path: Path) -> None:
    unpacked(ended, tmp_path)
    kinds = set()
    for node in NODES:
        logged = list(read_events(LocalDisk(), str(tmp_path / "var" / node / "events")))
        kinds |= {type(each.event).__name__ for each in logged}
    assert {"RecordsAppended", "SlaveAcked", "GroupOpened", "RoleChanged"} <= kinds
    assert "UnknownEvent" not in kinds
