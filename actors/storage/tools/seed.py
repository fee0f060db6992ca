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
    """The directory that is to be made.

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
    def groups(self) -> tuple[tuple[str, Copied], ...]:
        """The groups that can be seeded, each with the name that it will have."""
        copies = seedable(self.manifest)
        return tuple((self.group or copied.name, copied) for copied in copies)


def seedable(manifest: Manifest) -> tuple[Copied, ...]:
    """The copies of which a node's store can be made."""
    return tuple(each for each in manifest.copies if isinstance(tools_of(each).seed, Seeding))


def _seeding_of(copied: Copied) -> Seeding:
    found = tools_of(copied).seed
    assert isinstance(found, Seeding)  # `seedable`
    return found


def check_fit(seed: Seed, config: ClusterConfig) -> None:
    """Whether the cluster file has a position for it. Raises: ConfigError, one line per problem."""
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
    """Make the directory. Returns: the bytes copied. `check_free` has been called.

    Raises: CorruptLog: the backup is not what its manifest says. OSError. Either way no node starts
        there.
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
    """The new node's identity. What the old one knew of promotions goes along: it is about the log.

    The epochs of bytes that the copy does not have stay behind, and what the old node reported.
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
