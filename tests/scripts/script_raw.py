"""The commands for raw ends: what a script says as a slave, as a master, or as a stranger."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import trio
from script_peers import BODY_BYTES, LOOK_S, Peer, RawMaster, frame, records

from actors.sim.world import World

__all__ = ["ADDRESSES", "BODY_BYTES", "LOOK_S", "PORT", "QUIET_S", "RawCommands"]

PORT = 10912
ADDRESSES = {"n0": "10.0.0.1", "n1": "10.0.0.2", "n2": "10.0.0.3", "stranger": "10.0.0.9"}
QUIET_S = 0.05
"""After an action, so that what it set going has arrived."""


@attrs.define(eq=False)
class RawCommands:
    """Raw ends by name: masters by the node that they stand for, slaves' ends as called."""

    _world: World
    _nursery: trio.Nursery
    _append: Callable[[], Awaitable[object]]
    _peers: dict[str, Peer] = attrs.field(factory=dict)
    _masters: dict[str, RawMaster] = attrs.field(factory=dict)

    def knows(self, name: str) -> bool:
        """Whether it is a raw end's name."""
        return name in self._peers or name in self._masters

    async def _connect(self, host: str, _as: str, name: str) -> list[str]:
        """A slave's end from that address, in the script's hand."""
        process = self._world.network.open(host)
        try:
            peer = Peer(await process.connect(ADDRESSES["n0"], PORT, local_host=ADDRESSES[host]))
        except ConnectionResetError:
            peer = Peer(None)  # refused so fast that the connect itself fails
        self._peers[name] = peer
        self._nursery.start_soon(peer.run)
        return await _wait(QUIET_S)

    async def _probes(self, host: str, count: str) -> list[str]:
        """Connect, say junk every other time, close."""
        for number in range(int(count)):
            await self._connect(host, "as", "probe")
            if number % 2:
                await self._peers["probe"].say(b"GET /")
            self._peers["probe"].close()
        return await _wait(1.0)

    async def _listen(self, host: str) -> list[str]:
        """A master's end at that address, in the script's hand; waits until ours connects."""
        master = RawMaster(self._world.network.open(host), ADDRESSES[host], PORT)
        self._masters[host] = master
        await self._nursery.start(partial(master.run, self._nursery))
        return []

    async def play(self, name: str, what: str, *rest: str) -> list[str]:
        """What a raw end is to do."""
        master = self._masters.get(name)
        if what == "serve" and master is not None:
            start, size = map(int, rest)
            master.greeting = frame(start, records(start, start + size))
            master.count_from_now()
            return []
        if what == "pauses" and master is not None:
            return [f"seconds between connections: {' '.join(map(str, master.pauses_s()))}"]
        if what == "connections" and master is not None:
            return [f"{len(master.connections)} connections"]
        peer = master.peer if master is not None else self._peers[name]
        match what, rest:
            case "report", offsets:
                await peer.say(b"".join(int(each).to_bytes(8, signed=True) for each in offsets))
            case "say", words:
                await peer.say(" ".join(words).encode() + b"\r\n\r\n")
            case "frame", (start, end):
                body = records(int(start), int(end))
                await peer.say(frame(int(start), body))
            case "header", (offset, size):
                if master is not None:
                    master.count_from_now()
                await peer.say(int(offset).to_bytes(8) + int(size).to_bytes(4, signed=True))
            case "heartbeats", (offset, every_s, for_s):
                for _ in range(int(for_s) // int(every_s)):
                    await trio.sleep(int(every_s))
                    await peer.say(frame(int(offset), b""))
            case "follow", ():
                peer.follows = True
            case "hear", _:
                await _wait(rest[0] if rest else QUIET_S)
                return peer.take_reports() if master is not None else peer.take_frames()
            case "lag", (count,):
                return [await self._lag(peer, int(count))]
            case _:
                assert what == "close", what
                peer.close()
        return await _wait(QUIET_S)

    async def _lag(self, peer: Peer, count: int) -> str:
        """How long appends take to arrive, as a class: the longest of a few."""
        longest_s = 0.0
        for number in range(count):
            await trio.sleep(0.137 + 0.011 * number)
            peer.take_frames()
            began_s = trio.current_time()
            await self._append()
            while peer.take_frames() == ["nothing"]:  # noqa: ASYNC110
                await trio.sleep(LOOK_S)
            longest_s = max(longest_s, trio.current_time() - began_s)
        return next(f"within {ms} ms" for ms in (20, 110, 10_000) if longest_s < ms / 1000)


async def _wait(seconds: str | float) -> list[str]:
    await trio.sleep(float(seconds))
    return []
