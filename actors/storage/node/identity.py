"""A node's data directory: whose it is, how often it was started, and its locks.

`DATA_DIR/NODE/identity.json`, replaced as a whole, on a full disk too (see `replacing`):

| Key | Type | Meaning |
|---|---|---|
| format_version | int | of the whole directory; a newer one is refused |
| cluster, node | str | whose directory it is; another's is refused |
| groups | list of str | the groups with a store here, also former ones |
| boot | int | raised and synced at every start, before the first event of that boot |
| settings | object | the settings of the last start, key path -> value as text |
| records | object | group -> what it must remember, see `GroupRecord`; one that is missing is new |
| votes | list of str | DLedger groups whose `currterm` was on the disk: one without is not new |
| membership | object | DLedger group -> what the node's vote in it is worth, see `Membership` |
| ledgers | object | DLedger group -> its members and store as it began, see `LedgerShape` |

`DATA_DIR/NODE/lock` is held while the node runs, and `lock` in each store root too, as a Java
broker holds it, so that neither starts on the other's files.

What the node's part in a DLedger group began with no cluster file changes silently. Two lists of
members may each have a majority, and what one acknowledges the other never sees; a member whose
store is of another kind begins empty and votes all the same. Each machine may have a cluster file
of its own, so a node remembers both since the first start that came to a vote.

There is no upstream: a broker believes its configuration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack, closing, suppress
from typing import Any, Final

import attrs

from actors.config import DLedgerGroup
from actors.config.bounds import NAME
from actors.env.path_kinds import check_kinds, is_bare, is_folder, wrong_kinds
from actors.env.protocols import Disk, FileLock, LockedByOther, LockedByUs, process_text
from actors.epochs import Epoch
from actors.errors import ConfigError
from actors.log_types import Forgot, GroupRecord, Membership
from actors.storage.files.replacing import Replaced, replace_file, settle_spares, spare_path
from actors.storage.files.whole_files import read_bytes
from actors.storage.layout import StoreLayout
from actors.storage.node import event_files
from wire.api.frames import NUMBER_MAX, POSITION_MAX

GUIDE = "(OPERATING.md, Another member)"


@attrs.frozen(kw_only=True)
class LedgerShape:
    """The shape of one group's files, as the node remembers it.

    Attributes:
        members: sorted.
        store: "file" or "memory".
    """

    members: tuple[str, ...]
    store: str

    @staticmethod
    def of(group: DLedgerGroup) -> LedgerShape:
        return LedgerShape(members=group.members, store=group.store)

    @staticmethod
    def parse(found: Any) -> LedgerShape:
        """Raises: what is in `identity.UNREADABLE`."""
        members = found["members"]
        if not isinstance(members, list):
            raise ValueError("members is no list")
        return LedgerShape(
            members=tuple(sorted(str(member) for member in members)), store=str(found["store"])
        )


def next_shapes(
    groups: Iterable[DLedgerGroup],
    known: Mapping[str, LedgerShape],
    begun: Collection[str],
    *,
    source: str,
    identity: str,
) -> dict[str, LedgerShape]:
    """The shapes that have to be saved from this start on.

    Args:
        known: what is remembered.
        begun: groups of which there is a vote; what is known of others binds nobody.
        source, identity: paths of the cluster file and of what remembers, for people.

    Raises: ConfigError: a group is not what it was, and its file does not say that this is meant.
    """
    problems: list[str] = []
    shapes = dict(known)
    for group in groups:
        was = known.get(group.name) if group.name in begun else None
        if was is not None:
            problems += _problems(group, was, source or "the configuration", identity)
        shapes[group.name] = LedgerShape.of(group)
    if problems:
        raise ConfigError(tuple(problems))
    return shapes


def _problems(group: DLedgerGroup, was: LedgerShape, source: str, identity: str) -> list[str]:
    key, began = f"{source}: key groups.{group.name}", f"with which this node began ({identity})"
    found = []
    if was.members not in (group.members, tuple(sorted(group.members_before))):
        found.append(
            f"{key}.members: expected {', '.join(was.members)}, {began}, found"
            f" {', '.join(group.members)}: with two lists of members acknowledged entries are lost."
            f" Put it back; {_meant(group, was)} {GUIDE}"
        )
    if was.store != group.store:
        found.append(
            f'{key}.store: expected "{was.store}", {began}, found "{group.store}": it would forget'
            " what it has acknowledged; put it back, or name the group anew"
        )
    return found


def _meant(group: DLedgerGroup, was: LedgerShape) -> str:
    """How a change is made on purpose."""
    if len(set(was.members) ^ set(group.members)) > 1:
        return (
            "members change one at a time; if this node began with a wrong list, its entries are no"
            " part of the group"
        )
    return (
        "if the change is meant, stop all nodes and say in every file"
        f" members_before = {_list(was.members)}"
    )


def _list(names: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


FORMAT_VERSION: Final = 1
IDENTITY_BYTES_MAX: Final = 8 << 20
"""64 groups with 256 epochs each are 4 MB."""
RAW_BYTES_MAX: Final = 16 << 20
BOOTS_MISSED_MAX: Final = 1 << 32
"""A start each second for 136 years."""
# What a Java broker writes into its own lock file; an empty one would look foreign to operators.
LOCK_NAME: Final = "lock"
LOCK_CONTENT: Final = b"lock"


# What `json_object` and a look at its result raise for bytes that somebody else wrote:
# RecursionError for brackets in brackets, OverflowError for a number without end.
UNREADABLE: Final = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
    OverflowError,
)


def json_object(data: bytes) -> dict[str, Any]:
    """Decode a JSON object.

    Raises:
        ValueError, RecursionError: the bytes are something else.
    """
    return _object(json.loads(data))


def unlike(error: Exception) -> str:
    """Describe an error of UNREADABLE for people: what is wrong with the content of a file."""
    match error:
        case KeyError():
            return f"it has no {error}"
        case json.JSONDecodeError():
            return f"it is no JSON: {error}"
        case UnicodeDecodeError():
            return "it is no JSON: these bytes are no text"
        case RecursionError():
            return "it has too many brackets in brackets"
        case TypeError() | AttributeError() | OverflowError():
            return "a value in it is of another kind than has to be there"
        case _:
            return str(error)


def setting_in(settings: Mapping[str, str], key: str) -> Any:
    """Return a remembered setting; None if there is none, or it is no JSON."""
    try:
        return json.loads(settings.get(key, "null"))
    except UNREADABLE:
        return None


NEW_RECORD: Final = GroupRecord(forgot="all")
"""The record of a group that the node has never been in, as far as it knows."""
FORGOT: Final[Mapping[object, Forgot]] = {"": "", "log": "log", "all": "all"}


def identity_path(directory: str) -> str:
    """The path of a node's identity file."""
    return f"{directory}/identity.json"


def events_path(directory: str) -> str:
    """The path of a node's event log."""
    return f"{directory}/events"


def may_be_group(name: str) -> bool:
    """Whether a name in `groups/` can be a group's; what others put there is left alone."""
    return re.fullmatch(NAME.pattern, name) is not None


def kind_problems(
    disk: Disk, path: str, groups: Iterable[str], *, sockets: Iterable[str] = ()
) -> tuple[str, ...]:
    """What of a node's directory is not of the kind that a start expects, a line each.

    Args: sockets: files that it listens on. Raises: OSError.
    """
    layouts = [StoreLayout(f"{path}/groups/{group}") for group in groups]
    events = (events_path(path), f"{events_path(path)}/{event_files.FORMAT}")
    return wrong_kinds(
        disk,
        folders=(path, f"{path}/groups", *events, *(f for each in layouts for f in each.folders)),
        files=(
            identity_path(path),
            spare_path(identity_path(path)),
            f"{path}/lock",
            *(file for each in layouts for file in each.files),
        ),
        sockets=sockets,
    )


@attrs.frozen(kw_only=True)
class Identity:
    """What `identity.json` says. See the module's table."""

    format_version: int
    cluster: str
    node: str
    groups: tuple[str, ...]
    boot: int
    settings: Mapping[str, str]
    records: Mapping[str, GroupRecord] = attrs.Factory(dict)
    votes: tuple[str, ...] = ()
    membership: Mapping[str, Membership] = attrs.Factory(dict)
    ledgers: Mapping[str, LedgerShape] = attrs.Factory(dict)


@attrs.define
class NodeDirectory:
    """The directory of a running node. `close` releases the locks.

    Attributes:
        path: absolute.
        identity: as it was written last, or is going to be by `update_beside`.
    """

    path: str
    identity: Identity
    _file: Replaced
    _locks: ExitStack

    @property
    def boot(self) -> int:
        """Number of this start, from 1."""
        return self.identity.boot

    def record(self, group: str) -> GroupRecord:
        """The saved record of a group."""
        return self.identity.records.get(group, NEW_RECORD)

    def update(self, group: str, record: GroupRecord) -> None:
        """Remember this of a group instead; it is synced when this returns.

        Raises: NoRoom: nothing has changed. Another OSError: then either may be found at the next
            start.
        """
        self._replace(records={**self.identity.records, group: record})

    async def update_beside(self, group: str, record: GroupRecord) -> None:
        """As `update`, beside the loop: of what nobody relies on yet, so the next may write it."""
        records = {**self.identity.records, group: record}
        self.identity = attrs.evolve(self.identity, records=records)
        await self._file.replace_beside(lambda: _encoded(self.identity))

    def has_voted(self, group: str) -> bool:
        """Whether a term and vote of that DLedger group were ever on the disk."""
        return group in self.identity.votes

    def membership(self, group: str) -> Membership | None:
        """What the node's vote in a DLedger group is worth, as noted last; None: not yet."""
        return self.identity.membership.get(group)

    def note_member(self, group: str, membership: Membership) -> None:
        """Term and vote are on the disk now, and that is what the vote is worth. It is synced when
        this returns. Raises: OSError, as `update`.
        """
        self._replace(
            votes=tuple(dict.fromkeys((*self.identity.votes, group))),
            membership={**self.identity.membership, group: membership},
        )

    def _replace(self, **changes: Any) -> None:
        identity = attrs.evolve(self.identity, **changes)
        self._file.replace(_encoded(identity))
        self.identity = identity

    def close(self) -> None:
        """Release the locks; harmless when closed. What is late is written first, if it can be."""
        self._file.close()
        if self._file.is_late:
            with suppress(OSError):
                self._file.replace(_encoded(self.identity))
        self._locks.close()


def open_directory(
    disk: Disk,
    path: str,
    *,
    cluster: str,
    node: str,
    groups: Iterable[str],
    settings: Mapping[str, str],
    ledgers: Iterable[DLedgerGroup] = (),
    source: str = "",
) -> NodeDirectory:
    """Take a node's directory: lock it, check whose it is, raise and sync the boot number.

    A directory that does not exist, or is empty, becomes the node's.

    Args:
        ledgers: those of the groups that are DLedger's.
        source: the cluster file, for people.

    Raises:
        ConfigError: locked by another process or by this one; another node's or cluster's; of a
            newer format; no identity in a directory with data; an identity that cannot be read; a
            file where a folder has to be, or the other way round; a DLedger group that began with
            other members or another kind of store.
        OSError: the disk's fault.
    """
    groups = tuple(groups)
    if problems := kind_problems(disk, path, groups):
        raise ConfigError(problems)
    disk.mkdir(path)
    with ExitStack() as locks:
        locks.callback(hold_lock(disk, f"{path}/lock", path).release)
        found = own_identity(disk, path, cluster, node)
        known = found.groups if found is not None else ()
        identity = Identity(
            format_version=FORMAT_VERSION,
            cluster=cluster,
            node=node,
            groups=tuple(dict.fromkeys((*known, *groups))),
            boot=1 + _last_boot(disk, path, node, found.boot if found is not None else 0),
            settings=dict(settings),
            records=found.records if found is not None else {},
            votes=found.votes if found is not None else (),
            membership=found.membership if found is not None else {},
            ledgers=next_shapes(
                ledgers,
                found.ledgers if found is not None else {},
                found.votes if found is not None else (),
                source=source,
                identity=identity_path(path),
            ),
        )
        for group in groups:
            layout = StoreLayout(f"{path}/groups/{group}")
            disk.mkdir(layout.root)
            locks.callback(hold_lock(disk, layout.lock, layout.root).release)
        settle_spares(disk, path)
        replace_file(disk, identity_path(path), _encoded(identity))
        held = locks.pop_all()
    return NodeDirectory(path, identity, Replaced(disk, identity_path(path)), held)


def read_identity(disk: Disk, path: str) -> Identity | None:
    """What a directory says of itself; None if it says nothing.

    Raises: ConfigError if its identity cannot be read.
    """
    file_path = identity_path(path)
    check_kinds(disk, folders=(), files=(file_path,))
    if not disk.exists(file_path):
        return None
    data = read_bytes(disk, file_path, IDENTITY_BYTES_MAX)
    try:
        return _parse(json_object(data))
    except UNREADABLE as error:
        raise ConfigError(
            f"{file_path}: expected a node's identity, found {data[:40]!r} ({unlike(error)})"
        ) from error


def read_raw_identity(disk: Disk, node_dir: str) -> dict[str, Any]:
    """All keys of a node's identity.json, also those that this version does not know."""
    found: dict[str, Any] = json.loads(read_bytes(disk, identity_path(node_dir), RAW_BYTES_MAX))
    return found


def high_water(identity: Mapping[str, Any], group: str) -> dict[str, int]:
    """What a node's identity (as it lies in the file) says was acknowledged or reported."""
    record = identity.get("records", {}).get(group, {})
    offset = record.get("high_water_bytes", 0)
    return {"the node's identity": offset} if offset else {}


def _object(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found


def _parse(found: dict[str, Any]) -> Identity:
    version = found["format_version"]
    if not isinstance(version, int):
        raise ValueError("format_version is no number")
    if version > FORMAT_VERSION:
        # Its other keys may mean anything: enough is known to refuse it by name.
        return Identity(format_version=version, cluster="", node="", groups=(), boot=0, settings={})
    return Identity(
        format_version=version,
        cluster=str(found["cluster"]),
        node=str(found["node"]),
        groups=tuple(str(group) for group in found["groups"]),
        boot=_number(found, "boot"),
        settings={str(key): str(value) for key, value in found["settings"].items()},
        records={
            str(group): _parse_record(record) for group, record in found.get("records", {}).items()
        },
        votes=tuple(str(group) for group in found.get("votes", ())),
        membership={
            str(group): Membership(each) for group, each in found.get("membership", {}).items()
        },
        ledgers={
            str(group): LedgerShape.parse(_object(shape))
            for group, shape in found.get("ledgers", {}).items()
        },
    )


def seeding_path(directory: str) -> str:
    """The path of the identity file until a seed has made all the rest."""
    return f"{identity_path(directory)}.seeding"


def _parse_record(found: Any) -> GroupRecord:
    return GroupRecord(
        promotion_number=_number(found, "promotion_number"),
        promotion_master=str(found["promotion_master"]),
        history=tuple(
            Epoch(
                number=_number(epoch, "number"),
                token=_number(epoch, "token", POSITION_MAX),
                master=str(epoch["master"]),
                start_bytes=_number(epoch, "start_bytes", POSITION_MAX),
            )
            for epoch in found["history"]
        ),
        high_water_bytes=_number(found, "high_water_bytes", POSITION_MAX),
        cut_bytes=(
            None if found.get("cut_bytes") is None else _number(found, "cut_bytes", POSITION_MAX)
        ),
        forgot=_forgot(found.get("forgot", "")),
        forced_number=_number(found, "forced_number") if "forced_number" in found else 0,
    )


def _forgot(found: object) -> Forgot:
    if found not in FORGOT:
        raise ValueError(f"forgot is {found!r}, none of {', '.join(map(repr, FORGOT))}")
    return FORGOT[found]


def _number(where: dict[str, Any], key: str, most: int = NUMBER_MAX) -> int:
    found = where[key]
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= most:
        raise ValueError(f"{key} is {found!r}, no number from 0 to {most}")
    return found


def own_identity(disk: Disk, path: str, cluster: str, node: str) -> Identity | None:
    """What a directory says of itself, as `read_identity`, if a start of this node takes it.

    Raises: ConfigError: it does not: another's, cut short, or of a newer version.
    """
    found = read_identity(disk, path)
    if found is None:
        if disk.exists(seeding_path(path)):
            raise ConfigError(
                f"{path}: expected a node, found a seed that was cut short: run `seed` again"
            )
        if _holds_data(disk, path):
            raise ConfigError(
                f"{path}: expected identity.json beside the groups' data, found none; "
                "restore it, or give the node another data_dir"
            )
        return None
    if found.format_version > FORMAT_VERSION:
        raise ConfigError(
            f"{path}: expected format {FORMAT_VERSION} or older, found {found.format_version}: "
            "it was written by a newer version"
        )
    if (found.cluster, found.node) != (cluster, node):
        raise ConfigError(
            f"{path}: expected the data of node {node!r} of cluster {cluster!r}, "
            f"found that of node {found.node!r} of cluster {found.cluster!r}"
        )
    return found


def _last_boot(disk: Disk, path: str, node: str, known: int) -> int:
    """The last start, also by the events here: without an identity, or with an older copy of one,
    its number would be given again, and files of the same name replaced. What no starts can have
    come to since the last known one is no file of ours: there would soon be no number for a start.
    """
    found = event_files.last_boot(disk, events_path(path), node, most=known + BOOTS_MISSED_MAX)
    return max(known, found)


def _holds_data(disk: Disk, path: str) -> bool:
    """Whether a group has more than empty folders and its lock, which a killed start leaves too."""
    groups = f"{path}/groups"
    return any(
        name != LOCK_NAME and not is_bare(disk, f"{groups}/{group}/{name}")
        for group in filter(may_be_group, disk.listdir(groups))
        for name in _names(disk, groups, group)
    )


def _names(disk: Disk, groups: str, group: str) -> list[str]:
    folder = f"{groups}/{group}"
    return disk.listdir(folder) if is_folder(disk, folder) else [group]


def lock_file(disk: Disk, path: str) -> FileLock:
    """Lock a file, made where it is missing. Raises: LockedByUs, LockedByOther; OSError."""
    if not disk.exists(path):
        # Written before it is locked: closing any handle of the file would release the lock.
        with closing(disk.open(path, "x")) as file:
            file.pwrite(LOCK_CONTENT, 0)
    return disk.lock(path)


def hold_lock(disk: Disk, lock_path: str, what: str) -> FileLock:
    """Take the lock of `what`. Raises: ConfigError: it is in use. OSError."""
    try:
        return lock_file(disk, lock_path)
    except LockedByUs as error:
        raise ConfigError(f"{what}: is in use by this process already") from error
    except LockedByOther as error:
        raise ConfigError(f"{what}: is in use by {process_text(error.pid)}") from error


def _encoded(identity: Identity) -> bytes:
    return json.dumps(attrs.asdict(identity), indent=2, sort_keys=True).encode() + b"\n"
