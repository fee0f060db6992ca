"""A slave that speaks auto-switch HA, as its master sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from autoswitch_kit import Known, history
from ha_kit import ADDRESSES, PORT, SEGMENT, Kit, cluster, kit_on, node, until
from ha_peer import Peer

from actors.epochs import History
from actors.events import ha as events
from actors.ha.core.states import HAConnectionState, Lost
from actors.ha.own_epochs import OwnEpochs
from actors.ha.settings import ClientSettings
from actors.storage.commitlog.epoch_store import EpochStore
from actors.storage.layout import StoreLayout
from actors.storage.log.log_reader import LogReader
from actors.trees import classic
from wire.files.commit_log import RecordEncoder
from wire.files.epoch_file import EpochStart, decode_epoch_file, encode_epoch_file
from wire.ha import autoswitch
from wire.ha.autoswitch import EpochFrameStarted, HandshakeAnswer, HandshakeRequest

HOST = ("127.0.0.1", 1)
WRITTEN = cluster('durability = "written"')


def record(offset: int, body: bytes) -> bytes:
    """One record as it lies in the log at `offset`."""
    out = bytearray()
    RecordEncoder("t", HOST, HOST).encode_into(
        out, body, queue_id=0, queue_offset=0, physical_offset=offset, store_ts=1, born_ts=1
    )
    return bytes(out)


ONE = record(0, b"1" * 100)
TWO = record(len(ONE), b"2" * 100)
THREE = record(len(ONE + TWO), b"3" * 100)
LOG = ONE + TWO + THREE
AT = (0, len(ONE), len(ONE + TWO), len(LOG))
"""Where each record begins, and the end."""


@attrs.define
class EpochMaster:
    """A master in the hands of the test, and what its slave has done meanwhile."""

    kit: Kit
    listener: Any
    own: OwnEpochs
    cuts: list[int]
    confirmed: list[int]

    async def accept(self) -> Peer:
        with trio.fail_after(30.0):
            peer = Peer.of(await self.listener.accept())
        request = await peer.exactly(16)
        assert request == autoswitch.encode_request(HandshakeRequest(broker_id=2))
        return peer

    async def answered(self, end: int, *epochs: tuple[int, int]) -> Peer:
        """The next connection, once its handshake was answered."""
        peer = await self.accept()
        await peer.send.send_all(answer(end, *epochs))
        return peer

    async def lost(self) -> events.MasterLost:
        await until(lambda: bool(self.kit.of(events.MasterLost)))
        found: events.MasterLost = self.kit.of(events.MasterLost)[-1]
        return found

    def in_file(self) -> list[tuple[int, int]]:
        path = StoreLayout(self.kit.setup.layout.root).epochs
        data = self.kit.disk.open(path, "r").pread(0, 4096)
        return [(each.epoch, each.offset) for each in decode_epoch_file(data)]


def answer(end: int, *epochs: tuple[int, int]) -> bytes:
    listed = tuple(EpochStart(*each) for each in epochs)
    return autoswitch.encode_answer(HandshakeAnswer(end, epochs[-1][0], listed))


async def frame(peer: Peer, offset: int, body: bytes, epoch: tuple[int, int], confirm: int) -> None:
    head = EpochFrameStarted(offset, len(body), *epoch, confirm)
    await peer.send.send_all(autoswitch.encode_frame_header(head) + body)


async def report(peer: Peer) -> int:
    data = await peer.exactly(12)
    assert data[:4] == b"\0\0\0\2"
    return int.from_bytes(data[4:])


@attrs.define
class Side:
    """What a slave's client tells others, and its epochs."""

    cuts: list[int] = attrs.field(factory=list)
    confirmed: list[int] = attrs.field(factory=list)
    own: OwnEpochs = attrs.field(init=False)


def speak(patch: pytest.MonkeyPatch, holding: bytes = b"", *epochs: tuple[int, int]) -> Side:
    """Have the slaves' trees that are built from now on speak this dialect, with these epochs."""
    side = Side()

    def settings(**options: Any) -> ClientSettings:
        return ClientSettings(**{**options, "judge": None, "keeper": None, "epochs": side.own})

    def setup_of(kit_setup: Any) -> None:
        disk, layout = kit_setup.env.disk, kit_setup.layout
        disk.mkdir(layout.root)
        if epochs:
            file = disk.open(layout.epochs, "x")
            file.pwrite(encode_epoch_file([EpochStart(*each) for each in epochs]), 0)
            file.sync()
        store = EpochStore.open(disk, layout, 0, len(holding), lambda offset: True)
        side.own = OwnEpochs(
            store=store,
            master="n0",
            told_epoch=0,
            make_reader=partial(LogReader, disk, layout.commit_log, SEGMENT),
            cut=side.cuts.append,
            confirmed=side.confirmed.append,
        )

    real = classic.slave_ha

    def slave_ha(setup: Any) -> Any:
        setup_of(setup)
        return real(setup)

    patch.setattr(classic, "classic_dialect", lambda compat: Known().dialect(2))
    patch.setattr(classic, "ClientSettings", settings)
    patch.setattr("ha_kit.slave_ha", slave_ha)
    return side


@asynccontextmanager
async def slave_of_test(
    patch: pytest.MonkeyPatch, holding: bytes = b"", *epochs: tuple[int, int]
) -> AsyncIterator[EpochMaster]:
    """n1 with its client, which holds a log of these epochs; the master is the test."""
    side = speak(patch, holding, *epochs)
    async with node("n1", WRITTEN, holding=holding) as kit:
        listener = await kit.network.open("n0").listen(ADDRESSES["n0"], PORT)
        yield EpochMaster(kit, listener, side.own, side.cuts, side.confirmed)
        await listener.aclose()


def held(history_of: History) -> list[tuple[int, int]]:
    return [(each.number, each.start_bytes) for each in history_of]


@pytest.mark.checklist(4, 7, 18, of="autoswitch")
async def test_a_slave_follows_with_its_epochs_on_the_disk(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with slave_of_test(monkeypatch) as master:
        peer = await master.answered(AT[2], (1, 0), (2, AT[1]))
        assert await report(peer) == 0
        assert (await master.kit.status()).client.state == HAConnectionState.TRANSFER  # type: ignore[union-attr]
        await frame(peer, 0, ONE, (2, AT[1]), 0)  # as Java names it
        assert await report(peer) == AT[1]
        assert master.in_file() == [(1, 0)]
        await frame(peer, AT[1], TWO, (2, AT[1]), AT[1])
        assert await report(peer) == AT[2]
        assert master.in_file() == [(1, 0), (2, AT[1])]
        await frame(peer, AT[2], THREE, (5, AT[2]), AT[3])
        assert await report(peer) == AT[3]
        assert master.in_file() == [(1, 0), (2, AT[1]), (5, AT[2])]
        assert bytes(master.kit.log) == LOG
        await until(lambda: master.confirmed[-1:] == [AT[3]])
        assert master.confirmed == sorted(set(master.confirmed))


@pytest.mark.checklist(1, of="autoswitch")
async def test_an_answer_may_come_byte_by_byte_and_is_given_up_after_a_while(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with slave_of_test(monkeypatch, ONE, (1, 0)) as master:
        silent = await master.accept()
        status = (await master.kit.status()).client
        assert status is not None
        assert status.state == HAConnectionState.HANDSHAKE
        assert await silent.ended()
        assert (await master.lost()).reason == Lost.SILENT.value
        peer = await master.accept()
        for byte in answer(AT[1], (1, 0)):
            await peer.send.send_all(bytes((byte,)))
        assert await report(peer) == AT[1]


@pytest.mark.checklist(14, of="autoswitch")
async def test_a_log_that_parts_from_the_master_s_is_cut_first(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with slave_of_test(monkeypatch, LOG, (1, 0)) as master:
        peer = await master.answered(9999, (1, 0), (2, AT[1]))
        assert await peer.ended()
        assert (await master.lost()).reason == Lost.CUT_FIRST.value
        assert master.cuts == [AT[1]]
        assert bytes(master.kit.log) == LOG


@pytest.mark.checklist(16, of="autoswitch")
@pytest.mark.parametrize(
    ("end", "epochs", "reason"),
    [
        (9999, [(2, 0)], Lost.FOREIGN_LOG),
        (9999, [(1, 0), (3, AT[1] + 1)], Lost.FOREIGN_LOG),  # no record begins there
        (9999, [(1, 0)], Lost.DEPOSED),
    ],
)
async def test_without_a_common_point_nothing_is_cut_and_it_is_seen(
    autojump_clock: object,
    monkeypatch: pytest.MonkeyPatch,
    end: int,
    epochs: list[tuple[int, int]],
    reason: Lost,
) -> None:
    mine = [(1, 0), (2, AT[2])] if reason is Lost.DEPOSED else [(1, 0)]
    async with slave_of_test(monkeypatch, LOG, *mine) as master:
        peer = await master.answered(end, *epochs)
        assert await peer.ended()
        assert (await master.lost()).reason == reason.value
        status = (await master.kit.status()).client
        assert status is not None
        assert status.diverged == (reason is Lost.FOREIGN_LOG)
        assert (master.cuts, master.in_file()) == ([], mine)
        again = await master.answered(AT[3], *mine)
        assert await report(again) == AT[3]


@pytest.mark.parametrize(
    ("more", "reason"),
    [(b"\0\0\0\3" + bytes(40), Lost.BAD_FRAME), (answer(9, (1, 0)), Lost.BAD_FRAME)],
)
async def test_anything_else_before_the_first_report_ends_it(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, more: bytes, reason: Lost
) -> None:
    async with slave_of_test(monkeypatch, ONE, (1, 0)) as master:
        peer = await master.accept()
        await peer.send.send_all(answer(AT[1], (1, 0)) + more)
        assert await peer.ended()
        assert (await master.lost()).reason == reason.value


async def test_a_frame_of_another_epoch_ends_the_connection(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with slave_of_test(monkeypatch, ONE, (1, 0)) as master:
        peer = await master.answered(AT[2], (1, 0))
        assert await report(peer) == AT[1]
        await frame(peer, AT[1], TWO, (1, 5), -1)
        assert await peer.ended()
        lost = await master.lost()
        assert lost.reason == Lost.EPOCH_MISMATCH.value
        assert "not of 1, from 5 on" in lost.detail
        assert bytes(master.kit.log) == ONE


async def test_without_its_epochs_on_the_disk_nothing_is_appended(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with slave_of_test(monkeypatch, ONE, (1, 0)) as master:
        peer = await master.answered(AT[2], (1, 0), (2, AT[1]))
        assert await report(peer) == AT[1]
        master.kit.disk.faults.fill(3600.0)
        await frame(peer, AT[1], TWO, (2, AT[1]), -1)
        assert await peer.ended()
        lost = await master.lost()
        assert lost.reason == Lost.APPEND_FAILED.value
        assert "epoch file" in lost.detail
        assert bytes(master.kit.log) == ONE
        assert held(master.own.store.history) == [(1, 0)]


@pytest.mark.checklist(2, 3, 4, 6, 18, 28, of="autoswitch")
async def test_an_empty_slave_of_ours_gets_all_of_a_master_of_ours_and_follows_it(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Known(history((1, 0), (2, 3000), (3, 3000), (4, 9000)), confirm_bytes=9500)
    known.speak(monkeypatch)
    data = bytes(n % 251 for n in range(12_000))
    async with node("n0", WRITTEN) as master:
        await master.append(data[:9500])
        side = speak(monkeypatch)
        async with kit_on("n1", WRITTEN, master.network) as slave:
            await until(lambda: len(slave.log) == 9500)
            assert held(side.own.store.history) == [(1, 0), (3, 3000), (4, 9000)]
            assert slave.of(events.MasterLost) == []
            known.history = (*known.history, *history((7, 9500)))
            await until(lambda: held(side.own.store.history)[-1] == (7, 9500))  # by a heartbeat
            await master.append(data[9500:])
            await until(lambda: bytes(slave.log) == data)
            await until(lambda: side.confirmed[-1:] == [9500])
            (row,) = [row for row in (await master.status()).slaves if row.node == "n1"]
            assert (row.state, row.ack_bytes) == (HAConnectionState.TRANSFER, 12_000)
