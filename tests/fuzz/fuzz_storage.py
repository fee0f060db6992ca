"""The fuzzer's targets among the files of a node: each is read from a simulated disk."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import attrs
from fuzz_engine import Target
from fuzz_wire import PROPS, files_of, record, records, repair_records

from actors.broker import changed_settings, followed
from actors.cluster import feed_record
from actors.config import ClassicGroup, loads
from actors.config.brokerconf import (
    brokers,
    conf,
    files,
    groups,
    parse_broker_conf,
    properties,
    values,
)
from actors.config.brokerconf.keys import KEYS
from actors.env import Env
from actors.env.protocols import Disk
from actors.errors import ConfigError, CorruptLog
from actors.events import codec
from actors.events.codec import EventFormatError, LineEncoder
from actors.events.node import EventsDropped, NodeStarted
from actors.sim.disk import SimDisk
from actors.storage.commitlog import opening, recovery
from actors.storage.derived import (
    adopting,
    consume_queue,
    dispatch_state,
    index_files,
    record_proof,
    small_files,
)
from actors.storage.derived.derived_files import DerivedFiles
from actors.storage.derived.dispatch_state import DispatchState
from actors.storage.derived.queue_files import QUEUE_OFFSET_LAST, QueueGap
from actors.storage.files import side_file
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import segment_path
from actors.storage.node import event_files, event_reader, identity
from actors.storage.tools import manifest
from actors.storage.tools.commitlog import pending
from actors.storage.tools.stores import GroupStore
from wire.files import index_file
from wire.files.commit_log import RecordHead, scan_heads, segment_name
from wire.files.consume_queue import encode_unit

LAYOUT = StoreLayout("/d")
SEGMENT = 4096
QUEUE_BYTES = 200
GROUP = ClassicGroup(
    name="orders", master="n0", slaves=("n1",), segment_bytes=SEGMENT, index_slots_count=4,
    consume_queue_bytes=QUEUE_BYTES, index_units_count=8, max_message_bytes=3900,
)  # fmt: skip
INDEX_NAME = 20260101000000000


def run(work: Generator[None, None, Any]) -> Any:
    """A generator that yields between pieces of work, to its end."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return stop.value


def disk_with(path: str, data: bytes, disk: SimDisk | None = None) -> SimDisk:
    """A disk on which the file holds this."""
    disk = disk or SimDisk(random.Random(0))
    disk.mkdir(path.rpartition("/")[0])
    file = disk.open(path, "w" if disk.exists(path) else "x")
    file.resize(0)
    file.pwrite(data, 0)
    file.close()
    return disk


def env_on(disk: Disk) -> Env:
    return Env(
        network=None,  # type: ignore[arg-type] # nothing here speaks
        disk=disk,
        rng=random.Random(0),
        wall_clock_ms=lambda: 1_700_000_000_000,
        events=lambda path, incarnation, event: None,
    )


def content(disk: Disk, path: str) -> bytes:
    return (file := disk.open(path, "r")).pread(0, file.size_bytes)


# ---- side files ----


def repair_slots(data: bytearray) -> None:
    for at in (0, side_file.SLOT_BYTES):
        slot = data[at : at + 16 + 8 * DispatchState.FIELDS]
        if len(slot) == 16 + 8 * DispatchState.FIELDS:
            data[at : at + 4] = side_file.MAGIC.to_bytes(4)
            data[at + 4 : at + 8] = zlib.crc32(slot[8:]).to_bytes(4)


def side(data: bytes) -> object:
    """Both readers see the same, and the next write is read back."""
    disk = disk_with(LAYOUT.dispatched, data)
    found = DispatchState.read(disk, LAYOUT.dispatched)
    file, opened = DispatchState.open(disk, LAYOUT.dispatched)
    assert opened == found
    state = DispatchState(dispatched_bytes=1, seen_bytes=2, queue_count=3)
    file.write(state.values())
    assert DispatchState.read(disk, LAYOUT.dispatched) == state
    return opened


def synced_mark(data: bytes) -> object:
    return side_file.read_side_file(disk_with(LAYOUT.synced, data), LAYOUT.synced, 1)


def side_file_of(*states: DispatchState) -> bytes:
    disk = SimDisk(random.Random(0))
    disk.mkdir(LAYOUT.root)
    file, _ = DispatchState.open(disk, LAYOUT.dispatched)
    for state in states:
        file.write(state.values())
    return content(disk, LAYOUT.dispatched)


_SIDE = side_file_of(
    *(DispatchState(dispatched_bytes=n, seen_bytes=n, queue_count=1) for n in (3, 4))
)


def checkpoint_file(data: bytes) -> object:
    return small_files.read_checkpoint(disk_with("/d/checkpoint", data), "/d/checkpoint")


# ---- JSON ----


def identity_file(data: bytes) -> object:
    """What is read can be written again and says the same."""
    found = identity.read_identity(disk_with("/d/identity.json", data), "/d")
    assert found is not None
    if found.format_version <= identity.FORMAT_VERSION:
        text = json.dumps(attrs.asdict(found)).encode()
        assert identity.read_identity(disk_with("/d/identity.json", text), "/d") == found
        LineEncoder(found.node.encode("utf-8", "replace").decode(), found.boot).encode(
            1, "/n0", 0, 5, NodeStarted(cluster="c", version="0", groups=())
        )
        assert found.boot < 2**63 - 1
    return None


def settings_file(data: bytes) -> object:
    """What is read of it can be used, and damage is passed over."""
    settings = changed_settings.ChangedSettings(
        disk=disk_with("/d/settings.json", data), path="/d/settings.json", file_group=GROUP,
        source="x", now_ms=lambda: 0,
    )  # fmt: skip
    settings.load()
    assert set(settings.values) == set(changed_settings.ACTING)
    assert 0 <= settings.permission_ms < 1 << 53
    return settings.group, settings.permission, settings.texts()


def known_broker(data: bytes) -> object:
    return followed.KnownBroker(disk_with("/d/broker.json", data), "/d/broker.json").name()


_SETTINGS = json.dumps(
    {
        "brokerPermission": {"value": "4", "instead_of": "6", "at_ms": 5},
        "deleteWhen": {"value": "05;17", "instead_of": "04", "at_ms": 5},
        "diskMaxUsedSpaceRatio": {"value": "60", "instead_of": "75", "at_ms": 5},
        "fileReservedTime": {"value": "48", "instead_of": "72", "at_ms": 5},
    }
).encode()
_IDENTITY = json.dumps(
    attrs.asdict(
        identity.Identity(
            format_version=1, cluster="demo", node="n0", groups=("orders",), boot=5,
            settings={"groups.orders.copies": "2"},
            records={
                "orders": identity.GroupRecord(
                    promotion_number=1, promotion_master="n1", high_water_bytes=7,
                    history=(identity.Epoch(1, 5, "n1", 0),),
                )
            },
        )
    )
).encode()  # fmt: skip


def manifest_file(data: bytes) -> object:
    return manifest.read_manifest(disk_with("/d/backup.json", data), "/d")


_GROUP_OF_MANIFEST = {
    "name": "orders", "segment_bytes": SEGMENT, "first_bytes": 0, "end_bytes": 5, "limit": "x",
    "files": [{"base_bytes": 0, "size_bytes": 5, "crc32": 1}],
}  # fmt: skip
_MANIFEST = json.dumps(
    {"format_version": 1, "cluster": "c", "node": "n", "boot": 1, "made_ms": 5, "identity": {},
     "groups": [_GROUP_OF_MANIFEST]}
).encode()  # fmt: skip
_JSON = (b"[" * 40, b'"\\ud800"', b"1e999", b"NaN", b"null", b"[]", b"{}", b"\xff", b"9" * 5000)


def feed_rows(data: bytes) -> object:
    source, prefix, size_bytes = feed_record.read_rows(data, "feed.jsonl")
    assert 0 <= size_bytes <= len(data)
    assert feed_record.read_rows(data[:size_bytes], "") == (source, prefix, size_bytes)
    return source != ""


_FEED = b"".join(
    json.dumps(row).encode() + b"\n"
    for row in (
        {"kind": "opened", "source": "a.txt", "line": 0},
        {"kind": "acked", "line": 5, "count": 5, "first": 1, "last": 2, "next": 3},
        {"kind": "acked", "line": 0, "count": 5, "first": 1, "last": 2, "next": 3},
        {"kind": "ended", "line": 10},
    )
)


# ---- events ----

_ENCODER = LineEncoder("n0", 3)
_LINES = [
    _ENCODER.encode(1, "/n0", 0, 5, NodeStarted(cluster="c", version="0", groups=("g",))),
    _ENCODER.encode(2, "/n0", 0, 6, EventsDropped(first_seq=3, last_seq=4)),
]


def event_line(data: bytes) -> object:
    return codec.decode_line(data).event


def event_file(data: bytes) -> object:
    """As a published file and as a live one; what is whole in it is what a repair keeps."""
    members, whole_bytes = event_files.decompress(data)
    assert 0 <= whole_bytes <= len(data)
    assert event_files.decompress(data[:whole_bytes]) == (members, whole_bytes)
    folder = event_files.folder_of("/d", "2026-01-01", "n0")
    published = event_files.EventFile(boot=3, start_seq=1, folder=folder)
    for path in (published.part_path, published.path):
        event_reader.summarize(event_reader.read_events(disk_with(path, data), "/d"))
    return None


def repair_gzip(data: bytearray) -> None:
    """What unpacks of it, packed again: so that lines are what changes, and not only gzip."""
    members, _ = event_files.decompress(bytes(data))
    lines = b"".join(members) or bytes(data[:500])
    at = zlib.crc32(data) % (len(lines) + 1)
    data[:] = event_files.compress([lines[:at], bytes(data[-3:]), lines[at:]])


# ---- the log, and what is derived from it ----


def recovering(data: bytes) -> object:
    """A store whose only log file is this, opened as a master's after a kill."""
    disk = disk_with(segment_path(LAYOUT.commit_log, 0), data.ljust(SEGMENT, b"\0")[:SEGMENT])
    disk_with(LAYOUT.abort, b"", disk)
    opened = run(opening.open_store(disk, LAYOUT, GROUP, is_master=True, owner="x"))
    end = opened.log.written_bytes
    assert end == opened.found.end_bytes
    assert all(0 <= number <= QUEUE_OFFSET_LAST for number in opened.next_offsets.values())
    opened.log.close(remove_spare=False)
    again = run(opening.open_store(disk, LAYOUT, GROUP, is_master=False, owner="x"))
    assert again.log.written_bytes == end  # OpeningIsStable
    return opened.found.reason == ""


def below_the_mark(data: bytes) -> object:
    """The same where 200 bytes are known to have been synced."""
    disk = disk_with(segment_path(LAYOUT.commit_log, 0), data.ljust(SEGMENT, b"\0")[:SEGMENT])
    mark, _ = side_file.SideFile.open(disk, LAYOUT.synced, 1)
    mark.write((200,))
    opened = run(opening.open_store(disk, LAYOUT, GROUP, is_master=True, owner="x"))
    return opened.log.written_bytes < 200  # the mark cut a record


def dispatching(data: bytes) -> object:
    """Queues and index take whatever the scan lets through, and are read back."""
    heads, _ = scan_heads(data, physical_offset=0)
    disk = SimDisk(random.Random(0))
    derived = _derived(disk)
    for _ in range(2):  # a gap is filled by dispatching again
        try:
            run(derived.put(heads))
            break
        except QueueGap as gap:
            derived.rebuild_queue(gap, 0)
    if (flush := derived.begin_flush(len(data), len(data), len(data))) is not None:
        derived.end_flush(flush)
    derived.close()
    again = _derived(disk, limit_bytes=1 << 62)
    again.close()
    return len(heads) > 1


def waiting(data: bytes) -> object:
    """Delayed and half messages of a log, whose queues are made from it, or from another one."""
    disk = disk_with(segment_path(LAYOUT.commit_log, 0), data.ljust(SEGMENT, b"\0")[:SEGMENT])
    derived = _derived(disk)
    heads, _ = scan_heads(_WAITING if len(data) % 2 else data, physical_offset=0)
    with suppress(QueueGap):
        run(derived.put(heads))
    derived.close()
    store = GroupStore(name="orders", layout=LAYOUT, segment_bytes=SEGMENT, settings={})
    found = run(pending.find_pending(disk, store, pending.Cursors(delay={3: 0}, half={0: 1})))
    return found.problems != (), [each.undecided for each in found.half], len(found.delayed)


def _waiting() -> bytes:
    out = b""
    for topic, body, number in (
        ("SCHEDULE_TOPIC_XXXX", b"later", 0),
        (pending.HALF_TOPIC, b"half", 0),
        (pending.HALF_TOPIC, b"half", 1),
        (pending.OP_TOPIC, b"0,1,", 0),
    ):
        tags = b"d" if topic == pending.OP_TOPIC else b"a"
        props = (
            PROPS.replace(b"TAGS\x01a", b"TAGS\x01" + tags) + b"TRANSACTION_CHECK_TIMES\x012\x02"
        )
        queue_id = 2 if topic == "SCHEDULE_TOPIC_XXXX" else 0
        out += record(len(out), body, props, topic, queue_id=queue_id, queue_offset=number)
    return out


_WAITING = _waiting()


def _derived(disk: SimDisk, limit_bytes: int = 0) -> DerivedFiles:
    disk.mkdir(LAYOUT.root)
    derived = DerivedFiles(env=env_on(disk), layout=LAYOUT, group=GROUP)
    run(derived.recover(0, limit_bytes))
    return derived


def queue_file(data: bytes) -> object:
    """The only file of a queue, damaged, and then written on."""
    size_bytes = QUEUE_BYTES if len(data) % 2 else len(data)
    path = f"{LAYOUT.consume_queue}/t/0/{segment_name(0)}"
    disk = disk_with(path, data.ljust(size_bytes, b"\0")[:size_bytes])
    queues = consume_queue.ConsumeQueues(disk, LAYOUT.consume_queue, QUEUE_BYTES)
    dropped = run(queues.recover([("t", 0)], 1000))
    at = queues.next_offset("t", 0)
    if at:
        low = queues.min_offset("t", 0, 100)
        queues.units("t", 0, low, 100)
    queues.put("t", 0, [RecordHead(1000, 91, "t", 0, at, 0, 5, 7, "", "")])
    assert queues.units("t", 0, at, 1) == ((1000, 91, 7),)
    return dropped


def index_of(state: bytes, header: bytes) -> SimDisk:
    """A store with one index file, whose beginning is `header`."""
    disk = disk_with(LAYOUT.dispatched, state)
    size_bytes = index_file.index_file_bytes(4, 8)
    path = f"{LAYOUT.index}/{INDEX_NAME}"
    return disk_with(path, header.ljust(size_bytes, b"\0")[:size_bytes], disk)


def index_in_use(data: bytes) -> object:
    """Header, slots and units of the only index file, damaged, and then used."""
    disk = index_of(_INDEX_STATE, data)
    derived = _derived(disk, limit_bytes=1000)
    derived.index.find("t", "k", 100)
    more = [RecordHead(2000 + number, 91, "t", 0, number, 0, 5, 7, "k", "") for number in range(9)]
    run(derived.put(more))
    assert derived.index.find("t", "k", 1)[0] == 2008
    derived.close()
    return len(derived.index.find("t", "k", 100))


def index_under_state(data: bytes) -> object:
    """A sound index file under a dispatch state that says anything."""
    disk = index_of(data, _INDEX)
    derived = _derived(disk, limit_bytes=1000)
    run(derived.put([RecordHead(2000, 91, "t", 0, 0, 0, 5, 7, "k", "")]))
    derived.close()
    return None


def adopted(data: bytes) -> object:
    """The index of another program's store, taken over."""
    disk = index_of(b"", data)
    disk.unlink(LAYOUT.dispatched)
    unit = encode_unit(0, 91, 7).ljust(QUEUE_BYTES, b"\0")
    disk_with(f"{LAYOUT.consume_queue}/t/0/{segment_name(0)}", unit, disk)
    run(adopting.adopt(disk, LAYOUT, GROUP, 1000))
    _derived(disk, limit_bytes=1000).close()
    return None


def _made_index() -> tuple[bytes, bytes]:
    """The state and the index file of three records with keys."""
    disk = SimDisk(random.Random(0))
    derived = _derived(disk)
    heads = [RecordHead(100 * n, 91, "t", 0, n, 0, 5, 7, f"k k{n}", "") for n in range(3)]
    run(derived.put(heads))
    flush = derived.begin_flush(300, 300, 300)
    assert flush is not None
    derived.end_flush(flush)
    derived.close()
    (name,) = disk.listdir(LAYOUT.index)
    state = attrs.evolve(flush.state, index_name=INDEX_NAME, queue_count=0)
    return side_file_of(state), content(disk, f"{LAYOUT.index}/{name}")


_INDEX_STATE, _INDEX = _made_index()
_STORES = files_of(opening, recovery, consume_queue, adopting, dispatch_state, index_files,
                   side_file)  # fmt: skip
_TOKENS = (b"\xda\xa3\x20\xa7", b"\xcb\xd4\x31\x94", b"\x7f" + b"\xff" * 7, b"\x80" + b"\0" * 7,
           b"\3" + b"\xff" * 7, b"\0" * 7 + b"\1", b"SCHEDULE_TOPIC_XXXX")  # fmt: skip


def broker_properties(data: bytes) -> None:
    """What is taken means the same as the cluster file that is made of it."""
    try:
        found = parse_broker_conf(data, "f")
    except ConfigError as error:
        if not all("\n" not in line and line.startswith("f") for line in error.problems):
            raise AssertionError(error.problems) from error
        raise
    same = loads(found.toml, "/c.toml")
    assert (same.groups, same.nodes) == (found.config.groups, found.config.nodes)
    assert len(found.uses) == len({use.key for use in found.uses})


_PROPERTIES = b"""# A broker\nbrokerName = broker-a\nbrokerId:1\nbrokerRole SLAVE
haMasterAddress=192.0.2.1:10912\nbrokerIP1=192.0.2.2\nfileReservedTime=4\\\n  8
deleteWhen=04;16\nstorePathRootDir=/s\\u00e4\nmappedFileSizeCommitLog=65536\n!\nx=\\t"""
_OPTIONS = tuple(f"\n{name}=".encode() for name in KEYS) + tuple(
    b"true false 0 1 127.0.0.1 SYNC_MASTER SYNC_FLUSH \\u \\\n : = # 9223372036854775808".split(
        b" "
    )
)


def targets() -> tuple[Target, ...]:
    """All of them."""
    log = (records(), record(0, props=PROPS) * 2)
    index = {"files": _STORES, "tokens": _TOKENS}
    return (
        Target(name="dispatch state", run=side, seeds=(_SIDE,), repair=repair_slots,
               **index),
        Target(name="synced mark", run=synced_mark, seeds=(_SIDE,), repair=repair_slots,
               raises=(side_file.SideFileDamaged,), **index),
        Target(name="checkpoint file", run=checkpoint_file, seeds=(b"\0" * 40,),
               files=files_of(small_files)),
        Target(name="identity", run=identity_file, seeds=(_IDENTITY,), files=files_of(identity),
               raises=(ConfigError,), tokens=_JSON, size_max=20_000),
        Target(name="changed settings", run=settings_file, seeds=(_SETTINGS,), tokens=_JSON,
               files=files_of(changed_settings), size_max=20_000),
        Target(name="known broker", run=known_broker, seeds=(b'{"name": "broker-a"}',),
               files=files_of(followed), tokens=_JSON, size_max=2_000),
        Target(name="backup manifest", run=manifest_file, seeds=(_MANIFEST,),
               files=files_of(manifest), raises=(ConfigError,), tokens=_JSON, size_max=20_000),
        Target(name="feed record", run=feed_rows, seeds=(_FEED,), files=files_of(feed_record),
               raises=(ConfigError,), tokens=_JSON, size_max=20_000),
        Target(name="broker properties", run=broker_properties, raises=(ConfigError,),
               seeds=(_PROPERTIES, b"brokerName=a\nhaFlowControlEnable=true"), tokens=_OPTIONS,
               files=files_of(properties, values, files, brokers, groups, conf)),
        Target(name="event line", run=event_line, seeds=tuple(_LINES), files=files_of(codec),
               raises=(EventFormatError,), tokens=_JSON, size_max=20_000),
        Target(name="event file", run=event_file, files=files_of(event_files, event_reader, codec),
               seeds=(event_files.compress(_LINES), event_files.compress(_LINES[:1]) * 2),
               raises=(EventFormatError,), repair=repair_gzip, size_max=20_000),
        Target(name="log of a crashed store", run=recovering, seeds=log, repair=repair_records,
               raises=(CorruptLog,), **index),
        Target(name="log below the synced mark", run=below_the_mark, seeds=log,
               repair=repair_records, raises=(CorruptLog,), **index),
        Target(name="dispatched records", run=dispatching, seeds=log, repair=repair_records,
               **index),
        Target(name="pending messages", run=waiting, seeds=(_WAITING, _WAITING + b"\0"),
               repair=repair_records, files=files_of(pending, record_proof), tokens=_TOKENS),
        Target(name="consume queue file", run=queue_file, seeds=(encode_unit(0, 91, 7) * 5,),
               size_max=400, **index),
        Target(name="index file", run=index_in_use, seeds=(_INDEX,), **index),
        Target(name="index under a state", run=index_under_state, seeds=(_INDEX_STATE,),
               repair=repair_slots, **index),
        Target(name="index of another program", run=adopted, seeds=(_INDEX,), **index),
    )  # fmt: skip
