"""What the tools need of a mode; its `StoreKind` has the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

from actors.config import ClusterConfig
from actors.env.protocols import Disk, Env
from actors.group_status import GroupStatus
from actors.storage.files.stepping import Work
from actors.storage.node.identity import Identity
from actors.storage.tools.commitlog.check import CheckOptions
from actors.storage.tools.commitlog.dump import Dumped, Wanted
from actors.storage.tools.commitlog.truncate import Truncation
from actors.storage.tools.copying import BackedUp, Copied, Limit
from actors.storage.tools.findings import Report
from actors.storage.tools.stores import FoundStore

S = TypeVar("S", bound=FoundStore)


@attrs.frozen(kw_only=True)
class Seeding:
    """How a node's directory gets a group from a backup.

    Attributes:
        problems: where a cluster file has no position for it; given the file, the node, the group's
            name there, and what the backup has.
        copy: makes the store; given what the backup has, and its root there and here. Returns: the
            bytes copied.
    """

    problems: Callable[[ClusterConfig, str, str, Any], list[str]]
    copy: Callable[[Disk, Any, str, str], Work[int]]


@attrs.frozen(kw_only=True)
class StoreTools(Generic[S]):
    """The tools of a mode. A root is the absolute path of a store's folder.

    What takes long comes as `Work`, which may be ended at any of its steps. All of them raise
    `ConfigError` for a user's mistake, `StorageError` for damage, and `OSError`.

    Attributes:
        find: what is known of the store at a root without a look into its files.
        check: compares all that is there, with `options.copied` too.
        dump: gives the wanted records or entries to the function, as JSON lines; none from the
            limit on.
        stays_up_to: how far a running node's log never changes any more, but for what expires; as
            a limit of `dump`.
        stopped_limit: where the log ends, as the next start would find it.
        running_limit: where a running node's copy ends; given the group's status, None from a node
            that does not answer, and the node's name.
        copy: copies the log as far as the limit into a root.
        parse_copy: what `copy` gave, from a manifest. Raises what is in `identity.UNREADABLE`.
        truncate: prepares to cut the log's end off; given the new end, the hash slots of index
            files, and the directory of the node that it is of. A text: why there is none.
        seed: how a group comes from a backup. A text: why it never does.
    """

    find: Callable[[Disk, str, Identity | None], S]
    check: Callable[[Disk, S, CheckOptions], Work[Report]]
    dump: Callable[[Disk, S, Wanted, Callable[[bytes], object], int | None], Work[Dumped]]
    stays_up_to: Callable[[Disk, S], int]
    stopped_limit: Callable[[Disk, S], Work[Limit]]
    running_limit: Callable[[Disk, S, GroupStatus | None, str], Limit]
    copy: Callable[[Disk, S, str, Any, BackedUp], Work[Copied]]
    parse_copy: Callable[[Any], Copied]
    truncate: Callable[[Env, S, int, int | None, str | None], Work[Truncation]] | str
    seed: Seeding | str
