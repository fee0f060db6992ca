"""Holes in a log: zeros from where a write ended to the end of a page, as a power loss leaves them.

Whatever `bytes_to_seal` lets pass is noticed by recovery, for any records; see `raw_session`.
"""

from __future__ import annotations

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st
from storage_kit import finish

from actors.sim.disk import SimDisk
from actors.storage.commitlog.raw_session import HEAD_BYTES_MAX, PAGE_BYTES, bytes_to_seal
from actors.storage.commitlog.recovery import ScanResult, find_end
from actors.storage.log.commit_log import CommitLog, segment_path
from wire.files.commit_log import BLANK_BYTES, Record, encode_blank, encode_record
from wire.files.message_record import body_crc, encode_topic

S = 4 * PAGE_BYTES
FILES = 2
HEADS = 20
FOLDER = "/d/commitlog"
HOSTS = (("10.1.2.3", 10911), ("fd00::1:2:3:4", 10911))
BODIES = (0, 0, 1, 3, 40, 255, 256, 257, 700, 1024, 2000)
TOPICS = ("t", "orders", "ö" * 60, "long" * 64, "longer" * 60)


def some_record(rng: random.Random, at: int) -> bytes:
    """Of any version and hosts, with or without body and properties."""
    born, store = rng.choice(HOSTS), rng.choice(HOSTS)
    body = rng.choice([rng.randbytes, bytes])(rng.choice(BODIES))
    version, topic = encode_topic(rng.choice(TOPICS), rng.choice([None, 2]))
    properties = rng.choice([b"", b"", b"k\x01v\x02", b"KEYS\x01" + b"k" * rng.randrange(400)])
    more = 12 * (born is HOSTS[1]) + 12 * (store is HOSTS[1])
    return encode_record(
        Record(
            version=version,
            body_crc=body_crc(body),
            queue_id=rng.randrange(4),
            flag=rng.choice([0, 1, 1 << 30]),
            queue_offset=rng.choice([0, 7, 1 << 40]),
            physical_offset=at,
            sys_flag=0x10 * (born is HOSTS[1]) + 0x20 * (store is HOSTS[1]),
            born_ts=1_700_000_000_000,
            born_host=born,
            store_ts=1_700_000_000_001,
            store_host=store,
            reconsume_times=rng.choice([0, 3]),
            prepared_transaction_offset=rng.choice([0, 1 << 50]),
            body=body,
            topic=topic[version:].decode(),
            properties=properties,
            size=88 + more + len(body) + len(topic) + 2 + len(properties),
        )
    )


def some_log(seed: int) -> tuple[bytes, list[int]]:
    """Full files, and where their records begin."""
    rng = random.Random(seed)
    out, starts = bytearray(), list[int]()
    while len(out) < FILES * S:
        rest = S - len(out) % S
        data = some_record(rng, len(out))
        if len(data) + BLANK_BYTES > rest:
            out += encode_blank(rest) + bytes(rest - BLANK_BYTES)
        else:
            starts.append(len(out))
            out += data
    return bytes(out), starts


def recovered(log: bytes) -> ScanResult:
    """What recovery makes of these files, of which nothing is vouched for."""
    disk = SimDisk(random.Random(0))
    disk.mkdir(FOLDER)
    for base in range(0, len(log), S):
        disk.open(segment_path(FOLDER, base), "x").pwrite(log[base : base + S], 0)
    opened = CommitLog.load(disk, FOLDER, S)
    return finish(find_end(disk, opened, start_bytes=0, mark_bytes=0))


def with_hole(log: bytes, start: int, end: int) -> bytes:
    return log[:start] + bytes(end - start) + log[end:]


@given(
    seed=st.integers(0, 1 << 32),
    page=st.integers(1, FILES * S // PAGE_BYTES),
    before=st.integers(1, 2 * HEAD_BYTES_MAX) | st.integers(1, PAGE_BYTES),
    pages=st.sampled_from([1, 1, 1, 2]),
    held=st.booleans(),
)
@settings(max_examples=600, deadline=None)
@example(seed=0, page=1, before=HEAD_BYTES_MAX, pages=1, held=True)
def test_a_hole_that_is_not_sealed_is_noticed(
    seed: int, page: int, before: int, pages: int, held: bool
) -> None:
    log, _ = some_log(seed)
    end = page * PAGE_BYTES
    start = end - before
    following = log[start:][: HEAD_BYTES_MAX if held else None]
    sealed = bytes_to_seal(start, S, following)
    assert sealed in (0, end - start)
    if sealed and pages == 1:
        return
    damaged = with_hole(log, start, end + (pages - 1) * PAGE_BYTES)[: len(log)]
    found = recovered(damaged).end_bytes
    assert damaged[:found] == log[:found]


def test_every_hole_around_a_head_that_lies_over_a_page() -> None:
    """Byte by byte: what is not sealed is noticed, and much of what is sealed is not."""
    missed = set()
    for seed in range(HEADS):
        log, starts = some_log(seed)
        ends = {at: (at + HEAD_BYTES_MAX) // PAGE_BYTES * PAGE_BYTES for at in starts}
        for at, end in [pair for pair in ends.items() if pair[0] + 8 < pair[1] < len(log)]:
            for start in range(end - HEAD_BYTES_MAX - 2, end):
                damaged = with_hole(log, start, end)
                found = recovered(damaged).end_bytes
                if damaged[:found] != log[:found]:
                    assert bytes_to_seal(start, S, log[start:]) == end - start
                    missed.add(start - at)
    assert len(missed) > 60, "offsets in a record at which a hole begins that nobody notices"


def test_the_seal_is_as_narrow_as_that() -> None:
    def size(at: int, data: bytes, segment_bytes: int = S) -> int:
        return bytes_to_seal(at, segment_bytes, data)

    assert HEAD_BYTES_MAX == 112
    many = b"x" * 8192
    assert size(4096 - 111, many) == 111
    assert size(4096 - 1, many) == 1
    assert size(4096 - 112, many) == 0
    assert size(4096, many) == size(0, many) == 0
    assert size(S + 8192 - 50, many) == 50
    assert size(4096 - 50, many[:50]) == 50, "what ends with the page counts too"
    assert size(4096 - 50, many[:49]) == 0
    assert size(S - 50, many) == 0, "a file ends with a whole record"
    assert size(5000 - 50, many, 5000) == 0
    own = some_record(random.Random(1), 4096 - 50)
    assert size(4096 - 50, own) == 0
    assert size(4096 - 51, own) == 51, "a record of another place"
    assert size(4096 - 20, some_record(random.Random(1), 4096 - 20)[:35]) == 20
