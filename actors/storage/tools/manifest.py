"""A backup's own list of what is in it, `backup.json`, and the mark of one that is not whole.

`DEST/backup.incomplete` is made first and removed last; `DEST/backup.json` is written when all
files are synced, by a rename. A backup without it is incomplete, whatever else is there.

| Key | Type | Meaning |
|---|---|---|
| format_version | int | 1 |
| cluster, node | str | whose directory it was; "" for a store of another program |
| boot | int | how often that node had been started; 0 if unknown |
| made_ms | int | when the manifest was written, ms since 1970 |
| identity | object | the node's identity.json as it was; {} if it has none |
| groups | list | for each group: name, segment_bytes, first_bytes, end_bytes, limit, files |
| ledgers | list | for each DLedger group: see `BackedUpLedger` |

`limit` says what the end followed from. A file: `base_bytes` (its name), `size_bytes` (bytes up to
`end_bytes`; the file itself is as large as all others, zero behind them) and `crc32` of these.
"""

from __future__ import annotations

import json
from typing import Any, Final

import attrs

from actors.env.protocols import Disk
from actors.errors import ConfigError
from actors.storage.identity import UNREADABLE

FORMAT_VERSION: Final = 1
MANIFEST_BYTES_MAX: Final = 64 << 20
"""At about 80 bytes for a file, enough for 800 TB in files of 1 GiB."""


@attrs.frozen(kw_only=True)
class BackedUpFile:
    """One file of a log. See the module's text."""

    base_bytes: int
    size_bytes: int
    crc32: int


@attrs.frozen(kw_only=True)
class BackedUpGroup:
    """One group's log, from `first_bytes` to `end_bytes`. See the module's table."""

    name: str
    segment_bytes: int
    first_bytes: int
    end_bytes: int
    limit: str
    files: tuple[BackedUpFile, ...]


@attrs.frozen(kw_only=True)
class BackedUpLedger:
    """What was copied of a DLedger member.

    Attributes:
        log: its data files, as of any group.
        first_index, end_index: of its entries; -1 for none.
        committed_index: as far as this member knew; what lies above may never have been answered,
            and others may have something else there.
        term, voted_for: what it must not forget, and the copy does not stand in for: it has no
            `currterm`, so that no member of ours starts on it.
        snapshots: indexes of its state machine's snapshots.
    """

    log: BackedUpGroup
    first_index: int
    end_index: int
    committed_index: int
    term: int
    voted_for: str
    snapshots: tuple[int, ...]

    @property
    def name(self) -> str:
        """The group."""
        return self.log.name


@attrs.frozen(kw_only=True)
class Manifest:
    """All of it. See the module's table."""

    cluster: str
    node: str
    boot: int
    made_ms: int
    identity: dict[str, Any]
    groups: tuple[BackedUpGroup, ...]
    ledgers: tuple[BackedUpLedger, ...] = ()


def manifest_path(folder: str) -> str:
    return f"{folder}/backup.json"


def incomplete_path(folder: str) -> str:
    return f"{folder}/backup.incomplete"


def is_incomplete(disk: Disk, folder: str) -> bool:
    """Whether the folder is a backup that was begun and not ended."""
    return disk.exists(incomplete_path(folder)) and not disk.exists(manifest_path(folder))


def read_manifest(disk: Disk, folder: str) -> Manifest | None:
    """The list; None: the folder is no backup. Raises: ConfigError: it cannot be read."""
    path = manifest_path(folder)
    if not disk.exists(path):
        return None
    file = disk.open(path, "r")
    try:
        data = file.pread(0, MANIFEST_BYTES_MAX)
    finally:
        file.close()
    try:
        return _parse(json.loads(data), path)
    except UNREADABLE as error:
        raise ConfigError(
            f"{path}: expected a backup's manifest, found {data[:40]!r} ({error})"
        ) from error


def _parse(found: Any, path: str) -> Manifest:
    version = found["format_version"]
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ConfigError(f"{path}: expected format {FORMAT_VERSION} or older, found {version!r}")
    return Manifest(
        cluster=str(found["cluster"]),
        node=str(found["node"]),
        boot=int(found["boot"]),
        made_ms=int(found["made_ms"]),
        identity=dict(found["identity"]),
        groups=tuple(_group(each) for each in found["groups"]),
        ledgers=tuple(_ledger(each) for each in found.get("ledgers", ())),
    )


def _ledger(found: Any) -> BackedUpLedger:
    return BackedUpLedger(
        log=_group(found["log"]),
        first_index=int(found["first_index"]),
        end_index=int(found["end_index"]),
        committed_index=int(found["committed_index"]),
        term=int(found["term"]),
        voted_for=str(found["voted_for"]),
        snapshots=tuple(int(each) for each in found["snapshots"]),
    )


def _group(found: Any) -> BackedUpGroup:
    files = tuple(
        BackedUpFile(
            base_bytes=int(each["base_bytes"]),
            size_bytes=int(each["size_bytes"]),
            crc32=int(each["crc32"]),
        )
        for each in found["files"]
    )
    return BackedUpGroup(
        name=str(found["name"]),
        segment_bytes=int(found["segment_bytes"]),
        first_bytes=int(found["first_bytes"]),
        end_bytes=int(found["end_bytes"]),
        limit=str(found["limit"]),
        files=files,
    )


def write_manifest(disk: Disk, folder: str, manifest: Manifest) -> None:
    """The last step of a backup. Effects order: written, synced, renamed, folder synced; then the
    mark of an incomplete one is removed.
    """
    content = {"format_version": FORMAT_VERSION, **attrs.asdict(manifest)}
    write_synced(disk, manifest_path(folder), json.dumps(content, indent=1).encode() + b"\n")
    if disk.exists(incomplete_path(folder)):
        disk.unlink(incomplete_path(folder))
        disk.sync_dir(folder)


def write_synced(disk: Disk, path: str, data: bytes) -> None:
    """A small file, whole or not at all: temporary file, sync, rename, folder sync."""
    temporary = f"{path}.tmp"
    if disk.exists(temporary):
        disk.unlink(temporary)
    file = disk.open(temporary, "x")
    try:
        file.pwrite(data, 0)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_dir(path.rpartition("/")[0])
