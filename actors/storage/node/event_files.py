"""The event log's files: names, writing, repair after a crash, and what is deleted when.

Layout: `ROOT/v=1/dt=YYYY-MM-DD/node=NAME/BOOT-SEQ.jsonl.gz`, BOOT and SEQ (of the first event)
zero-padded, the date that of the first event in UTC. A file is a series of gzip members, each a
whole number of lines, so a torn file is readable up to its last whole member. The live file is
hidden, `.BOOT-SEQ.jsonl.gz.part` beside the published ones: Spark's file source and others that
skip hidden files never see a file that still grows (they read a file once).

A file is published by: data synced, renamed, folder synced. After a crash, or a failed write or
sync, what is readable of the live file is written to a new file and published from there: after a
failed sync the system may take the old one's pages for clean.
"""

from __future__ import annotations

import datetime
import gzip
import re
import zlib
from contextlib import closing

import attrs
import trio

from actors.env.path_kinds import names_in
from actors.env.protocols import Disk, File, Syncer
from actors.events.codec import decode_line

FORMAT = "v=1"
SUFFIX = ".jsonl.gz"
READ_CHUNK_BYTES = 1 << 20
GZIP_LEVEL = 1
"""Higher levels take several times as long for a tenth less (spark.md, section 2)."""

_PUBLISHED = re.compile(r"(\d{6,})-(\d{12,})\.jsonl\.gz")
_LIVE = re.compile(r"\.?(\d{6,})-(\d{12,})\.jsonl\.gz\.part")
_NAMED = re.compile(r"\.?(\d{6,})-\d{12,}\.jsonl\.gz")
"""Published, or still written."""
_WBITS_GZIP = 31
_PIECE_BYTES = 4096
MEMBER_BYTES_MAX = 64 << 20
"""Unpacked. Ours have some hundred lines; damage may unpack to a thousand times its size."""
FILE_BYTES_MAX = 512 << 20
"""Unpacked, of all members of a file together. Ours are rolled at 8 MiB packed, some 100 MiB of
lines.
"""


@attrs.frozen(kw_only=True, order=True)
class EventFile:
    """One file of a node's event log; ordered by boot and first seq.

    Attributes:
        boot: of all its events.
        start_seq: of its first event.
        folder: where it is, or will be published.
        size_bytes: compressed.
    """

    boot: int
    start_seq: int
    folder: str
    size_bytes: int = 0

    @property
    def path(self) -> str:
        return f"{self.folder}/{file_name(self.boot, self.start_seq)}"

    @property
    def part_path(self) -> str:
        return f"{self.folder}/.{file_name(self.boot, self.start_seq)}.part"

    @property
    def date(self) -> str:
        """The day of the file, from the name of its folder: "2026-01-31"."""
        return self.folder.rpartition("/dt=")[2].partition("/")[0]


@attrs.frozen(kw_only=True)
class Repaired:
    """What became of a live file of an earlier boot; `file` is None if nothing was readable."""

    name: str
    file: EventFile | None
    events: int
    cut_bytes: int


def file_name(boot: int, start_seq: int) -> str:
    return f"{boot:06d}-{start_seq:012d}{SUFFIX}"


def date_of(ts_us: int) -> str:
    """The day in UTC."""
    moment = datetime.datetime.fromtimestamp(ts_us // 1_000_000, tz=datetime.UTC)
    return moment.date().isoformat()


def key_of(line: bytes) -> tuple[int, int]:
    """seq and ts_us of an encoded event. Raises: EventFormatError."""
    logged = decode_line(line)
    return logged.seq, logged.ts_us


def oldest_date(ts_us: int, days: int) -> str:
    """The first day that is kept `days` days."""
    return date_of(max(0, ts_us - days * 86_400_000_000))


def folder_of(root: str, date: str, node: str) -> str:
    return f"{root}/{FORMAT}/dt={date}/node={node}"


def compress(lines: list[bytes]) -> bytes:
    """One gzip member; the same lines always give the same bytes."""
    return gzip.compress(b"".join(lines), GZIP_LEVEL, mtime=0)


def decompress(data: bytes) -> tuple[list[bytes], int]:
    """The content of every whole member, and how many bytes of `data` they take. Neither has what
    is behind `FILE_BYTES_MAX` of content.
    """
    members: list[bytes] = []
    position, room_bytes = 0, FILE_BYTES_MAX
    while position < len(data):
        content, size_bytes = _member(memoryview(data)[position:])
        room_bytes -= len(content)
        if not size_bytes or room_bytes < 0:
            break
        members.append(content)
        position += size_bytes
    return members, position


def _member(data: memoryview) -> tuple[bytes, int]:
    """The content of the member that `data` begins with, and its bytes; 0: it is not whole.

    In pieces, because zlib copies all that follows a member, and a quiet node's file has 20,000.
    """
    unpacker = zlib.decompressobj(_WBITS_GZIP)
    pieces: list[bytes] = []
    position, room_bytes = 0, MEMBER_BYTES_MAX
    try:
        while not unpacker.eof and position < len(data) and room_bytes:
            piece = unpacker.unconsumed_tail or data[position : position + _PIECE_BYTES]
            before = len(unpacker.unconsumed_tail)
            pieces.append(unpacker.decompress(piece, room_bytes))
            room_bytes -= len(pieces[-1])
            position += len(piece) - before
    except zlib.error:
        return b"", 0
    return b"".join(pieces), position - len(unpacker.unused_data) if unpacker.eof else 0


def node_folders(disk: Disk, root: str, node: str) -> list[str]:
    """The folders of a node's event files, oldest day first."""
    version = f"{root}/{FORMAT}"
    days = [name for name in disk.listdir(version) if name.startswith("dt=")]
    folders = [f"{version}/{day}/node={node}" for day in days]
    return [folder for folder in folders if disk.exists(folder)]


def published(disk: Disk, root: str, node: str) -> list[EventFile]:
    """The published files of a node, oldest first."""
    return _found(disk, root, node, _PUBLISHED)


def live(disk: Disk, root: str, node: str) -> list[EventFile]:
    """The `.part` files of a node: the one that is written, and those of earlier boots."""
    return _found(disk, root, node, _LIVE)


def _found(disk: Disk, root: str, node: str, pattern: re.Pattern[str]) -> list[EventFile]:
    found = []
    for folder in node_folders(disk, root, node):
        for match in filter(None, map(pattern.fullmatch, disk.listdir(folder))):
            boot, start_seq = int(match[1]), int(match[2])
            size = disk.stat(f"{folder}/{match[0]}").size_bytes
            found.append(EventFile(boot=boot, start_seq=start_seq, folder=folder, size_bytes=size))
    return sorted(found)


def last_boot(disk: Disk, root: str, node: str, *, most: int) -> int:
    """The highest boot that a node's event files are named after; 0: there are none.

    Args:
        most: names with a higher one are not ours.
    """
    names = [name for folder in node_folders(disk, root, node) for name in names_in(disk, folder)]
    matches = (_NAMED.match(name) for name in names)
    boots = (int(match[1]) for match in matches if match is not None)
    return max((boot for boot in boots if boot <= most), default=0)


async def repair(disk: Disk, syncer: Syncer, file: EventFile) -> Repaired:
    """Publish what is readable of a live file that nobody writes any more. Raises: OSError.

    Effects order: new file written, synced, renamed to the published name, folder synced; then the
    live file is removed. A crash anywhere in between repeats it.
    """
    name = file.path.rpartition("/")[2]
    data = read_all(disk, file.part_path)
    members, whole_bytes = decompress(data)
    await trio.lowlevel.checkpoint()
    events = sum(content.count(b"\n") for content in members)
    repaired: EventFile | None = None
    if members and not disk.exists(file.path):
        await publish_copy(disk, syncer, file, data[:whole_bytes])
    if members:
        repaired = attrs.evolve(file, size_bytes=whole_bytes)
    disk.unlink(file.part_path)
    syncer.forget([file.part_path])  # its own sync may have failed
    return Repaired(name=name, file=repaired, events=events, cut_bytes=len(data) - whole_bytes)


async def publish_copy(disk: Disk, syncer: Syncer, file: EventFile, data: bytes) -> None:
    """Write, sync and publish a file whose content is known. Raises: OSError."""
    path = f"{file.part_path}.copy"
    if disk.exists(path):
        disk.unlink(path)
    with closing(disk.open(path, "x")) as copy:
        copy.pwrite(data, 0)
    await syncer.sync([path])
    disk.rename(path, file.path)
    syncer.forget([path])
    disk.sync_dir(file.folder)


def read_all(disk: Disk, path: str) -> bytes:
    with closing(disk.open(path, "r")) as file:
        size_bytes = file.size_bytes
        starts = range(0, size_bytes, READ_CHUNK_BYTES)
        return b"".join(file.pread(start, READ_CHUNK_BYTES) for start in starts)


@attrs.define
class LiveFile:
    """The file that is being written.

    Attributes:
        file: its name once it is published.
        events: lines written.
        size_bytes: compressed bytes written.
    """

    file: EventFile
    _disk: Disk
    _handle: File
    events: int = 0
    size_bytes: int = 0

    @classmethod
    def create(cls, disk: Disk, file: EventFile) -> LiveFile:
        """Raises: OSError."""
        disk.mkdir(file.folder)
        return cls(file=file, disk=disk, handle=disk.open(file.part_path, "x"))

    def append(self, lines: list[bytes]) -> None:
        """Write whole lines as one gzip member. Raises: OSError; then it must not be used again."""
        member = compress(lines)
        self._handle.pwrite(member, self.size_bytes)
        self.size_bytes += len(member)
        self.events += len(lines)

    async def publish(self, syncer: Syncer) -> EventFile:
        """Sync the file, rename it, and sync its folder.

        Raises: OSError: the file has to be repaired.
        """
        self._handle.close()
        await syncer.sync([self.file.part_path])
        self._disk.rename(self.file.part_path, self.file.path)
        syncer.forget([self.file.part_path])
        self._disk.sync_dir(self.file.folder)
        return attrs.evolve(self.file, size_bytes=self.size_bytes)

    def close(self) -> None:
        """Leave it as it is, for the next start to repair."""
        self._handle.close()


def expired(
    files: list[EventFile], *, bytes_max: int, first_date: str, count_max: int
) -> list[EventFile]:
    """The oldest files, which the retention does not keep. The newest file always stays.

    Args:
        files: oldest first.
        bytes_max: sum of what may stay.
        first_date: files of earlier days go, "2026-01-31".
        count_max: most files at a time, so that their deletion stays short.
    """
    excess_bytes = sum(file.size_bytes for file in files) - bytes_max
    found: list[EventFile] = []
    for file in files[:-1][:count_max]:
        if excess_bytes <= 0 and file.date >= first_date:
            break
        excess_bytes -= file.size_bytes
        found.append(file)
    return found


def delete(disk: Disk, files: list[EventFile]) -> None:
    """Delete files, and folders in which nothing is left. Raises: OSError."""
    for file in files:
        disk.unlink(file.path)
    for folder in dict.fromkeys(file.folder for file in files):
        day = folder.rpartition("/")[0]
        if not disk.listdir(folder):
            disk.rmtree(folder)
        if not disk.listdir(day):
            disk.rmtree(day)
