"""Makes a node's data directory from a backup: the node starts on it as a slave, and only catches
up.

It is made in place, because its folders may be links or mounts that were prepared for it. The
identity is written first, under a name that no start accepts, and renamed when everything else is
synced; so no node starts on an incomplete directory.
"""

from __future__ import annotations

import json
from typing import Any

import attrs

from actors.config import ClusterConfig
from actors.env.path_kinds import check_kinds, is_bare
from actors.env.protocols import Disk
from actors.errors import ConfigError
from actors.storage.files.stepping import Step, Work
from actors.storage.files.whole_files import write_synced
from actors.storage.kinds import tools_of
from actors.storage.node.identity import FORMAT_VERSION, LOCK_NAME, identity_path, seeding_path
from actors.storage.tools.copying import Copied
from actors.storage.tools.kind import Seeding
from actors.storage.tools.manifest import Manifest


@attrs.frozen(kw_only=True)
class Seed:
    """The data directory that is to be made.

    Attributes:
        backup: the absolute path of the backup.
        manifest: the backup's manifest.
        node_dir: the absolute path of the directory.
        cluster, node: the names of its cluster and its node.
        group: a new name for the backup's only group; None: all groups keep their names.
    """

    backup: str
    manifest: Manifest
    node_dir: str
    cluster: str
    node: str
    group: str | None = None

    @property
    def groups(self) -> tuple[tuple[str, Copied], ...]:
        """The groups that can be seeded, each with the name that it will have."""
        copies = seedable(self.manifest)
        return tuple((self.group or copied.name, copied) for copied in copies)


def seedable(manifest: Manifest) -> tuple[Copied, ...]:
    """Return the copies from which a node's store can be made."""
    return tuple(each for each in manifest.copies if isinstance(tools_of(each).seed, Seeding))


def _seeding_of(copied: Copied) -> Seeding:
    found = tools_of(copied).seed
    assert isinstance(found, Seeding)  # `seedable`
    return found


def check_fit(seed: Seed, config: ClusterConfig) -> None:
    """Check that the groups fit the cluster file. Raises: ConfigError, one line per problem."""
    problems = []
    for name, copied in seed.groups:
        problems += _seeding_of(copied).problems(config, seed.node, name, copied)
    if seed.manifest.cluster not in ("", config.name):
        problems.append(
            f"{config.path}: key name: expected {seed.manifest.cluster}, the backup's cluster,"
            f" found {config.name}"
        )
    if problems:
        raise ConfigError(tuple(problems))


def check_free(disk: Disk, seed: Seed) -> None:
    """Check that the directory can be made: its place is free, or an interrupted seeding's.

    Empty folders do not matter. Raises: ConfigError: something else is there.
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
    """Make the directory. Returns: the bytes copied. `check_free` has to be called before.

    Raises: CorruptLog: the backup is not what its manifest says. OSError. No node starts on the
        directory then.
    """
    top, mark = seed.node_dir, seeding_path(seed.node_dir)
    disk.mkdir(top)
    text = json.dumps(_identity(seed), indent=2, sort_keys=True)
    write_synced(disk, mark, text.encode() + b"\n")
    copied = 0
    for name, group in seed.groups:
        source, root = f"{seed.backup}/groups/{group.name}", f"{top}/groups/{name}"
        copied += yield from _seeding_of(group).copy(disk, group, source, root)
    yield Step("identity", 0, 0)
    disk.rename(mark, identity_path(top))
    disk.sync_dir(top)
    return copied


def _identity(seed: Seed) -> dict[str, Any]:
    """Make the new node's identity.

    It keeps what the old node knew of promotions, because that belongs to the log, but not the
    epochs of bytes that the copy lacks, nor what the old node has reported.
    """
    manifest = seed.manifest
    known = manifest.identity.get("records", {})
    records = {}
    for name, group in seed.groups:
        if group.name in known:
            record = dict(known[group.name])
            epochs = record.get("history", [])
            record["history"] = [
                each for each in epochs if each["start_bytes"] < group.log.end_bytes
            ]
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
