"""The manifest of a backup, `backup.json`, and the mark of an incomplete backup.

`DEST/backup.incomplete` is made first and removed last; `DEST/backup.json` is written when all
files are synced, by a rename. A backup without it is incomplete, whatever else is there.

| Key | Type | Meaning |
|---|---|---|
| format_version | int | 1 |
| cluster, node | str | the names of cluster and node; "" for another program's store |
| boot | int | how often the node had been started; 0 if unknown |
| made_ms | int | when the manifest was written, ms since 1970 |
| identity | object | the node's identity.json as it was; {} if it has none |
| groups | list | for each: name, segment_bytes, first_bytes, end_bytes, limit, files, and below |
| ledgers | list | for each DLedger group: see `ledger.backup.BackedUpLedger` |
| replicas | list | for each auto-switch group: see `commitlog.replicas.BackedUpReplica` |

`limit` says how the end was found. A file has `base_bytes` (its name), `size_bytes` (its bytes up
to `end_bytes`; the file itself is as large as all others, with zeros after these bytes) and their
`crc32`. Of a broker's metadata a group also has `config`, a list of files with `name`, `size_bytes`
and `crc32`, and `settings`, the file with what operators have changed, or null without one;
manifests of earlier versions have neither.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

import attrs

from actors.env.protocols import Disk
from actors.errors import ConfigError
from actors.storage.commitlog.kind import CLASSIC
from actors.storage.files.whole_files import read_bytes, write_synced
from actors.storage.kinds import KINDS, by_key
from actors.storage.node.identity import UNREADABLE, json_object, unlike
from actors.storage.tools.copying import Copied
from actors.storage.tools.stores import FoundStore

FORMAT_VERSION: Final = 1
MANIFEST_BYTES_MAX: Final = 64 << 20
"""With about 80 bytes for a file, this is enough for 800 TB in files of 1 GiB."""


@attrs.frozen(kw_only=True)
class Manifest:
    """A complete manifest; see the module's table. `copies` has the lists of all modes."""

    cluster: str
    node: str
    boot: int
    made_ms: int
    identity: dict[str, Any]
    copies: tuple[Copied, ...]

    def copy_of(self, store: FoundStore) -> Copied | None:
        """Return the entry of a store in the backup; None if it has none."""
        same = (each for each in self.copies if (each.mode, each.name) == (store.mode, store.name))
        return next(same, None)


def manifest_path(folder: str) -> str:
    return f"{folder}/backup.json"


def incomplete_path(folder: str) -> str:
    return f"{folder}/backup.incomplete"


def is_incomplete(disk: Disk, folder: str) -> bool:
    """Whether the folder is a backup that was begun and not finished."""
    return disk.exists(incomplete_path(folder)) and not disk.exists(manifest_path(folder))


def read_manifest(disk: Disk, folder: str) -> Manifest | None:
    """Read the manifest; None: the folder is no backup. Raises: ConfigError: it cannot be read."""
    path = manifest_path(folder)
    if not disk.exists(path):
        return None
    data = read_bytes(disk, path, MANIFEST_BYTES_MAX)
    try:
        return _parse(json_object(data), path)
    except UNREADABLE as error:
        raise ConfigError(
            f"{path}: expected a backup's manifest, found {data[:40]!r} ({unlike(error)})"
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
        copies=tuple(
            kind.tools().parse_copy(each)
            for kind in KINDS.values()
            for each in (found[kind.key] if kind is CLASSIC else found.get(kind.key, ()))
        ),
    )


def write_manifest(disk: Disk, folder: str, manifest: Manifest) -> None:
    """Write the manifest, the last step of a backup.

    Effects order: it is written, synced and renamed, and the folder is synced; then the mark of an
        incomplete backup is removed.
    """
    lists = by_key(manifest.copies).items()
    content = {
        "format_version": FORMAT_VERSION,
        **attrs.asdict(manifest, filter=lambda field, _: field.name != "copies"),
        **{key: [attrs.asdict(cast("Any", each)) for each in found] for key, found in lists},
    }
    write_synced(disk, manifest_path(folder), json.dumps(content, indent=1).encode() + b"\n")
    if disk.exists(incomplete_path(folder)):
        disk.unlink(incomplete_path(folder))
        disk.sync_dir(folder)
