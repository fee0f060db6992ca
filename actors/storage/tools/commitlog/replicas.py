"""What the store of an auto-switch group's replica has beside a classic one, for the tools: the
history of its log, and which replica of its broker set it is.

A dump of such a store begins with a line for the store; each line behind it is a record's, as of a
classic one, with one key more.

| Key | Type | Meaning |
|---|---|---|
| replica | str | in the first line: CLUSTER#NAME#ID, as the identity's file says; "" without one |
| confirm_offset | int | in the first line: as the checkpoint says |
| epochs | list | in the first line: for each, `epoch` and `start`, the offset where it begins |
| epoch | int | of a record: in which it was written; null where the history is not believed |

A copy has the epochs of its bytes, and no identity: a store that is made of it is a further
replica, which asks its controllers for an id of its own, and counts in no sync state set before it
has what the set has. With the id of the replica that was copied it could be elected without what
that one acknowledged since. Its id stands in the manifest, for people.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from typing import Any, ClassVar

import attrs
import msgspec

from actors import epochs
from actors.config import ClusterConfig
from actors.env.protocols import Disk, Env
from actors.epochs import History
from actors.errors import StorageError
from actors.readable import counted, readable_json
from actors.storage.commitlog.epoch_store import EpochStore, record_begins
from actors.storage.derived.small_files import read_checkpoint
from actors.storage.files.stepping import Work
from actors.storage.files.whole_files import read_bytes, sync_folder_of, write_synced
from actors.storage.layout import AutoSwitchLayout
from actors.storage.log.log_reader import LogReader
from actors.storage.node.identity import read_raw_identity
from actors.storage.tools.commitlog.backup import copy_group, seed_group
from actors.storage.tools.commitlog.check import CheckOptions, check_classic
from actors.storage.tools.commitlog.dump import Dumped, Wanted, dump_store
from actors.storage.tools.commitlog.truncate import Truncation, prepare_truncation
from actors.storage.tools.copying import BackedUp, BackedUpGroup, Limit
from actors.storage.tools.findings import Findings, ReplicaReport
from actors.storage.tools.stores import ReplicaStore, log_bases
from wire.errors import RemoteProtocolError
from wire.files.broker_identity import FILE_BYTES_MAX as IDENTITY_BYTES_MAX
from wire.files.broker_identity import BrokerIdentity, decode_identity
from wire.files.epoch_file import (
    FILE_BYTES_MAX,
    EpochStart,
    decode_epoch_file,
    encode_epoch_file,
)


def _begins(disk: Disk, store: ReplicaStore, end_bytes: int) -> Callable[[int], bool]:
    """Return whether a record begins at an offset. What cannot be read is found elsewhere."""

    def begins(offset_bytes: int) -> bool:
        with closing(LogReader(disk, store.layout.commit_log, store.segment_bytes)) as reader:
            try:
                return record_begins(reader, end_bytes)(offset_bytes)
            except OSError:
                return True

    return begins


def _look(disk: Disk, store: ReplicaStore, first_bytes: int, end_bytes: int) -> EpochStore:
    """Return the history of a log with this range, as a start would believe it."""
    begins = _begins(disk, store, end_bytes)
    return EpochStore.look(disk, store.layout, first_bytes, end_bytes, begins)


def _numbered(history: History) -> tuple[EpochStart, ...]:
    """The epochs of a history as its file has them, without epoch 0."""
    return tuple(EpochStart(each.number, each.start_bytes) for each in history if each.number)


# ---- check ----


def check_replica(disk: Disk, store: ReplicaStore, options: CheckOptions) -> Work[ReplicaReport]:
    """Check one store as a classic one, its epochs, and its identity. Raises: as `check_store`."""
    report = ReplicaReport(group=store.name)
    yield from check_classic(disk, store, options, report)
    _check_epochs(disk, store, options, report)
    report.replica = _check_identity(disk, store, options, report.findings)
    if not options.is_backup:
        report.confirmed_bytes = read_checkpoint(disk, store.layout.checkpoint).confirm_offset
    return report


def _check_epochs(
    disk: Disk, store: ReplicaStore, options: CheckOptions, report: ReplicaReport
) -> None:
    path, findings, end = store.layout.epochs, report.findings, report.end_bytes
    kept = _look(disk, store, report.first_bytes, end)
    said, wrong = _read_epochs(disk, path)
    held = _numbered(kept.history)
    report.epochs, report.last_epoch = len(held), held[-1].epoch if held else 0
    if kept.problem:
        findings.hurt(
            f"{kept.problem}{wrong and f': {wrong}'}; what lies behind {kept.known_bytes} is not"
            " believed, and this replica cannot become master before its master's bytes are there"
        )
    elif wrong:
        findings.mend(f"{path}: {wrong}; what is known says as much")
    else:
        begins = _begins(disk, store, end)
        for each in said:
            if report.first_bytes < each.offset < end and not begins(each.offset):
                findings.hurt(
                    f"{path}: epoch {each.epoch} begins at {each.offset}, where no record begins"
                )
    behind = [each for each in said if each.offset > end]
    if behind and not options.is_running:
        findings.note(
            f"{path}: epoch {behind[0].epoch} begins at {behind[0].offset}, behind the log's end,"
            f" {end}: the next start drops it"
        )
    copied = options.copied
    if isinstance(copied, BackedUpReplica) and said != copied.starts:
        findings.hurt(f"{path}: expected the {len(copied.epochs)} epochs of the manifest")


def _read_epochs(disk: Disk, path: str) -> tuple[tuple[EpochStart, ...], str]:
    """Return the epochs of a file, () without one, and what is wrong with it, "" if nothing is."""
    if not disk.exists(path):
        return (), ""
    try:
        return decode_epoch_file(read_bytes(disk, path, FILE_BYTES_MAX + 1)), ""
    except RemoteProtocolError as error:
        return (), str(error)


def _check_identity(
    disk: Disk, store: ReplicaStore, options: CheckOptions, findings: Findings
) -> str:
    """Check the file that a start reads. Returns: its text; "": there is none."""
    path, data = _identity_file(disk, store)
    if not data:
        return ""
    try:
        found = decode_identity(data)
    except RemoteProtocolError as error:
        findings.hurt(f"{path}: {error}: a start is refused")
        return ""
    if options.is_backup:
        findings.hurt(f"{path}: a copy must not have it: two stores could run with one id")
    if options.node_dir is not None:
        cluster = read_raw_identity(disk, options.node_dir)["cluster"]
        if (found.cluster, found.broker) != (cluster, store.name):
            findings.hurt(
                f"{path}: it is of replica {found.broker_id} of broker set {found.broker} of"
                f" cluster {found.cluster}, not of {store.name} of {cluster}: a start is refused"
            )
    return _text(found)


def _identity_file(disk: Disk, store: ReplicaStore) -> tuple[str, bytes]:
    """Return path and content of the file that a start reads; ("", b"") without one."""
    layout = store.layout
    for path in (layout.broker_identity, layout.wanted_identity):
        if disk.exists(path) and (data := read_bytes(disk, path, IDENTITY_BYTES_MAX)):
            return path, data
    return "", b""


def _text(identity: BrokerIdentity) -> str:
    return f"{identity.cluster}#{identity.broker}#{identity.broker_id}"


def _replica_of(disk: Disk, store: ReplicaStore) -> str:
    """Return which replica the store is of, as `ReplicaReport.replica`; "": nothing says it."""
    _, data = _identity_file(disk, store)
    try:
        return _text(decode_identity(data)) if data else ""
    except RemoteProtocolError:
        return ""


# ---- dump ----


def dump_replica(
    disk: Disk,
    store: ReplicaStore,
    wanted: Wanted,
    write: Callable[[bytes], object],
    limit: int | None = None,
) -> Work[Dumped]:
    """Dump the store's line, then the records. Args, Raises: as `dump_store`."""
    bases = log_bases(disk, store)
    first, end = (bases[0], bases[-1] + store.segment_bytes) if bases else (0, 0)
    kept = _look(disk, store, first, end if limit is None else min(limit, end))
    starts = [each.start_bytes for each in kept.history]

    def epoch_of(offset: int) -> dict[str, Any]:
        at = bisect_right(starts, offset) - 1
        is_known = at >= 0 and (kept.known_bytes is None or offset < kept.known_bytes)
        return {"epoch": kept.history[at].number if is_known else None}

    head = {
        "replica": _replica_of(disk, store),
        "confirm_offset": read_checkpoint(disk, store.layout.checkpoint).confirm_offset,
        "epochs": [{"epoch": each.epoch, "start": each.offset} for each in _numbered(kept.history)],
    }
    write(readable_json(msgspec.json.encode(head)) + b"\n")
    done = yield from dump_store(disk, store, wanted, write, limit, epoch_of)
    if kept.problem:
        done.problems.append(kept.problem)
    return done


# ---- truncate ----


def prepare_replica_truncation(
    env: Env, store: ReplicaStore, offset: int, index_slots: int | None, node_dir: str | None
) -> Work[Truncation]:
    """Prepare a truncation of a log and its history. Args, Raises: as `prepare_truncation`."""
    found = yield from prepare_truncation(env, store, offset, index_slots, node_dir)
    return attrs.evolve(found, carry_out=partial(_truncate, env.disk, store, found))


def _truncate(
    disk: Disk, store: ReplicaStore, found: Truncation
) -> Generator[Any, None, str | None]:
    """Cut the log, then the history: killed between the two, the next start drops its end."""
    kept = yield from found.carry_out()
    first, end = found.plan.first_bytes, found.plan.offset
    begins = _begins(disk, store, end)
    EpochStore.open(disk, store.layout, first, end, begins).cut(end)
    return kept


# ---- backup and seed ----


@attrs.frozen(kw_only=True)
class BackedUpReplica:
    """The copy of an auto-switch group's replica.

    Attributes:
        log: the copy of its log, as of a classic group.
        epochs: number and first offset of each epoch that the copy has bytes of.
        replica: which replica it was, CLUSTER#NAME#ID; "": it had no id. The copy has no identity.
    """

    mode: ClassVar = "autoswitch"
    log: BackedUpGroup
    epochs: tuple[tuple[int, int], ...]
    replica: str

    @property
    def name(self) -> str:
        """The name of the group."""
        return self.log.name

    @property
    def starts(self) -> tuple[EpochStart, ...]:
        """The epochs as the epoch file has them."""
        return tuple(EpochStart(*each) for each in self.epochs)

    @property
    def line(self) -> str:
        """A line about what was copied, for people."""
        return (
            f"{self.log.line}, {counted(len(self.epochs), 'epoch')}; of replica"
            f" {self.replica or 'without an id'}: what is made of the copy is another one"
        )

    @staticmethod
    def parse(found: Any) -> BackedUpReplica:
        """Parse a manifest's entry. Raises: what is in `identity.UNREADABLE`."""
        return BackedUpReplica(
            log=BackedUpGroup.parse(found["log"]),
            epochs=msgspec.convert(found["epochs"], tuple[tuple[int, int], ...]),
            replica=str(found["replica"]),
        )


def copy_replica(
    disk: Disk, store: ReplicaStore, root: str, limit: Limit, done: BackedUp
) -> Work[BackedUpReplica]:
    """Copy the log and the history of its bytes into a store root of a backup.

    Raises: as `copy_group`. StorageError: the history is not believed, or changed meanwhile.
    """
    before = _history_below(disk, store, limit.end_bytes)
    log = yield from copy_group(disk, store, root, limit, done)
    history = epochs.cut(epochs.expire(before, log.first_bytes), log.end_bytes)
    after = _history_below(disk, store, log.end_bytes)
    if _numbered(history) != _numbered(epochs.expire(after, log.first_bytes)):
        raise StorageError(f"{store.name}: its epochs changed while it was copied: run it again")
    starts = _numbered(history)
    _write_epochs(disk, AutoSwitchLayout(root), starts)
    return BackedUpReplica(
        log=log,
        epochs=tuple((each.epoch, each.offset) for each in starts),
        replica=_replica_of(disk, store),
    )


def _history_below(disk: Disk, store: ReplicaStore, end_bytes: int) -> History:
    bases = log_bases(disk, store)
    kept = _look(disk, store, bases[0] if bases else 0, end_bytes)
    if kept.problem:
        raise StorageError(
            f"{kept.problem}: of which epochs the bytes behind {kept.known_bytes} are is not known,"
            " so no copy is made; a start that follows the set's master mends it"
        )
    return epochs.cut(kept.history, end_bytes)


def _write_epochs(disk: Disk, layout: AutoSwitchLayout, starts: tuple[EpochStart, ...]) -> None:
    if starts:
        write_synced(disk, layout.epochs, encode_epoch_file(starts))
    elif disk.exists(layout.epochs):  # it was left by a run that was interrupted
        disk.unlink(layout.epochs)
        sync_folder_of(disk, layout.epochs)


def replica_seed_problems(
    config: ClusterConfig, node: str, name: str, copied: BackedUpReplica
) -> list[str]:
    """Say why a copy does not fit the group `name` of the cluster file, one line per problem."""
    found, key = config.groups.get(name), f"{config.path}: key groups.{name}"
    if found is None or found.mode != copied.mode:
        return [f"{key}: expected the {copied.mode} group of the backup (or --group), found none"]
    problems = []
    if node not in found.members:
        problems.append(f"{key}.members: expected {node} among them, found it nowhere")
    size, configured = copied.log.segment_bytes, getattr(found, "segment_bytes", None)
    if size and configured != size:
        problems.append(
            f"{key}.segment_bytes: expected {size}, the size of the backup's files, found"
            f" {configured}"
        )
    return problems


def seed_replica(disk: Disk, copied: BackedUpReplica, source_root: str, root: str) -> Work[int]:
    """Make a store of a further replica from a copy. Returns: the bytes copied. Raises: as
    `seed_group`.
    """
    done = yield from seed_group(disk, copied.log, source_root, root)
    _write_epochs(disk, AutoSwitchLayout(root), copied.starts)
    return done
