"""Ranges of a log are compared with digests: what is damaged, unknown or gone never passes."""

from __future__ import annotations

import random

import attrs
import pytest
from storage_kit import fill, finish

from actors.config import bounds
from actors.sim.disk import SimDisk
from actors.storage.log.commit_log import CommitLog, segment_path
from actors.storage.log.digests import RANGE_BYTES, UNSAVED_MAX, Digests, digest_of
from actors.storage.log.log_reader import LogReader, OffsetGone
from actors.storage.scrub import log_check
from actors.storage.scrub.log_check import AT_ONCE_BYTES, ROTTEN_MAX, LogCheck
from actors.storage.scrub.range_reading import RangeRead

S = 4096
FOLDER, DIGESTS = "/data/commitlog", "/data/digests"


@attrs.frozen
class Log:
    """Files of one range each, all with digests but the last."""

    disk: SimDisk
    count: int
    check: LogCheck
    places: list[tuple[int, int]]

    @classmethod
    def of(cls, count: int, segment_bytes: int = S, body_bytes: int = 1500) -> Log:
        disk = SimDisk(random.Random(1))
        log = CommitLog.load(disk, FOLDER, segment_bytes)
        per_file = segment_bytes // (body_bytes + 100)
        bodies = [b"%d;" % number + b"x" * body_bytes for number in range(count * per_file + 1)]
        places = fill(log, bodies)
        end = count * segment_bytes
        log.close(remove_spare=False)
        check = LogCheck(
            reader=LogReader(disk, FOLDER, segment_bytes),
            digests=Digests.open(disk, DIGESTS, segment_bytes, 0, end),
            record_bytes_max=1 << 20,
            limit_bytes=end,
            own_from_bytes=None,
        )
        return cls(disk, count, check, places)

    def digested(self) -> Log:
        for number in range(self.count):
            finish(self.check.digest_file(number * S))
        return self

    def flip(self, base: int, place: int = 20) -> None:
        self.disk.inode(segment_path(FOLDER, base)).flip_bit(place, 3)


def test_no_damaged_range_passes_however_many_there_are() -> None:
    log = Log.of(ROTTEN_MAX + 9).digested()
    bases = [number * S for number in range(log.count)]
    for base in bases:
        log.flip(base)
    for base in bases:
        assert finish(log.check.check(base, base + S)) == base
    assert len(log.check.rotten) == ROTTEN_MAX
    assert log.check.beyond_bytes == bases[ROTTEN_MAX]


def test_a_file_that_vanished_is_damage_but_the_oldest_have_expired() -> None:
    log = Log.of(5).digested()
    log.check.reader.close()
    log.disk.unlink(segment_path(FOLDER, 2 * S))
    assert finish(log.check.check(0, 5 * S)) == 2 * S
    assert log.check.rotten[2 * S].reason == "its file is not there"
    walk = log.check.walk_all(2 * S)
    assert finish(log.check.step(walk)) == S, "a scrub passes it"
    log.disk.unlink(segment_path(FOLDER, 0))
    log.check.reader.close()
    with pytest.raises(OffsetGone):
        finish(log.check.check(0, S))
    finish(log.check.look_again())
    assert list(log.check.rotten) == [2 * S]


def test_what_has_no_digest_is_unknown_until_its_file_was_parsed() -> None:
    log = Log.of(3)
    assert log.check.is_unknown(S)
    assert finish(log.check.check(0, 3 * S)) == 0
    assert log.check.rotten == {}
    finish(log.check.digest_file(0))
    assert finish(log.check.check(0, 3 * S)) == S
    assert log.check.rotten == {}


def test_all_digests_of_one_file_are_kept_while_none_can_be_written() -> None:
    """Else the file would be parsed again for each of its ranges, or never be sent."""
    assert UNSAVED_MAX * RANGE_BYTES >= bounds.SEGMENT_BYTES_MAX


def test_a_read_that_fails_once_calls_no_other_range_damaged() -> None:
    size = 6 * RANGE_BYTES
    log = Log.of(1, segment_bytes=size, body_bytes=30_000)
    finish(log.check.digest_file(0))
    digests = [log.check.digests.get(at) for at in range(0, size, RANGE_BYTES)]
    log.check.digests.close()
    log.disk.unlink(segment_path(DIGESTS, 0))
    for at in (0, RANGE_BYTES):
        known = digests[at // RANGE_BYTES]
        assert known is not None
        log.check.digests.put(at, known)
    walk, failed = log.check.walk_all(0), RANGE_BYTES
    assert walk.parses
    steps = log.check.step(walk)
    found = next(steps)()
    found = [
        RangeRead(each.start, each.end, None, problem="EIO") if each.start == failed else each
        for each in found
    ]
    with pytest.raises(StopIteration):
        steps.send(found)
    assert {rot.start: rot.reason for rot in log.check.rotten.values()} == {failed: "EIO"}
    finish(log.check.look_again())
    assert log.check.healed == {failed}


def test_a_record_that_seems_to_reach_over_its_files_end_is_damage() -> None:
    """Several ranges are looked at by one step, the file's last one among them."""
    log = Log.of(1, segment_bytes=4 * RANGE_BYTES, body_bytes=30_000)
    log.flip(0, log.places[7][0] + 1)  # its size: 512 KiB more
    finish(log.check.digest_file(0))
    (rot,) = log.check.rotten.values()
    assert rot.reason.endswith("a record that reaches over the end of its file")


def test_what_was_parsed_when_the_store_opened_is_not_parsed_again() -> None:
    """But digested; and what came behind it is parsed from there on."""
    log = Log.of(2, segment_bytes=4 * RANGE_BYTES, body_bytes=30_000)
    size = 4 * RANGE_BYTES
    places = [at - size for at, _ in log.places if at >= size]
    log.check.parsed = (0, size + places[5])
    log.flip(0, places[2] + 100)
    log.flip(size, places[2] + 100)
    for base in (0, size):
        walk = log.check.walk_from(base)
        assert walk.parses == (base > 0)
        while finish(log.check.step(walk)):
            pass
        assert walk.is_done
    assert log.check.rotten == {}
    assert not log.check.is_unknown(0)
    assert not log.check.is_unknown(2 * size - 1)
    log.flip(size, places[6] + 100)
    log.check.digests.close()
    log.disk.unlink(segment_path(DIGESTS, size))
    finish(log.check.step(log.check.walk_from(size)))
    (rot,) = log.check.rotten.values()
    assert rot.reason.startswith(f"offset {size + places[6]}: ")


def test_where_damage_is_known_what_the_start_has_parsed_proves_nothing() -> None:
    """The scrubber alone may have been started again, long after the store was opened."""
    log = Log.of(2, segment_bytes=4 * RANGE_BYTES, body_bytes=30_000)
    log.check.parsed = (0, 4 * RANGE_BYTES)
    log.flip(0, 100)
    finish(log.check.digest_file(0))
    assert log.check.rotten
    assert log.check.walk_from(0).parses


def unfinished() -> Log:
    """One file of which two ranges have digests, and a third one is not full."""
    log = Log.of(1, segment_bytes=4 * RANGE_BYTES, body_bytes=30_000)
    log.check.limit_bytes = sum(log.places[5])
    for at in (0, RANGE_BYTES):
        log.check.digests.put(
            at, digest_of(log.check.reader.read(at, RANGE_BYTES, 2 * RANGE_BYTES))
        )
    assert 2 * RANGE_BYTES < log.check.limit_bytes < 3 * RANGE_BYTES
    return log


@pytest.mark.parametrize("within", [1, 30, 29_000])
@pytest.mark.parametrize("number", [4, 5])
def test_damage_that_no_digest_reports_is_found_by_its_records(number: int, within: int) -> None:
    """Of a record that begins in front of it, and of the last one."""
    log = unfinished()
    place = log.places[number][0] + within
    if place < 2 * RANGE_BYTES:
        place = 2 * RANGE_BYTES + within  # what lies in front of it is compared
    log.flip(0, place)
    begins, end = log.places[4][0], log.check.limit_bytes
    assert begins < 2 * RANGE_BYTES
    finish(log.check.check_undigested(begins))
    (rot,) = log.check.rotten.values()
    start = log.check.digests.range_at(log.places[number][0])[0]  # a digest may be of damage, too
    assert (rot.start, rot.end) == (start, end)
    assert log.check.undamaged(0, 4 * RANGE_BYTES) == start
    # A master's walk goes on behind it, and says nothing of it.
    log.check.limit_bytes, log.check.own_from_bytes = 4 * RANGE_BYTES, 0
    walk = log.check.walk_from(0)
    while finish(log.check.step(walk)):
        pass
    assert walk.is_done
    assert log.check.digests.get(2 * RANGE_BYTES) is None
    assert log.check.digests.get(3 * RANGE_BYTES) is not None
    finish(log.check.look_again())
    assert log.check.healed == set()
    log.flip(0, place)
    finish(log.check.look_again())
    assert log.check.healed == {start}
    log.check.confirm([start])
    assert log.check.rotten == log.check.by_records == {}


def test_what_has_no_digest_and_is_good_is_no_damage() -> None:
    log = unfinished()
    begins = log.places[4][0]
    for end in range(2 * RANGE_BYTES, sum(log.places[5]) + 1, 997):  # a slave's, within a record
        log.check.limit_bytes = end
        assert finish(log.check.check_undigested(begins)) == end
    assert log.check.rotten == {}


def test_a_range_alone_without_a_digest_gets_one_though_its_last_record_goes_on() -> None:
    """In the next range, which has one."""
    log = Log.of(1, segment_bytes=4 * RANGE_BYTES, body_bytes=30_000)
    finish(log.check.digest_file(0))
    known = log.check.digests.get(RANGE_BYTES)
    log.check.digests.forget(RANGE_BYTES)
    assert log.check.is_unknown(RANGE_BYTES)
    finish(log.check.digest_file(0))
    assert log.check.digests.get(RANGE_BYTES) == known


def test_damage_in_front_of_what_has_no_digest_lies_there() -> None:
    """It has a digest, which was made of damaged bytes; what is behind it is not judged."""
    log = unfinished()
    place, size = log.places[2]
    log.flip(0, place + 100)
    for at in (0, RANGE_BYTES):
        log.check.digests.put(
            at, digest_of(log.check.reader.read(at, RANGE_BYTES, 2 * RANGE_BYTES))
        )
    assert place < RANGE_BYTES < place + size < 2 * RANGE_BYTES
    assert finish(log.check.check_undigested(0)) == place
    (rot,) = log.check.rotten.values()
    assert (rot.start, rot.end) == (0, 2 * RANGE_BYTES)
    assert log.check.is_unknown(0)
    assert log.check.is_unknown(RANGE_BYTES)


def test_damage_without_a_digest_is_no_larger_than_what_is_mended_at_once() -> None:
    """What has none begins within a range, and the log ends within another one."""
    log = Log.of(1, segment_bytes=18 << 20, body_bytes=1_000_000)
    at = log.places[0][0] + log.places[0][1]
    start = at - at % RANGE_BYTES
    log.check.limit_bytes = start + AT_ONCE_BYTES + 100
    assert log.check.limit_bytes < at + AT_ONCE_BYTES
    log.flip(0, at + 500)
    assert finish(log.check.check_undigested(at)) == at
    ((first, rot),) = log.check.rotten.items()
    assert (first, rot.start, rot.end) == (start, start, start + AT_ONCE_BYTES)
    log.flip(0, at + 500)
    finish(log.check.look_again())
    log.check.confirm([start])
    assert finish(log.check.check_undigested(at)) == start + AT_ONCE_BYTES, "and the rest is next"


def test_the_largest_record_that_the_group_may_have_is_looked_at_at_once() -> None:
    log = Log.of(1, segment_bytes=24 << 20, body_bytes=20 << 20)
    log.check.record_bytes_max = 21 << 20
    log.flip(0, 19 << 20)
    assert finish(log.check.check_undigested(0)) == 0
    ((_, rot),) = log.check.rotten.items()
    assert rot.end - rot.start <= log.check.at_once_bytes
    assert rot.end >= sum(log.places[0])


def test_what_an_earlier_start_has_found_is_parsed_from_the_nearest_record() -> None:
    log = unfinished()
    start, begins = 2 * RANGE_BYTES, log.places[4][0]
    log.flip(0, log.places[1][0] + 100)  # not looked at: a digest tells of it
    log.flip(0, log.places[5][0] + 100)
    log.check.remember(start, begins)
    assert log.check.by_records == {start: begins}
    finish(log.check.compare_again())
    assert log.check.by_records == {start: log.places[5][0]}
    log.flip(0, log.places[5][0] + 100)
    finish(log.check.compare_again())
    assert log.check.healed == {start}


def test_what_was_found_before_is_parsed_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its nearest record may be far in front of it, if the store was opened long ago."""
    monkeypatch.setattr(log_check, "AT_ONCE_BYTES", RANGE_BYTES)
    log = Log.of(1, segment_bytes=12 * RANGE_BYTES, body_bytes=30_000)
    log.check.record_bytes_max, log.check.limit_bytes = 40_000, sum(log.places[20])
    start = log.check.digests.range_at(log.check.limit_bytes)[0]
    log.check.remember(start, 0)
    seen, step = 0, log.check.at_once_bytes
    while start not in log.check.healed:
        finish(log.check.compare_again())
        place = log.check.by_records[start]
        assert start in log.check.healed or seen < place <= seen + step
        seen = place
    assert seen + step >= start > 3 * step
    again = Log.of(1, segment_bytes=12 * RANGE_BYTES, body_bytes=30_000)
    again.check.record_bytes_max, again.check.limit_bytes = 40_000, sum(log.places[20])
    again.check.remember(start, 0)
    finish(again.check.look_again())
    assert again.check.healed == {start}


@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize("place", [20, 200])
def test_what_changes_in_a_range_before_it_is_full_is_damage(is_own: bool, place: int) -> None:
    """Also in a record's head, which no CRC covers; and what is put back counts as mended."""
    log = Log.of(1)
    check = log.check
    check.own_from_bytes = 0 if is_own else None
    check.limit_bytes = S // 2
    walk = check.walk_from(0)
    assert finish(check.step(walk)) == 0
    finish(check.begin(walk))
    log.flip(0, place)
    check.limit_bytes = S - 100
    finish(check.begin(walk))
    check.limit_bytes = S
    assert finish(check.step(walk)) == S
    assert list(check.rotten) == [0]
    log.flip(0, place)
    finish(check.compare_again())
    check.confirm([0])
    assert not check.rotten
    assert finish(check.check(0, S)) == S


def test_a_range_that_is_damaged_before_it_is_full_is_not_begun() -> None:
    log = Log.of(1)
    check = log.check
    check.limit_bytes = S // 2
    log.flip(0, 200)
    assert finish(check.check_undigested(0)) == 0
    assert list(check.rotten) == [0]
    walk = check.walk_from(0)
    finish(check.begin(walk))
    assert walk.begun == 0
