"""Queues of delayed and half messages, as a real broker with delay levels of its own has them."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest
from scrub_kit import found_by_a_round
from storage_kit import (
    GOLDEN,
    GOLDEN_SEGMENT,
    derived,
    finish,
    golden_copy,
    index_contents,
    log_bytes,
)
from store_kit import Kit, running, small_group

from actors.config import ClassicGroup
from actors.env.local_disk import LocalDisk
from actors.storage.derived.derived_mends import UnitMend
from actors.storage.dispatch.dispatcher_messages import Rederive, Rederived
from actors.storage.layout import StoreLayout
from actors.storage.tools.commitlog.check import CheckOptions, check_store
from actors.storage.tools.stores import GroupStore
from wire.files.consume_queue import UNIT_BYTES, decode_unit
from wire.files.properties import DELAY_LEVELS

pytestmark = pytest.mark.real_io
STORE = "5.3.3-delayed"
MASTER, SLAVE = GOLDEN / STORE / "master", GOLDEN / STORE / "slave"
SCHEDULE, HALF, OP = (
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
)
LEVELS = "2s 6s 1m 3d"
END = 30_119


def group(levels: str = LEVELS) -> ClassicGroup:
    return small_group(
        segment_bytes=GOLDEN_SEGMENT,
        consume_queue_bytes=2000,
        max_message_bytes=60_000,
        message_delay_level=levels,
        store_version="5.3.3",
    )


def delay_queues(root: pathlib.Path) -> dict[str, bytes]:
    return derived(root, f"consumequeue/{SCHEDULE}")


async def receive(kit: Kit) -> None:
    """The master's log, in pieces that cut everything, as a slave gets it."""
    data = log_bytes(MASTER / "commitlog")[:END]
    await kit.open_session(1)
    for at in range(0, END, 977):
        await kit.receive(1, at, data[at : at + 977])
    await kit.dispatched(END)


def test_the_golden_log_has_all_kinds_of_them() -> None:
    assert f"messageDelayLevel={LEVELS}\n" in (MASTER / "broker.conf").read_text()
    assert "messageDelayLevel" not in (SLAVE / "broker.conf").read_text()
    queues = derived(MASTER, "consumequeue")
    counts = {
        name: sum(1 for at in range(0, 2000, UNIT_BYTES) if decode_unit(data, at)[1])
        for name, data in queues.items()
    }
    first = f"{0:020d}"
    assert [counts[f"{SCHEDULE}/{level}/{first}"] for level in range(4)] == [8, 4, 8, 8]
    assert (counts[f"{HALF}/0/{first}"], counts[f"{OP}/0/{first}"]) == (27, 3)


async def test_a_slave_with_its_masters_levels_has_its_queues(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "store"
    async with running(LocalDisk(), group(), root=str(root), is_master=False) as kit:
        await receive(kit)
    assert derived(root, "consumequeue") == derived(MASTER, "consumequeue")
    assert index_contents(root) == index_contents(MASTER)


async def test_queues_built_anew_are_the_masters(tmp_path: pathlib.Path) -> None:
    root = golden_copy(STORE, "master", tmp_path)
    shutil.rmtree(root / "consumequeue")
    async with running(LocalDisk(), group(), root=str(root)) as kit:
        await kit.dispatched(END)
    assert derived(root, "consumequeue") == derived(MASTER, "consumequeue")


async def test_a_slave_with_other_levels_has_the_java_slaves_queues(tmp_path: pathlib.Path) -> None:
    """A slave reckons delivery times by its own levels, whatever its master's are."""
    root = tmp_path / "store"
    async with running(LocalDisk(), group(DELAY_LEVELS), root=str(root), is_master=False) as kit:
        await receive(kit)
    assert delay_queues(root) == delay_queues(SLAVE)
    assert delay_queues(root) != delay_queues(MASTER)


async def test_a_lost_unit_is_made_again_by_the_groups_levels(tmp_path: pathlib.Path) -> None:
    root = golden_copy(STORE, "master", tmp_path)
    async with running(LocalDisk(), group(), root=str(root)) as kit:
        await kit.dispatched(END)
        path = root / "consumequeue" / SCHEDULE / "3" / f"{0:020d}"
        whole = path.read_bytes()
        path.write_bytes(whole[:40] + bytes(20) + whole[60:])
        (mend,) = await found_by_a_round(kit)
    assert isinstance(mend, UnitMend)
    assert mend.wanted == whole[40:60]


async def test_delivery_times_by_earlier_levels_stay(tmp_path: pathlib.Path) -> None:
    """A broker's levels may change; what it has scheduled by then keeps its time."""
    root = golden_copy(STORE, "master", tmp_path)
    async with running(LocalDisk(), group("9s"), root=str(root)) as kit:
        await kit.dispatched(END)
        assert await found_by_a_round(kit) == []
        answer = await kit.dispatcher.ask(
            Rederived,
            lambda reply: Rederive(start_bytes=0, end_bytes=END, reply_to=reply),
            timeout_s=5,
        )
        assert not answer.anew
    assert delay_queues(root) == delay_queues(MASTER)


async def test_times_by_the_wrong_levels_are_noted_and_made_anew(tmp_path: pathlib.Path) -> None:
    """As for whoever had a slave of a broker with levels of its own before ours knew of them."""
    root = tmp_path / "store"
    async with running(LocalDisk(), group(DELAY_LEVELS), root=str(root), is_master=False) as kit:
        await receive(kit)
    assert notes_on(root, LEVELS) == 28
    assert notes_on(root, DELAY_LEVELS) == 0
    shutil.rmtree(root / "consumequeue" / SCHEDULE)
    async with running(LocalDisk(), group(), root=str(root), is_master=False) as kit:
        await kit.dispatched(END)
    assert derived(root, "consumequeue") == derived(MASTER, "consumequeue")
    assert notes_on(root, LEVELS) == 0


def notes_on(root: pathlib.Path, levels: str) -> int:
    """Of how many units `check` says that they have another time, on a node with these levels."""
    settings = {"message_delay_level": json.dumps(levels)}
    store = GroupStore(
        name="g", layout=StoreLayout(str(root)), segment_bytes=GOLDEN_SEGMENT, settings=settings
    )
    report = finish(check_store(LocalDisk(), store, CheckOptions()))
    assert report.is_good
    text = "another delivery time than by the delay levels"
    others = [line for line in report.findings.notes if text not in line]
    return report.findings.note_count - len(others)
