"""The feed of a DLedger group: it goes on with the next leader, and has no empty lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from cluster_kit import make_cluster
from ledger_samples import follower, leader
from status_samples import said
from test_cluster_feed import FakeApi, Record
from test_cluster_master_finder import Cluster, feeding, lines

from actors.client.lines import open_source, read_lines
from actors.cluster.arguments import parse
from actors.cluster.feed import Feed
from actors.cluster.links import Links
from actors.cluster.run import Feeding
from actors.cluster.session import feeding_of
from actors.config import load
from actors.errors import ConfigError, LeadershipLost

LEDGER = """\
[groups.ledger]
mode = "dledger"
members = ["n0", "n1", "n2"]
port = {port}
"""


@attrs.define
class Members(Cluster):
    """Two apis; `now` leads in term `promotion`."""

    def status(self, name: str) -> dict[str, Any]:
        names = {"leader": self.now, "term": self.promotion, "members": ["n0", "n1"]}
        peers = [{"node": "n1", "matched_index": 900}]
        found = leader(**names, committed_index=900, peers=peers)
        own = said(found if name == self.now else follower(**names))
        return {"groups": {"g": own.plain()}}


async def test_the_feed_goes_on_with_the_next_leader(autojump_clock: trio.abc.Clock) -> None:
    members = Members({"n0": FakeApi(), "n1": FakeApi()})
    feed, record = feeding(members, 50)

    async def elect() -> None:
        await trio.sleep(2.0)
        members.dead = "n0"
        await trio.sleep(30.0)
        members.now, members.promotion = "n1", 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(elect)
        nursery.start_soon(feed.run)
    assert set(members.tried) == {"n0", "n1"}
    assert set(members.apis["n0"].log + members.apis["n1"].log) == set(lines(500))
    assert sum(count for _, count in record.noted) == feed.view().acknowledged_count == 500


async def test_lines_in_doubt_are_sent_again_and_counted(autojump_clock: trio.abc.Clock) -> None:
    members = Members({"n0": FakeApi({3: LeadershipLost("another leads")}), "n1": FakeApi()})
    feed, _ = feeding(members, 5)
    await feed.run()
    view = feed.view()
    assert (view.acknowledged_count, view.unknown_count) == (50, 5)
    assert set(members.apis["n0"].log) == set(lines(50))


async def fed(*chunks: tuple[bytes, ...], takes_empty: bool) -> list[bytes]:
    send, receive = trio.open_memory_channel[tuple[bytes, ...]](len(chunks))
    for chunk in chunks:
        send.send_nowait(chunk)
    send.close()
    api = FakeApi()
    feed = Feed(
        group="g",
        source="s",
        lines=receive,
        connect=api.connect,
        record=Record(),  # type: ignore[arg-type]
        takes_empty=takes_empty,
    )
    await feed.run()
    return api.log


async def test_empty_lines_are_passed_over(autojump_clock: trio.abc.Clock) -> None:
    chunks = ((b"a", b"", b"b"), (b"",), (b"c",), (b"",))
    assert await fed(*chunks, takes_empty=False) == [b"a", b"b", b"c"]
    assert await fed(*chunks, takes_empty=True) == [b"a", b"", b"b", b"", b"c", b""]


@pytest.mark.real_io
async def test_empty_lines_of_a_file_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("a\n\nb\n\n\nc\n\n")

    async def read(skip: int, **keys: bool) -> list[bytes]:
        send, receive = trio.open_memory_channel[tuple[bytes, ...]](9)
        source = open_source(str(file), "x")
        await read_lines(source, [send], line_bytes_max=9, skip=skip, **keys)
        return [line async for chunk in receive for line in chunk]

    assert await read(1, empty=False) == [b"b", b"c"]
    assert await read(1) == [b"", b"b", b"", b"", b"c", b""]


def feed_of(folder: Path, *words: str, nodes: tuple[str, ...]) -> Feeding | None:
    cluster = make_cluster(folder)
    text = cluster.text + LEDGER.format(port=cluster.port + 1)
    text += '[demo.feed]\nfile = "lines"\n'
    (folder / "lines").write_text("a\n")
    config = load(cluster.write(text))
    links = Links(names=nodes, connect=lambda name: trio.open_nursery())  # type: ignore[arg-type, return-value]
    return feeding_of(parse([cluster.file, *words]), config, nodes, links)


def masters(feeding: Feeding | None) -> tuple[str, ...]:
    assert feeding is not None
    return feeding.masters


@pytest.mark.real_io
def test_a_group_is_fed_from_one_place(tmp_path: Path) -> None:
    assert masters(feed_of(tmp_path, nodes=("n0", "n1", "n2"))) == ("n0",)
    assert feed_of(tmp_path, nodes=("n1", "n2")) is None
    lines = str(tmp_path / "lines")
    assert masters(feed_of(tmp_path, "--feed", lines, nodes=("n2",))) == ("n2",)
    with pytest.raises(ConfigError, match="a group's master or member among"):
        feed_of(tmp_path, "--feed", lines, nodes=())
