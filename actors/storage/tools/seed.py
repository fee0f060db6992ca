"""A node's data directory from a backup: the node starts from it as a slave and only catches up.

Built in its place, for folders there may be links or mounts that were prepared for it. The identity
comes first under another name, which no start takes, and gets its own when all else is synced: so
no node starts on a part.
"""

from __future__ import annotations

import json
from typing import Any

import attrs

from actors.config import ClusterConfig
from actors.env.protocols import Disk
from actors.errors import ConfigError, CorruptLog
from actors.storage.commit_log import segment_bases, segment_path
from actors.storage.identity import FORMAT_VERSION, LOCK_NAME, identity_path, seeding_path
from actors.storage.layout import StoreLayout
from actors.storage.path_kinds import check_kinds, is_bare
from actors.storage.side_file import SideFile
from actors.storage.tools.manifest import BackedUpFile, BackedUpGroup, Manifest, write_synced
from actors.storage.tools.steps import Step, Work
from actors.storage.tools.walk import READ_BYTES
from wire.crc import crc32


@attrs.frozen(kw_only=True)
class Seed:
    """What is to be made.

    Attributes:
        backup: absolute path of the backup.
        manifest: its list.
        node_dir: absolute path of the directory to make.
        cluster, node: whose it will be.
        group: name of the backup's only group from now on; None: all keep their names.
    """

    backup: str
    manifest: Manifest
    node_dir: str
    cluster: str
    node: str
    group: str | None = None

    @property
    def groups(self) -> tuple[tuple[str, BackedUpGroup], ...]:
        """Each with the name that it will have."""
        return tuple((self.group or group.name, group) for group in self.manifest.groups)


def check_fit(seed: Seed, config: ClusterConfig) -> None:
    """Whether the cluster file has a place for it. Raises: ConfigError, one line per problem."""
    problems = []
    for name, group in seed.groups:
        found = config.classic_groups.get(name)
        key = f"{config.path}: key groups.{name}"
        if found is None:
            problems.append(f"{key}: expected the group of the backup (or --group), found none")
            continue
        if seed.node not in found.members:
            problems.append(f"{key}.slaves: expected {seed.node} among them, found it nowhere")
        elif seed.node == found.master:
            problems.append(f"{key}.master: expected another node than the one that is seeded")
        if group.segment_bytes and found.segment_bytes != group.segment_bytes:
            problems.append(
                f"{key}.segment_bytes: expected {group.segment_bytes}, the size of the backup's"
                f" files, found {found.segment_bytes}"
            )
    if seed.manifest.cluster not in ("", config.name):
        problems.append(
            f"{config.path}: key name: expected {seed.manifest.cluster}, the backup's cluster,"
            f" found {config.name}"
        )
    if problems:
        raise ConfigError(tuple(problems))


def check_free(disk: Disk, seed: Seed) -> None:
    """Raises: ConfigError: something is where the directory is to be, or was begun by others.

    Empty folders are nothing.
    """
    top, mark = seed.node_dir, seeding_path(seed.node_dir)
    check_kinds(disk, folders=(top, f"{top}/groups"), files=(mark,))
    begun = disk.exists(mark)
    ours = {mark, f"{mark}.tmp"} | ({f"{top}/groups", f"{top}/{LOCK_NAME}"} if begun else set())
    if begun:
        ours |= {f"{top}/groups/{name}" for name, _ in seed.groups}
    found = [f"{top}/{name}" for name in disk.listdir(top)]
    if begun:
        found += [f"{top}/groups/{name}" for name in disk.listdir(f"{top}/groups")]
    foreign = [p for p in found if p not in ours and not is_bare(disk, p)]
    if foreign:
        expected = "nothing, or a seed cut short" if begun else "an empty folder"
        names = ", ".join(path.removeprefix(f"{top}/") for path in foreign[:5])
        raise ConfigError(f"{top}: expected {expected}, found {names}")


def seed_node(disk: Disk, seed: Seed) -> Work[int]:
    """Make the directory. Gives the bytes copied. `check_free` has been called.

    Raises: CorruptLog: the backup is not what its manifest says. OSError. Either way no node starts
        there.
    """
    top, mark = seed.node_dir, seeding_path(seed.node_dir)
    disk.mkdir(top)
    text = json.dumps(_identity(seed), indent=2, sort_keys=True)
    write_synced(disk, mark, text.encode() + b"\n")
    copied = 0
    for name, group in seed.groups:
        copied += yield from _group(disk, seed, group, f"{top}/groups/{name}")
    yield Step("identity", 0, 0)
    disk.rename(mark, identity_path(top))
    disk.sync_dir(top)
    return copied


def _identity(seed: Seed) -> dict[str, Any]:
    """The new node's identity. What the old one knew of promotions goes along: it is about the log.

    The reigns of bytes that the copy does not have stay behind, and what the old node reported.
    """
    manifest = seed.manifest
    known = manifest.identity.get("records", {})
    records = {}
    for name, group in seed.groups:
        if group.name in known:
            record = dict(known[group.name])
            reigns = record.get("history", [])
            record["history"] = [each for each in reigns if each["start_bytes"] < group.end_bytes]
            record["high_water_bytes"] = 0
            records[name] = record
    return {
        "format_version": FORMAT_VERSION,
        "cluster": seed.cluster,
        "node": seed.node,
        "groups": [name for name, _ in seed.groups],
        "boot": manifest.boot if manifest.node == seed.node else 0,
        "settings": {},
        **({"records": records} if records else {}),
    }


def _group(disk: Disk, seed: Seed, group: BackedUpGroup, root: str) -> Work[int]:
    layout = StoreLayout(root)
    source = StoreLayout(f"{seed.backup}/groups/{group.name}").commit_log
    disk.mkdir(layout.commit_log)
    _remove_files(disk, layout)
    total = sum(file.size_bytes for file in group.files)
    done = 0
    for each in group.files:
        yield from _file(disk, source, layout.commit_log, group, each, done, total)
        done += each.size_bytes
    disk.sync_dir(layout.commit_log)
    if group.files:
        mark, _ = SideFile.open(disk, layout.synced, 1)
        mark.write((group.end_bytes,))
        mark.sync()
        mark.close()
    return done


def _remove_files(disk: Disk, layout: StoreLayout) -> None:
    """Those that a run made which was killed."""
    paths = [segment_path(layout.commit_log, b) for b in segment_bases(disk, layout.commit_log)]
    for path in (*paths, layout.synced):
        if disk.exists(path):
            disk.unlink(path)


def _file(
    disk: Disk,
    source: str,
    target: str,
    group: BackedUpGroup,
    each: BackedUpFile,
    done: int,
    total: int,
) -> Work[None]:
    path, crc = segment_path(source, each.base_bytes), 0
    copy = disk.open(segment_path(target, each.base_bytes), "x")
    try:
        file = disk.open(path, "r")
        try:
            for at in range(0, each.size_bytes, READ_BYTES):
                data = file.pread(at, min(READ_BYTES, each.size_bytes - at))
                crc = crc32(data, crc)
                copy.pwrite(data, at)
                yield Step(f"{group.name}: copy", done + at + len(data), total)
        finally:
            file.close()
        if crc != each.crc32:
            raise CorruptLog(
                f"{path}: expected CRC-32 {each.crc32:08x} as the manifest says, found {crc:08x}"
            )
        copy.resize(group.segment_bytes)
        copy.sync()
    finally:
        copy.close()
