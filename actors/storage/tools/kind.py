"""The tools of a mode: the values that its `StoreKind` names."""

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
from actors.storage.tools.commitlog.pending import Cursors, Pending
from actors.storage.tools.commitlog.truncate import Truncation
from actors.storage.tools.copying import BackedUp, Copied, Limit
from actors.storage.tools.findings import Report
from actors.storage.tools.stores import FoundStore

S = TypeVar("S", bound=FoundStore)


@attrs.frozen(kw_only=True)
class Seeding:
    """How a group's store is made from a backup.

    Attributes:
        problems: says why the group does not fit a cluster file, a line each; called with the file,
            the node, the group's name in the file, and the copy.
        copy: makes the store; called with the copy, its root in the backup, and the new root.
            Returns: the bytes copied.
    """

    problems: Callable[[ClusterConfig, str, str, Any], list[str]]
    copy: Callable[[Disk, Any, str, str], Work[int]]


@attrs.frozen(kw_only=True)
class StoreTools(Generic[S]):
    """The tools of a mode. A root is the absolute path of a store's folder.

    What takes long is `Work`, which may be ended at any step. All raise `ConfigError` for a user's
    mistake, `StorageError` for damage, and `OSError`.

    Attributes:
        find: describes the store at a root, without reading its files.
        check: checks the store, also against `options.copied`.
        dump: calls the function with the wanted records or entries as JSON lines, none from the
            limit on.
        pending: finds what a broker that is started on the store has to deliver and to ask about;
            records from the limit on do not count. A text instead: why the mode has none of it.
        stays_up_to: returns the limit for `dump` and `pending` up to which a running node's log
            does not change any more, unless it expires.
        stopped_limit: finds the log's end, as the next start would.
        running_limit: returns the end of a running node's copy; called with the group's status,
            None if the node does not answer, and the node's name.
        copy: copies the log up to the limit into a root.
        parse_copy: makes the result of `copy` from a manifest's entry. Raises the errors in
            `identity.UNREADABLE`.
        truncate: prepares to cut off the log's end; called with the new end, the number of hash
            slots, and the node's directory. A text instead: why the mode has no truncation.
        seed: makes a store from a backup. A text instead: why the mode has no seeding.
    """

    find: Callable[[Disk, str, Identity | None], S]
    check: Callable[[Disk, S, CheckOptions], Work[Report]]
    dump: Callable[[Disk, S, Wanted, Callable[[bytes], object], int | None], Work[Dumped]]
    pending: Callable[[Disk, S, Cursors, int | None], Work[Pending]] | str
    stays_up_to: Callable[[Disk, S], int]
    stopped_limit: Callable[[Disk, S], Work[Limit]]
    running_limit: Callable[[Disk, S, GroupStatus | None, str], Limit]
    copy: Callable[[Disk, S, str, Any, BackedUp], Work[Copied]]
    parse_copy: Callable[[Any], Copied]
    truncate: Callable[[Env, S, int, int | None, str | None], Work[Truncation]] | str
    seed: Seeding | str
