"""Where the nodes of `--broker-conf` have their data: a broker's store, opened where it lies.

A store has our own of its node in `triolog/NODE/` below storePathRootDir, and there
`groups/GROUP` is a link back to the store. DATA_DIR is `triolog/` of the first file's store, and
has a link to each other node's folder. A store that was never ours, or is a copy made by `follow`,
gets the identity of a node that knows nothing, so that what a broker wrote there is judged as any
newcomer's before it is believed.

Nothing of a broker's is written, moved or removed here. Upstream has none of this.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from actors.config import ClusterConfig
from actors.config.brokerconf import StoreFolders
from actors.env.protocols import Disk
from actors.errors import ConfigError
from actors.follow.folder import OWN_FOLDER
from actors.storage.files.whole_files import write_synced
from actors.storage.layout import StoreLayout
from actors.storage.node.identity import FORMAT_VERSION, identity_path


def prepare_stores(
    disk: Disk, config: ClusterConfig, stores: Sequence[StoreFolders], nodes: Sequence[str]
) -> None:
    """Make what the nodes need to open their stores. What is there already stays as it is.

    Raises:
        ConfigError: something else is in a link's place; the user's to look at.
        OSError.
    """
    for store in stores:
        if store.node in nodes:
            try:
                _prepare(disk, config, store)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                where = error.filename or store.root
                raise ConfigError(
                    f"{where}: expected a folder for the store of {store.node}, found {reason}"
                ) from error


def _prepare(disk: Disk, config: ClusterConfig, store: StoreFolders) -> None:
    for folder in (store.root, store.commit_log, f"{store.own}/groups"):
        disk.mkdir(folder)
    if store.commit_log != store.default_commit_log:
        _link(disk, store.default_commit_log, store.commit_log, "storePathCommitLog")
    up = os.path.relpath(store.root, f"{store.own}/groups")
    _link(disk, f"{store.own}/groups/{store.group}", up, "storePathRootDir")
    if config.node_dir(store.node) != store.own:
        disk.mkdir(config.data_dir)
        _link(disk, config.node_dir(store.node), store.own, "storePathRootDir")
    if _was_never_ours(disk, store):
        _adopt(disk, config.name, store)


def _link(disk: Disk, path: str, target: str, key: str) -> None:
    """A link at `path`, or nothing if it is there. Raises: ConfigError: it leads elsewhere."""
    folder = os.path.dirname(path)
    wanted = os.path.realpath(os.path.join(folder, target))
    try:
        os.symlink(target, path)
    except FileExistsError:
        if os.path.realpath(path) != wanted:
            what = f"a link to {os.path.realpath(path)}" if os.path.islink(path) else "something"
            raise ConfigError(
                f"{path}: expected nothing, or a link to {wanted} ({key}), found {what}: move it"
                " away if it is of no use any more"
            ) from None
    else:
        disk.sync_dir(folder)


def _was_never_ours(disk: Disk, store: StoreFolders) -> bool:
    """Whether nothing of a node's is there. Where only identity.json is missing, its start refuses.

    A copy that `follow` made was a broker's, too: what is beside its log is no node's.
    """
    layout = StoreLayout(store.root)
    ours = [identity_path(store.own)]
    if not disk.exists(identity_path(f"{store.root}/{OWN_FOLDER}")):
        ours += [layout.synced, layout.dispatched]
    return not any(map(disk.exists, ours))


def _adopt(disk: Disk, cluster: str, store: StoreFolders) -> None:
    """The node's identity beside a store that it has never had, empty or a broker's."""
    identity = {
        "format_version": FORMAT_VERSION,
        "cluster": cluster,
        "node": store.node,
        "groups": [store.group],
        "boot": 0,
        "settings": {},
    }
    write_synced(disk, identity_path(store.own), json.dumps(identity, indent=2).encode() + b"\n")
