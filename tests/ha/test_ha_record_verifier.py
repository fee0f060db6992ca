"""Records of a Java master, looked at before they are reported."""

from __future__ import annotations

import errno
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from ha_kit import ADDRESSES, PORT, SEGMENT, Kit, cluster, node, until
from ha_peer import Peer

from actors.events import ha as events
from actors.ha import record_verifier
from actors.ha.core.states import Lost
from actors.ha.record_verifier import RecordVerifier
from actors.sim.disk import SimDisk
from actors.storage.commitlog.recovery import smaller_files
from actors.storage.log.commit_log import segment_path
from actors.storage.log.log_reader import LogReader, OffsetGone
from wire.files.record_encoder import RecordEncoder, encode_blank, fits_in_segment

HOST = ("127.0.0.1", 1)
CONFIG = cluster(
    'durability = "written"', "master = { node = 'n0', kind = 'java' }", drop='master = "n0"'
)


def log_of(count: int, body_bytes: int = 300, begin: int = 0) -> tuple[bytes, list[int]]:
    """Records, and BLANKs at the ends of files; and where each record ends, from `begin` on."""
    log, ends = bytearray(), []
    for number in range(count):
        one = bytearray()
        encoder = RecordEncoder("t", HOST, HOST)
        rest = SEGMENT - len(log) % SEGMENT
        for at in (len(log), len(log) + rest):
            one.clear()
            encoder.encode_into(
                one,
                bytes([number]) * body_bytes,
                queue_id=0,
                queue_offset=number,
                physical_offset=begin + at,
                store_ts=1,
                born_ts=1,
            )
            if at > len(log):
                log += encode_blank(rest) + bytes(rest - len(encode_blank(rest)))
            elif not fits_in_segment(len(one), rest):
                continue
            break
        log += one
        ends.append(len(log))
    return bytes(log), ends


def verifier_of(log: bytes, at_bytes: int = 0) -> RecordVerifier:
    disk = SimDisk(random.Random(0))
    disk.mkdir("/log")
    for base in range(0, len(log), SEGMENT):
        disk.open(segment_path("/log", base), "x").pwrite(log[base : base + SEGMENT], 0)
    reader = LogReader(disk, "/log", SEGMENT)
    return RecordVerifier(reader=reader, record_bytes_max=SEGMENT, at_bytes=at_bytes)


def look(verifier: RecordVerifier, limit_bytes: int) -> int:
    """Look until there is no more; how often that was."""
    times = 1
    while verifier.step(limit_bytes):
        times += 1
    return times


def test_good_records_are_seen_wherever_the_log_ends_meanwhile() -> None:
    log, ends = log_of(40)
    assert len(log) > 2 * SEGMENT
    verifier = verifier_of(log)
    for limit in range(0, len(log) + 1, 7):
        look(verifier, limit)
        assert verifier.problem == ""
        assert verifier.seen_bytes == limit
        assert verifier.at_bytes >= max([end for end in ends if end <= limit], default=0)
    look(verifier, len(log))
    assert (verifier.at_bytes, verifier.seen_bytes) == (len(log), len(log))


def test_it_may_begin_with_any_file_and_reads_a_step_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_verifier, "STEP_BYTES", 500)
    log, _ = log_of(40)
    verifier = verifier_of(log, SEGMENT)
    assert look(verifier, len(log)) > 10
    assert verifier.at_bytes == len(log)


def test_no_damaged_record_is_seen_past() -> None:
    log, ends = log_of(12)
    begins = [end - ends[0] for end in ends]  # all are of one size
    rng = random.Random(3)
    for _ in range(300):
        number = rng.randrange(12)
        body = begins[number] + rng.randrange(90, 380)
        damaged = bytearray(log)
        damaged[body] ^= 1 << rng.randrange(8)
        verifier = verifier_of(bytes(damaged))
        for limit in (body, ends[number], len(log)):
            look(verifier, limit)
        assert verifier.problem
        assert begins[number] <= verifier.seen_bytes < ends[number]
        assert verifier.at_bytes == begins[number]


@pytest.mark.parametrize("tail", [bytes(200), b"\xff" * 200])
def test_what_is_no_record_is_a_problem(tail: bytes) -> None:
    log, ends = log_of(3)
    verifier = verifier_of(log + tail)
    look(verifier, len(log) + len(tail))
    assert verifier.problem
    assert verifier.at_bytes == ends[-1]


def test_a_record_over_a_files_end_is_a_problem() -> None:
    log, _ = log_of(40)
    cut = log[: SEGMENT - 600] + log[:600]
    verifier = verifier_of(cut)
    look(verifier, SEGMENT)
    assert verifier.problem


@pytest.mark.parametrize("begin", [0, 4 * SEGMENT])
def test_a_master_whose_files_are_smaller_is_known_by_where_its_first_one_ends(begin: int) -> None:
    log, ends = log_of(40, begin=begin)
    disk = SimDisk(random.Random(0))
    disk.mkdir("/log")
    disk.open(segment_path("/log", begin), "x").pwrite(log, 0)
    reader = LogReader(disk, "/log", 4 * SEGMENT)
    verifier = RecordVerifier(reader=reader, record_bytes_max=SEGMENT, at_bytes=begin)
    look(verifier, begin + len(log))
    assert smaller_files(verifier.problem) == SEGMENT
    assert verifier.at_bytes == begin + max(end for end in ends if end < SEGMENT)


@pytest.mark.parametrize("end", [SEGMENT + 1, 3 * SEGMENT])
def test_an_end_of_a_file_where_none_can_end_says_nothing_of_other_sizes(end: int) -> None:
    """Files of three segments would not begin where the log does, with its fifth segment."""
    begin = 4 * SEGMENT
    log, ends = log_of(3, begin=begin)
    log += encode_blank(end - len(log))
    disk = SimDisk(random.Random(0))
    disk.mkdir("/log")
    disk.open(segment_path("/log", begin), "x").pwrite(log, 0)
    reader = LogReader(disk, "/log", 4 * SEGMENT)
    verifier = RecordVerifier(reader=reader, record_bytes_max=SEGMENT, at_bytes=begin)
    look(verifier, begin + len(log))
    assert verifier.at_bytes == begin + ends[-1]
    assert smaller_files(verifier.problem) is None
    assert verifier.problem.startswith("a BLANK of ")


def test_a_file_that_is_gone() -> None:
    verifier = verifier_of(b"", SEGMENT)
    with pytest.raises(OffsetGone):
        verifier.step(SEGMENT + 1)


# ---- a slave ----


@asynccontextmanager
async def slave_of_java(holding: bytes = b"") -> AsyncIterator[tuple[Kit, Peer]]:
    async with node("n1", CONFIG, holding=holding) as kit:
        listener = await kit.network.open("n0").listen(ADDRESSES["n0"], PORT)
        with trio.fail_after(30.0):
            peer = Peer.of(await listener.accept())
        yield kit, peer
        await listener.aclose()


async def reported(peer: Peer, offset: int) -> None:
    """Reports rise up to there."""
    last = -1
    with trio.fail_after(30.0):
        while last < offset:
            last, before = await peer.next_report(), last
            assert before <= last <= offset


async def test_a_record_is_reported_when_it_is_whole_and_good(autojump_clock: object) -> None:
    log, ends = log_of(40)
    async with slave_of_java(log[: ends[4]]) as (_, peer):
        await reported(peer, ends[4])
        at = ends[4]
        for end, whole in ((ends[5] - 100, ends[4]), (ends[20] + 9, ends[20]), (len(log),) * 2):
            await peer.frame(at, log[at:end])
            await reported(peer, whole)
            at = end


async def test_a_damaged_record_is_never_reported(autojump_clock: object) -> None:
    log, ends = log_of(40)
    damaged = bytearray(log)
    damaged[ends[9] - 50] ^= 1
    async with slave_of_java(log[: ends[4]]) as (kit, peer):
        await reported(peer, ends[4])
        await peer.frame(ends[4], bytes(damaged[ends[4] : ends[9] - 20]))
        await reported(peer, ends[8])
        await peer.frame(ends[9] - 20, bytes(damaged[ends[9] - 20 :]))
        with trio.fail_after(30.0):
            assert await peer.ended()
        await until(lambda: len(kit.of(events.MasterLost)) > 0)
        lost = kit.of(events.MasterLost)[0]
        assert lost.reason == Lost.BAD_RECORD.value
        assert f"offset {ends[8]}" in lost.detail
        assert max(each.offset_bytes for each in kit.of(events.OffsetReported)) == ends[8]


async def test_nothing_behind_a_damaged_size_is_reported(autojump_clock: object) -> None:
    """All behind it seems to be the rest of one record, until so much has come."""
    log, ends = log_of(8)
    damaged = bytearray(log)
    damaged[ends[4] + 2] ^= 4  # 1 KiB longer
    async with slave_of_java(log[: ends[3]]) as (kit, peer):
        await reported(peer, ends[3])
        await peer.frame(ends[3], bytes(damaged[ends[3] : ends[6]]))
        await reported(peer, ends[4])
        await trio.sleep(10.0)  # what would follow has
        assert kit.of(events.OffsetReported)[-1].offset_bytes == ends[4]
        assert kit.of(events.MasterLost) == []


async def test_what_it_holds_already_is_looked_at_before_the_first_report(
    autojump_clock: object,
) -> None:
    log, ends = log_of(8)
    damaged = bytearray(log)
    damaged[ends[6] - 50] ^= 1
    async with slave_of_java(bytes(damaged)) as (kit, peer):
        with trio.fail_after(30.0):
            assert await peer.ended()
        assert kit.of(events.OffsetReported) == []
        assert kit.of(events.MasterLost)[0].reason == Lost.BAD_RECORD.value


async def test_a_log_that_cannot_be_read_back_is_not_reported(autojump_clock: object) -> None:
    log, ends = log_of(8)
    async with slave_of_java(log[: ends[4]]) as (kit, peer):
        await reported(peer, ends[4])
        with trio.fail_after(30.0):
            kit.disk.faults.fail("read", errno.EIO, path_part="commitlog")
            await peer.frame(ends[4], log[ends[4] :])
            assert await peer.ended()
        lost = kit.of(events.MasterLost)[0]
        assert "cannot be read back" in lost.detail
        assert kit.of(events.OffsetReported)[-1].offset_bytes == ends[4]


async def test_a_record_that_was_mended_is_looked_at_once_more(autojump_clock: object) -> None:
    log, ends = log_of(8)
    damaged = bytearray(log)
    damaged[ends[6] - 50] ^= 1
    async with slave_of_java(bytes(damaged)) as (kit, peer):
        with trio.fail_after(30.0):
            assert await peer.ended()
        path = segment_path(kit.setup.layout.commit_log, 0)
        kit.disk.open(path, "w").pwrite(log[:SEGMENT], 0)
        await until(lambda: len(kit.of(events.OffsetReported)) > 0)
        assert kit.of(events.OffsetReported)[-1].offset_bytes == len(log)


async def test_it_holds_no_file_that_it_has_looked_at(autojump_clock: object) -> None:
    log, ends = log_of(40)
    async with slave_of_java(log[: ends[4]]) as (kit, peer):
        await reported(peer, ends[4])
        await peer.frame(ends[4], log[ends[4] :])
        await reported(peer, len(log))
        last = segment_path(kit.setup.layout.commit_log, len(log) - len(log) % SEGMENT)
        assert kit.disk.readers() == [last]
    assert kit.disk.readers() == []
