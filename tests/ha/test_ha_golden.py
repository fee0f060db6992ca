"""Streams recorded from Java masters and slaves, replayed in both directions (item 62)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import trio
from ha_kit import ADDRESSES, PORT, cluster, node, until
from ha_peer import Peer

GOLDEN = Path(__file__).parent.parent / "golden" / "classic"
STREAMS = [(version, f"ha.{n}") for version in ("4.9.7", "5.3.3") for n in (1, 2, 3)]
SIZED = ("segment_bytes = 65536", "frame_bytes = 32768")


@cache
def manifest(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / version / "manifest.json").read_text())
    return found


@cache
def golden_log(version: str) -> bytes:
    """What the Java master held at the end."""
    files = sorted((GOLDEN / version / "master" / "commitlog").iterdir())
    return b"".join(path.read_bytes() for path in files)[: manifest(version)["end"]]


@pytest.mark.checklist(62)
@pytest.mark.parametrize("chunk", [7, 1 << 20])
@pytest.mark.parametrize(("version", "stream"), STREAMS)
async def test_a_java_master_s_stream_gives_its_log(
    autojump_clock: object, version: str, stream: str, chunk: int
) -> None:
    session = manifest(version)["ha"][stream]
    log = golden_log(version)
    start = session["frames"][0][0]
    offset, size = session["frames"][-1]
    end = offset + size
    holding = log[:start] if session["reports"][0] else b""
    config = cluster(*SIZED, drop="segment_bytes = 4096")
    async with node("n1", config, holding=holding) as kit:
        listener = await kit.network.open("n0").listen(ADDRESSES["n0"], PORT)
        peer = Peer.of(await listener.accept())
        assert await peer.next_report() == session["reports"][0]
        data = (GOLDEN / version / "wire" / f"{stream}.server.bin").read_bytes()
        with trio.fail_after(60.0):
            for at in range(0, len(data), chunk):
                await peer.send.send_all(data[at : at + chunk])
            report = -1
            while report < end:
                following = await peer.next_report()
                assert following >= report
                report = following
        assert report == end
        held_from = 0 if holding else start
        assert kit.base_bytes == held_from
        assert bytes(kit.log) == log[held_from:end]


@pytest.mark.checklist(62)
@pytest.mark.parametrize(("version", "stream"), STREAMS)
async def test_a_java_slave_s_reports_get_the_log(
    autojump_clock: object, version: str, stream: str
) -> None:
    session = manifest(version)["ha"][stream]
    log = golden_log(version)
    start = session["frames"][0][0]
    config = cluster(
        *SIZED,
        'compat = "upstream"',
        'durability = "written"',
        slaves='[{ node = "n1", kind = "java" }]',
        drop="segment_bytes = 4096",
    )
    held = 32768 if stream == "ha.1" else len(log)  # the first slave came early
    async with node("n0", config, holding=log[:held]) as kit:
        peer = await kit.connect("n1")
        data = (GOLDEN / version / "wire" / f"{stream}.client.bin").read_bytes()
        await peer.send.send_all(data[:8])
        body = b""
        if held < len(log):
            await peer.next_frame()
            body = log[:held]
            await kit.append(log[held:])
        while len(body) < len(log) - start:
            offset, piece = await peer.next_frame()
            assert offset == start + len(body)
            assert len(piece) <= 32768
            body += piece
        assert body == log[start:]
        await peer.send.send_all(data[8:])
        last = session["reports"][-1]

        async def acked() -> bool:
            return (await kit.status()).slaves[0].ack_bytes == last

        await until(acked)
