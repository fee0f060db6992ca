"""Mending ranges of a log: what is given, what is taken, and what a crash leaves of it."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest
from mending_kit import END, LAYOUT, LONG, SEGMENT, Held
from storage_kit import finish

from actors.log_types import GoodRange
from actors.storage.log.commit_log import segment_path
from actors.storage.log.digests import RANGE_BYTES, digest_of
from actors.storage.scrub import log_check
from actors.storage.scrub.log_check import (
    AT_ONCE_BYTES,
    ROTTEN_MAX,
    LogCheck,
    RangeRead,
    Rot,
    Span,
    Steps,
)
from actors.storage.scrub.mending import Damage, Mended


async def test_a_range_is_given_with_its_digest() -> None:
    held = Held.made()
    found = await held.give(RANGE_BYTES + 5)
    data = held.original(RANGE_BYTES, 2 * RANGE_BYTES)
    assert found == GoodRange(start=RANGE_BYTES, data=data, digest=digest_of(data))


@pytest.mark.parametrize("digested", [True, False])
async def test_a_damaged_range_is_not_given(digested: bool) -> None:
    held = Held.made()
    if not digested:
        held = held.forget_digests()
    held.spoil(100)
    assert (await held.give(0)).refused == "its own bytes there are damaged"


async def test_what_is_not_synced_is_not_given() -> None:
    held = Held.made()
    assert (await held.give(END)).refused == "it has not synced these bytes"


async def test_a_file_that_is_gone_is_not_given() -> None:
    held = Held.made()
    held.check.reader.close()
    held.disk.unlink(segment_path(LAYOUT.commit_log, 0))
    assert (await held.give(0)).refused == "it has deleted the file"


async def test_what_cannot_be_read_is_not_given() -> None:
    held = Held.made()
    held.disk.faults.fail("read", errno.EIO, path_part="commitlog")
    assert (await held.give(0)).refused == "its own bytes there are damaged"


async def test_a_range_is_good_again_once_its_file_is_synced() -> None:
    held = Held.made()
    held.spoil(100)
    (rot,) = await held.find()
    assert await held.mend(0, held.original(0, RANGE_BYTES)) == Mended()
    held.settle()
    assert held.to_sync == [segment_path(LAYOUT.commit_log, 0)]
    answers = await held.damage()
    held.settle()
    assert answers == []
    assert held.to_sync == [segment_path(LAYOUT.commit_log, 0)]
    held.mender.synced(held.to_sync[0], done=True)
    held.settle()
    assert answers == [Damage(rotten=())]
    reported: list[object] = []
    held.mender.report(rot, reported.append)
    held.mender.report(rot, reported.append)
    assert len(reported) == 1


async def test_a_sync_that_is_not_known_to_be_done_leaves_it_damaged() -> None:
    held = Held.made()
    held.spoil(100)
    await held.find()
    await held.mend(0, held.original(0, RANGE_BYTES))
    held.settle()
    answers = await held.damage()
    held.mender.synced(held.to_sync[0], done=False)
    held.mender.settle(tuple(held.check.rotten.values()))
    assert [damage.rotten[0].start for damage in answers if isinstance(damage, Damage)] == [0]
    await held.damage()
    held.settle()
    held.mender.synced(held.to_sync[1], done=True)
    assert held.check.rotten == {}


async def test_what_is_written_again_while_a_sync_runs_waits_for_the_next() -> None:
    held = Held.made()
    held.spoil(100)
    await held.find()
    await held.mend(0, held.original(0, RANGE_BYTES))
    held.settle()
    held.spoil(200)
    await held.mend(0, held.original(0, RANGE_BYTES))
    held.mender.synced(held.to_sync[0], done=True)
    assert list(held.check.rotten) == [0]
    held.settle()
    held.mender.synced(held.to_sync[1], done=True)
    assert held.check.rotten == {}


QUEUE_ID = 15
"""Into a record: its last byte."""
Change = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    ("start", "change", "reason"),
    [
        (0, lambda data: data[:-1] + b"?", "do not fit the digest"),
        (0, lambda data: data[:-1], "no whole ranges"),
        (0, lambda data: b"", "no whole ranges"),
        (1, lambda data: data, "no whole ranges"),
        (END, lambda data: data, "the synced log at"),
        (SEGMENT - RANGE_BYTES, lambda data: 2 * data, "lie in two files"),
        (0, lambda data: data * (AT_ONCE_BYTES // RANGE_BYTES + 1), "no whole ranges"),
    ],
)
async def test_what_comes_is_not_believed(start: int, change: Change, reason: str) -> None:
    held = Held.made()
    held.spoil(100)
    await held.find()
    before = held.now(0, RANGE_BYTES)
    answer = await held.mend(start, change(held.original(0, RANGE_BYTES)))
    assert reason in answer.refused
    assert held.now(0, RANGE_BYTES) == before
    assert not held.disk.exists(LAYOUT.aside)


async def test_without_a_digest_the_records_are_parsed() -> None:
    held = Held.made().forget_digests()
    held.spoil(100)
    (rot,) = await held.find()
    assert rot.start == 0
    bad = bytearray(held.original(0, RANGE_BYTES))
    bad[101] ^= 1
    assert "the bytes received are no log: offset 0: " in (await held.mend(0, bytes(bad))).refused
    assert held.now(0, RANGE_BYTES) != held.original(0, RANGE_BYTES)
    # The third record goes on in the next ranges, which are good.
    assert await held.mend(0, held.original(0, RANGE_BYTES)) == Mended()
    assert held.now(0, RANGE_BYTES) == held.original(0, RANGE_BYTES)
    assert held.check.digests.get(0) == digest_of(held.original(0, RANGE_BYTES))


async def test_a_digest_that_two_copies_contradict_is_replaced() -> None:
    held = Held.made()
    good = held.original(0, RANGE_BYTES)
    held.check.digests.put(0, digest_of(b"?" + good[1:]))
    (rot,) = await held.find()
    other = b"?" + good[1:-1] + b"?"
    assert "digest" in (await held.mend(0, other, outvotes=True)).refused
    assert "digest" in (await held.mend(0, good)).refused, "others are asked before"
    assert await held.mend(0, good, outvotes=True) == Mended()
    held.settle()
    held.mender.synced(held.to_sync[0], done=True)
    assert held.check.rotten == {}
    assert held.again().check.digests.get(0) == digest_of(good)
    reported: list[object] = []
    held.mender.report(rot, reported.append)
    assert len(reported) == 1
    assert not held.disk.exists(LAYOUT.aside)


async def test_two_copies_of_one_damage_contradict_no_digest() -> None:
    """A slave that copied what had just rotted here gives the same bytes; their CRC tells."""
    held = Held.made()
    held.spoil(held.places[0][0] + 200)  # in a body
    await held.find()
    bad = held.now(0, RANGE_BYTES)
    assert "CRC" in (await held.mend(0, bad, outvotes=True)).refused
    assert held.check.digests.get(0) == digest_of(held.original(0, RANGE_BYTES))
    assert await held.mend(0, held.original(0, RANGE_BYTES)) == Mended()


async def test_the_rest_of_a_record_that_is_damaged_there_is_wanted() -> None:
    """It begins in the first range, and is damaged in the second."""
    held = Held.made().forget_digests()
    held.spoil(RANGE_BYTES + 100)
    (rot,) = await held.find()
    assert rot.start == 0
    answer = await held.mend(0, held.original(0, RANGE_BYTES))
    assert answer == Mended(wants_until=2 * RANGE_BYTES)
    assert await held.mend(0, held.original(0, 2 * RANGE_BYTES)) == Mended()
    assert held.now(0, SEGMENT) == held.original(0, SEGMENT)


async def test_nothing_behind_damage_can_be_checked_without_digests() -> None:
    held = Held.made().forget_digests()
    held.spoil(100)
    await held.find()
    at = 2 * RANGE_BYTES
    answer = await held.mend(at, held.original(at, at + RANGE_BYTES))
    assert answer.refused.startswith("nothing behind damage can be checked: offset 0: ")


async def test_a_record_that_goes_on_behind_what_is_synced_is_not_judged() -> None:
    held = Held.made().forget_digests()
    held.check.limit_bytes = RANGE_BYTES
    answer = await held.mend(0, held.original(0, RANGE_BYTES))
    assert "is not whole here" in answer.refused


async def test_more_ranges_than_are_remembered_are_not_begun_with() -> None:
    held = Held.made()
    held.spoil(100)
    for number in range(ROTTEN_MAX):
        held.check.note(Rot(END + number, END + number + 1, "elsewhere"))
    before = held.now(0, RANGE_BYTES)
    answer = await held.mend(0, held.original(0, RANGE_BYTES))
    assert "mend these first" in answer.refused
    assert held.now(0, RANGE_BYTES) == before


async def test_a_file_that_was_deleted_meanwhile_is_not_made_anew() -> None:
    held = Held.made().forget_digests()
    held.check.reader.close()
    held.disk.unlink(segment_path(LAYOUT.commit_log, 0))
    at = RANGE_BYTES
    answer = await held.mend(at, held.original(at, 2 * at))
    assert "has been deleted" in answer.refused


async def test_a_file_that_became_shorter_is_as_long_as_before() -> None:
    held = Held.made()
    path = segment_path(LAYOUT.commit_log, SEGMENT)
    file = held.disk.open(path, "w")
    file.resize(SEGMENT - 500)
    file.close()
    (rot,) = await held.find()
    assert rot.reason == "its file is too short"
    at = END - RANGE_BYTES
    assert await held.mend(at, held.original(at, END)) == Mended()
    assert held.now(at, END) == held.original(at, END)


async def test_what_cannot_be_read_is_written_anew() -> None:
    held = Held.made()
    held.disk.faults.fail("read", errno.EIO, path_part="commitlog", times=2)  # then it alone
    (rot,) = await held.find()
    assert rot.reason.startswith("it cannot be read")
    held.disk.faults.fail("read", errno.EIO, path_part="commitlog", times=1)
    assert await held.mend(rot.start, held.original(rot.start, rot.end)) == Mended()


async def test_without_room_for_a_digest_nothing_is_written() -> None:
    held = Held.made().forget_digests()
    held.spoil(100)
    await held.find()
    before = held.now(0, RANGE_BYTES)
    held.disk.faults.fail("create", errno.ENOSPC, path_part="digests", times=3)
    answer = await held.mend(0, held.original(0, RANGE_BYTES))
    assert answer.refused == "the digest of the bytes received cannot be saved on this disk"
    assert held.now(0, RANGE_BYTES) == before


@pytest.mark.parametrize("digested", [True, False])
@pytest.mark.parametrize("operation", ["write", "sync", "create", "rename"])
async def test_no_failure_and_no_loss_of_power_leaves_damage_that_is_taken_for_good(
    operation: Literal["write", "sync", "create", "rename"], digested: bool
) -> None:
    """Whatever fails, and whatever of it is on the disk: the old state, or the new one."""
    outcomes = set()
    for skip in range(12):
        held = Held.made(skip)
        if not digested:
            held = held.forget_digests()
        for place in range(100, RANGE_BYTES, 5000):  # some in heads, some in bodies
            held.spoil(place)
        await held.find()
        held.disk.faults.fail(operation, errno.EIO, path_part="/d/", skip=skip)
        answer = await held.mend(0, held.original(0, RANGE_BYTES))
        held.disk.power_loss(random.Random(skip))
        held.disk.faults.clear()
        after = held.again()
        until = finish(after.check.check(0, RANGE_BYTES))
        is_good = after.now(0, RANGE_BYTES) == after.original(0, RANGE_BYTES)
        assert is_good or until < RANGE_BYTES, skip
        outcomes.add((bool(answer.refused), is_good))
        assert await after.mend(0, held.original(0, RANGE_BYTES)) == Mended()
        assert after.now(0, RANGE_BYTES) == after.original(0, RANGE_BYTES)
    assert (False, True) in outcomes or (False, False) in outcomes
    assert (True, False) in outcomes


async def test_what_was_there_is_kept_before_anything_is_written() -> None:
    held = Held.made()
    held.spoil(100)
    await held.find()
    before = held.now(0, RANGE_BYTES)
    held.disk.faults.fail("write", errno.EIO, path_part="commitlog")
    answer = await held.mend(0, held.original(0, RANGE_BYTES))
    assert "Errno 5" in answer.refused
    kept = held.disk.open(f"{LAYOUT.aside}/{0:020d}.1/{0:020d}", "r")
    assert kept.pread(0, RANGE_BYTES) == before


# ---- what has no digest ----


async def test_what_has_no_digest_is_parsed_and_mended() -> None:
    held = Held.made().with_end()
    end = held.check.limit_bytes
    held.spoil(held.places[-1][0] + 200)
    await held.damage()
    (rot,) = held.check.rotten.values()
    assert (rot.start, rot.end) == (END, end)
    assert "CRC" in rot.reason
    assert await held.mend(END, held.original(END, end)) == Mended()
    assert held.now(END, end) == held.original(END, end)
    held.settle()
    assert held.to_sync == [segment_path(LAYOUT.commit_log, END)]
    held.mender.synced(held.to_sync[0], done=True)
    assert held.check.rotten == held.check.by_records == {}
    assert held.check.digests.get(END) is None, "the range is not full"
    reported: list[object] = []
    held.mender.report(rot, reported.append)
    assert len(reported) == 1
    (kept,) = held.disk.listdir(LAYOUT.aside)
    assert held.disk.listdir(f"{LAYOUT.aside}/{kept}") == [f"{END:020d}"]


@pytest.mark.parametrize("place", [1, 5, 30, 84])
async def test_a_damaged_head_is_mended_where_there_is_no_digest(place: int) -> None:
    """Size, magic, the place itself, the body's length: nothing behind it can be parsed then."""
    held = Held.made().with_end()
    end, (last, _) = held.check.limit_bytes, next(each for each in held.places if each[0] >= END)
    held.spoil(last + place)
    await held.damage()
    assert list(held.check.rotten) == [END]
    assert await held.mend(END, held.original(END, end)) == Mended()
    assert held.now(END, end) == held.original(END, end)


async def test_a_record_that_ends_behind_the_last_digest_is_mended_from_its_beginning() -> None:
    """Its damage lies where a master has digested it, so the digest is forgotten."""
    held = Held.made()
    place, size = held.places[2]
    assert place < RANGE_BYTES < place + size
    held.spoil(place + 200)
    held.check.digests.put(0, digest_of(held.now(0, RANGE_BYTES)))
    for start in range(RANGE_BYTES, END, RANGE_BYTES):
        held.check.digests.forget(start)
    assert finish(held.check.check_undigested(place)) == place
    ((start, rot),) = held.check.rotten.items()
    assert start == rot.start == 0
    assert rot.end >= place + size
    assert await held.mend(0, held.original(0, rot.end)) == Mended()
    held.settle()
    held.mender.synced(held.to_sync[0], done=True)
    assert held.check.rotten == {}


async def test_two_good_records_that_differ_are_not_mended() -> None:
    """No CRC covers a queue id: nobody knows whose is the right one."""
    held = Held.made().with_end()
    end, (last, _) = held.check.limit_bytes, held.places[-1]
    first, middle = (at for at, _ in held.places[-3:-1])
    held.spoil(middle + 200)
    await held.damage()
    for at, why in ((first, "all is good here"), (last, f"the record at {last} is good here")):
        other = bytearray(held.original(END, end))
        other[at - END + QUEUE_ID] ^= 1
        assert why in (await held.mend(END, bytes(other))).refused
    assert not held.disk.exists(LAYOUT.aside)


async def test_what_comes_for_a_range_without_a_digest_is_parsed() -> None:
    held = Held.made().with_end()
    end, (at, _) = held.check.limit_bytes, held.places[-1]
    held.spoil(at + 200)
    await held.damage()
    bad = bytearray(held.original(END, end))
    bad[at - END + 300] ^= 1
    assert "no log" in (await held.mend(END, bytes(bad))).refused
    assert "are not all" in (await held.mend(END, held.original(END, end - 1))).refused
    assert not held.disk.exists(LAYOUT.aside)


async def test_what_is_synced_of_a_range_is_given_once_it_was_parsed() -> None:
    held = Held.made().with_end()
    end = held.check.limit_bytes
    data = held.original(END, end)
    assert await held.give(END + 5) == GoodRange(start=END, data=data, digest=digest_of(data))
    held.spoil(held.places[-1][0] + 200)
    assert (await held.give(END)).refused == "its own bytes there are damaged"


async def test_what_lies_too_far_behind_the_last_digest_is_not_called_damaged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_check, "AT_ONCE_BYTES", 1)
    held = Held.made().with_end()
    held.check.record_bytes_max, held.mender.undigested = LONG + 1000, lambda: 0
    assert held.check.at_once_bytes == 3 * RANGE_BYTES
    assert (await held.give(END + 5)).refused.startswith("it has not parsed all before these")
    assert await held.find() == ()


async def test_a_digest_of_damaged_bytes_is_forgotten() -> None:
    """As a master makes it of what changed in its last range before that was full."""
    held = Held.made()
    held.spoil(held.places[0][0] + 200)
    held.check.digests.put(0, digest_of(held.now(0, RANGE_BYTES)))
    assert await held.find() == ()
    finish(held.check.digest_file(0))
    (rot,) = held.check.rotten.values()
    assert (rot.start, rot.end) == (0, RANGE_BYTES)
    assert finish(held.check.check(0, 2 * RANGE_BYTES)) == 0
    finish(held.check.look_again())
    assert held.check.healed == set(), "its digest proves nothing"
    assert (await held.give(5)).refused == "its own bytes there are damaged"
    assert await held.mend(0, held.original(0, RANGE_BYTES)) == Mended()
    held.settle()
    held.mender.synced(held.to_sync[0], done=True)
    assert held.check.rotten == {}
    assert held.again().check.digests.get(0) is None
    assert (await held.give(5)).data == held.original(0, RANGE_BYTES)


async def test_a_mend_reads_again_what_it_has_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all that is damaged: of many ranges each would read them all."""
    held = Held.made()
    for start in (0, RANGE_BYTES, SEGMENT):
        held.spoil(start + 100)
    assert len(await held.find()) == 3
    read: list[int] = []
    real = LogCheck._read

    def counted(check: LogCheck, spans: Sequence[Span], **more: Any) -> Steps[list[RangeRead]]:
        read.extend(start for start, _ in spans)
        return (yield from real(check, spans, **more))

    monkeypatch.setattr(LogCheck, "_read", counted)
    assert await held.mend(0, held.original(0, RANGE_BYTES)) == Mended()
    held.settle()
    answers = await held.damage(only=(0, RANGE_BYTES))
    held.mender.synced(held.to_sync[0], done=True)
    held.settle()
    (answer,) = answers
    assert isinstance(answer, Damage)
    assert [rot.start for rot in answer.rotten] == [RANGE_BYTES, SEGMENT]
    assert set(read) == {0}
