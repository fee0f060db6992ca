"""The store of a mirror group: files of lines, and what the storage tools do with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import ClassVar

import attrs

from actors.env.protocols import Disk
from actors.group_status import GroupStatus
from actors.storage.files.stepping import Step, Work
from actors.storage.kind import StoreKind
from actors.storage.log.commit_log import is_segment_name, segment_path
from actors.storage.node.identity import Identity
from actors.storage.tools.commitlog.check import CheckOptions
from actors.storage.tools.commitlog.dump import Dumped, Wanted
from actors.storage.tools.copying import BackedUp, BackedUpGroup, Limit, LogCopy, verify_group
from actors.storage.tools.findings import Report
from actors.storage.tools.kind import StoreTools
from actors.storage.tools.stores import FoundStore, file_size, log_bases


@attrs.frozen
class Layout:
    root: str

    @property
    def commit_log(self) -> str:
        return f"{self.root}/lines"

    @property
    def folders(self) -> tuple[str, ...]:
        return (self.root, self.commit_log)

    @property
    def files(self) -> tuple[str, ...]:
        return ()


@attrs.frozen(kw_only=True)
class Mirror(FoundStore):
    mode = "mirror"


@attrs.define(kw_only=True)
class MirrorReport(Report):
    mode = "mirror"
    columns = ("lines",)
    lines: int = 0

    @property
    def row(self) -> tuple[str, ...]:
        return (str(self.lines),)


@attrs.frozen(kw_only=True)
class MirrorCopy:
    mode: ClassVar = "mirror"
    log: BackedUpGroup

    @property
    def name(self) -> str:
        return self.log.name

    @property
    def line(self) -> str:
        return f"{self.name}: {len(self.log.files)} files of lines"


def _find(disk: Disk, root: str, identity: Identity | None) -> Mirror:
    layout = Layout(root)
    size = file_size(disk, layout.commit_log, None)
    return Mirror(name=root.rpartition("/")[2], layout=layout, segment_bytes=size, settings={})


def _lines(disk: Disk, store: Mirror, base: int) -> list[bytes]:
    file = disk.open(segment_path(store.layout.commit_log, base), "r")
    try:
        return bytes(file.pread(0, file.size_bytes)).rstrip(b"\0").splitlines()
    finally:
        file.close()


def _check(disk: Disk, store: Mirror, options: CheckOptions) -> Work[Report]:
    report = MirrorReport(group=store.name, state="running" if options.is_running else "stopped")
    for base in log_bases(disk, store):
        for line in _lines(disk, store, base):
            if line.startswith(b"line "):
                report.lines += 1
            else:
                report.findings.hurt(f"{line.decode()} is no line")
        yield Step("lines", base, 0)
    if options.copied is not None:
        for wrong in (yield from verify_group(disk, store.layout.commit_log, options.copied.log)):
            report.findings.hurt(wrong)
    return report


def _dump(
    disk: Disk, store: Mirror, wanted: Wanted, write: Callable[[bytes], object], limit: int | None
) -> Work[Dumped]:
    done = Dumped()
    for base in log_bases(disk, store):
        for line in _lines(disk, store, base):
            write(json.dumps(line.decode()).encode() + b"\n")
            done.records += 1
        yield Step("dump", base, 0)
    return done


def _end(disk: Disk, store: Mirror) -> int:
    return sum(store.segment_bytes for _ in log_bases(disk, store))


def _stopped(disk: Disk, store: Mirror) -> Work[Limit]:
    yield Step("end", 0, 0)
    return Limit(end_bytes=_end(disk, store), why="the end", is_sure=True)


def _running(disk: Disk, store: Mirror, status: GroupStatus | None, node: str) -> Limit:
    return Limit(end_bytes=_end(disk, store), why="running", is_sure=True)


def _copy(disk: Disk, store: Mirror, root: str, limit: Limit, done: BackedUp) -> Work[MirrorCopy]:
    copy = LogCopy(
        disk=disk,
        name=store.name,
        source=store.layout.commit_log,
        target=Layout(root).commit_log,
        file_bytes=store.segment_bytes,
        end_bytes=limit.end_bytes,
        limit=limit.why,
        done=done,
    )
    return MirrorCopy(log=(yield from copy.run(log_bases(disk, store))))


def _is_store(disk: Disk, root: str) -> bool:
    return disk.exists(Layout(root).commit_log)


TOOLS = StoreTools(
    find=_find,
    check=_check,
    dump=_dump,
    pending="a mirror has no consume queues",
    stays_up_to=_end,
    stopped_limit=_stopped,
    running_limit=_running,
    copy=_copy,
    parse_copy=lambda found: MirrorCopy(log=BackedUpGroup.parse(found["log"])),
    truncate="a mirror keeps its end",
    seed="a mirror is made by looking into it",
)
STORE = StoreKind(
    key="mirrors",
    layout=Layout,
    signs=lambda root: (Layout(root).commit_log,),
    start_paths=lambda root: (Layout(root).folders, ()),
    named_files=lambda root: {Layout(root).commit_log: is_segment_name},
    is_store=lambda disk, root, identity: _is_store(disk, root),
    is_store_alone=_is_store,
    tools=lambda: TOOLS,
)
