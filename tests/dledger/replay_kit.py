"""What recorded Java nodes were asked, asked of a member of ours in the same state.

A `Story` is one life of one node through some recordings: every request that travelled to it is
sent to our member, in the recorded order and as the recorded bytes, and each answer is laid beside
Java's. Time is virtual and not the recording's: `Story.before` has the waits that matter.

Where the node leads, `replay_peers` vote for our member and take what it pushes. Entries that came
to it by a connection that was not recorded are appended before it pushes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import golden_dledger as golden
import msgspec
import trio
from group_kit import run_member
from replay_peers import Peers
from replay_rows import Answer, Row, append_indexes, in_append_order, led_terms, rows
from rpc_kit import Client, frame_of

from actors.config import ClusterConfig, DLedgerGroup, validate
from actors.sim.world import World, open_world
from wire.dledger.codes import PushType, RequestCode
from wire.dledger.entry import Entry
from wire.dledger.rpc import (
    AppendEntryRequest,
    HeartBeatRequest,
    LeadershipTransferResponse,
    PushEntryRequest,
    Request,
    decode_response,
)
from wire.remoting.frame import Frame

NODES = ("n0", "n1", "n2")
OWN = "test"
"""Who sends what the recording has not: a connection of the test itself."""
GAP_S = 0.05
"""Between two recorded frames: less than the recording's time, so that no heartbeat is missed."""
OPEN_S = 0.5
"""After so long a member that has been elected takes appends."""
SILENCE_S = 8.0
"""After so long without a heartbeat a member has campaigned in the present term."""
CAMPAIGN_S = 1.5
"""After so long a member that has just started has campaigned."""
BEAT_S = 1.5
WITHIN_S = 60.0


Step = Callable[["Replay"], Awaitable[None]]


@attrs.frozen(kw_only=True)
class Story:
    """One life of a node. See the module's text.

    Attributes:
        before: what happens to the node before a recording begins, by its number.
    """

    node: str
    scenarios: tuple[str, ...]
    before: dict[str, tuple[Step, ...]] = attrs.field(factory=dict)


@attrs.define(eq=False)
class Replay:
    """A story while it is written."""

    story: Story
    world: World
    config: ClusterConfig
    nursery: trio.Nursery
    peers: Peers = attrs.field(factory=Peers)
    answers: list[Answer] = attrs.field(factory=list)
    _streams: dict[tuple[str, str], Client] = attrs.field(factory=dict)
    _got: dict[tuple[str, str, int], Frame] = attrs.field(factory=dict)
    _asked: dict[tuple[str, int, int], Row] = attrs.field(factory=dict)
    _leader: tuple[str, int, float] | None = None  # name, term, when its next heartbeat is due
    _end: int = -1  # of the log
    _indexes: dict[tuple[str, int, int], int] = attrs.field(factory=dict)
    _own_opaque: int = 0

    # ---- the member ----

    @property
    def node(self) -> str:
        return self.story.node

    async def start(self) -> None:
        await self.world.start_node(self.node, partial(run_member, self.config, self.node))
        await trio.sleep(CAMPAIGN_S)

    async def kill(self) -> None:
        self.peers.led_term, self._leader = -1, None
        self._streams.clear()
        await self.world.kill_node(self.node)

    async def silence(self) -> None:
        """No leader is heard until the member has campaigned."""
        self.peers.led_term, self._leader = -1, None
        await trio.sleep(SILENCE_S)

    async def cut(self) -> None:
        """Nobody answers it any more."""
        self.peers.led_term = -1

    async def lead(self, term: int) -> None:
        """Have it elected in that term."""
        self._leader = None
        if self.peers.led_term < term:
            await self.peers.let_lead(term)
        with trio.fail_after(WITHIN_S):
            while self.peers.heard_term < term:  # noqa: ASYNC110 - a wait for what is sent
                await trio.sleep(GAP_S)
        await trio.sleep(OPEN_S)

    # ---- requests ----

    async def stream(self, scenario: str, asker: str, conn: int) -> tuple[str, Client]:
        name = f"{scenario} c{conn}"
        if (asker, name) not in self._streams:
            host = asker if asker in NODES else next(n for n in NODES if n != self.node)
            network = self.world.network.open(host)
            stream = await network.connect(self.config.nodes[self.node], 20_911)
            client = self._streams[asker, name] = Client.of(stream)
            self.nursery.start_soon(self._listen, asker, name, client)
        return name, self._streams[asker, name]

    async def _listen(self, asker: str, name: str, client: Client) -> None:
        while (frame := await client.frame_or_end()) is not None:
            self._got[asker, name, frame.header.opaque] = frame

    async def ask_as_recorded(self, row: Row) -> None:
        _, client = await self.stream(row.scenario, row.asker, row.conn)
        self._asked[row.key] = row
        await client.put(row.raw)

    async def ask(self, request: Request, asker: str = OWN) -> Frame:
        """What the recording has not."""
        name, client = await self.stream(OWN, asker, 0)
        self._own_opaque += 1
        await client.put(frame_of(request, self._own_opaque))
        return await self._answer_of(asker, name, self._own_opaque)

    async def _answer_of(self, asker: str, name: str, opaque: int) -> Frame:
        with trio.fail_after(WITHIN_S):
            while (asker, name, opaque) not in self._got:  # noqa: ASYNC110 - a wait for an answer
                await trio.sleep(0.005)
        return self._got.pop((asker, name, opaque))

    # ---- telling ----

    async def tell(self) -> None:
        """All of it, with the heartbeats that the recordings have left out."""
        for scenario in self.story.scenarios:
            for step in self.story.before.get(scenario[:2], ()):
                await step(self)
            found = rows(scenario)
            self._indexes = append_indexes(found)
            for row in in_append_order(found, self.node):
                await trio.sleep(GAP_S)
                await self._beat()
                if row.server == self.node:
                    await self._to_it(row)
                elif row.asker == self.node:
                    await self._from_it(row)

    async def _to_it(self, row: Row) -> None:
        if not row.is_reply:
            self._end = self._end_after(row)
            await self.ask_as_recorded(row)
        elif row.key in self._asked:
            asked = self._asked.pop(row.key)
            name = f"{row.scenario} c{row.conn}"
            ours = await self._answer_of(row.asker, name, row.frame.header.opaque)
            self.answers.append(Answer(asked, row.frame, ours))
            if row.name == "HEART_BEAT" and row.body["code"] == 200:
                self._leader = row.asker, asked.request.term, trio.current_time() + BEAT_S

    async def _beat(self) -> None:
        if self._leader is not None and trio.current_time() >= self._leader[2]:
            leader, term, _ = self._leader
            self._leader = leader, term, trio.current_time() + BEAT_S
            await self.ask(self._heartbeat(leader, term), leader)

    def _heartbeat(self, leader: str, term: int) -> HeartBeatRequest:
        return HeartBeatRequest(
            group="g", leader_id=leader, local_id=leader, remote_id=self.node, term=term
        )

    def _end_after(self, row: Row) -> int:
        """Of the log, once the request is carried out."""
        if row.name != "PUSH":
            return self._indexes.get(row.key, self._end)
        request = row.request
        assert isinstance(request, PushEntryRequest)
        writes = request.type in (PushType.APPEND, PushType.TRUNCATE) and request.entries
        return request.entries[-1].index if writes else self._end

    async def _from_it(self, row: Row) -> None:
        """The node asked or was answered: what our member has to be then."""
        if row.is_reply:
            if row.name == "LEADERSHIP_TRANSFER":
                answer, _ = decode_response(RequestCode.LEADERSHIP_TRANSFER, row.frame.body)
                assert isinstance(answer, LeadershipTransferResponse)
                await self.peers.answer_transfer(answer)
            return
        request = row.request
        if row.name == "VOTE":
            if request.term in led_terms(self.node, row.scenario):
                await self.peers.let_lead(request.term)
        elif row.name in ("HEART_BEAT", "PUSH"):
            await self.lead(request.term)
            if isinstance(request, PushEntryRequest):
                await self._append_unrecorded(request)

    async def _append_unrecorded(self, pushed: PushEntryRequest) -> None:
        for entry in pushed.entries:
            if pushed.type is PushType.APPEND and entry.index > self._end:
                assert entry.index == self._end + 1
                request = AppendEntryRequest(body=entry.body, group="g", remote_id=self.node)
                assert msgspec.json.decode((await self.ask(request)).body)["code"] == 200
                self._end += 1

    # ---- the state before ----

    async def follow(self, leader: str, term: int, entries: tuple[Entry, ...] = ()) -> None:
        """Heartbeats of that leader, and a log."""
        base: Any = {"group": "g", "leader_id": leader, "local_id": leader, "remote_id": self.node}
        for _ in range(2):
            await self.ask(self._heartbeat(leader, term))
            await trio.sleep(GAP_S)
        self._leader = leader, term, trio.current_time() + BEAT_S
        for entry in entries:
            kind = PushType.TRUNCATE if entry is entries[0] else PushType.APPEND
            push = PushEntryRequest(type=kind, term=term, entry=entry, commit_index=-1, **base)
            assert msgspec.json.decode((await self.ask(push)).body)["code"] == 200
            self._end = entry.index

    # ---- what became of it ----

    def data_files(self) -> dict[int, bytes]:
        """Of the member's log: start -> content."""
        disk = self.world.node(self.node).disk
        folder = f"{self.config.group_dir(self.node, 'g')}/data"
        files = {}
        for name in sorted(disk.listdir(folder)):
            file = disk.open(f"{folder}/{name}", "r")
            files[int(name)] = file.pread(0, file.size_bytes)
            file.close()
        return files


@asynccontextmanager
async def reported(story: Story) -> AsyncIterator[Replay]:
    """The story from its beginning to its end; the member still runs."""
    group = DLedgerGroup(
        name="g",
        members=NODES,
        data_file_bytes=golden.DATA_FILE_BYTES,
        index_file_bytes=golden.INDEX_FILE_BYTES,
        term_entry="none",  # upstream's: the indexes are the recording's
        raft_votes=False,  # so are the votes
    )
    nodes = {name: f"10.0.0.{number}" for number, name in enumerate(NODES, 1)}
    config = ClusterConfig(
        name="sim", data_dir="/data", nodes=nodes, groups={"g": group}, api_port=None
    )
    validate(config)
    async with open_world("replay") as world, trio.open_nursery() as nursery:
        for name, address in nodes.items():
            world.add_node(name, address)
        replay = Replay(story, world, config, nursery)
        for name, address in nodes.items():
            if name != story.node:
                network = world.network.open(name)
                await nursery.start(replay.peers.listen, network, address, group.port)
        await replay.start()
        await replay.tell()
        yield replay
        nursery.cancel_scope.cancel()
