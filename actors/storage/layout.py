"""Where things lie in a store root.

Upstream: apache/rocketmq store/.../StorePathConfigHelper.java (5.3.3); openmessaging/dledger,
DLedgerConfig.java and MemberState.java (0.3.1.2), whose root is `<storeBaseDir>/dledger-<selfId>`.
In each class the names above the line are Java's, so that its broker or member finds them; those
below are ours, and Java neither reads nor removes them.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from wire.files import broker_identity, epoch_file


@attrs.frozen
class LogLayout:
    """The paths that the stores of classic groups and of DLedger groups have.

    Attributes:
        root: absolute path of the store root, `DATA_DIR/NODE/groups/GROUP`.
        LOG: name of the folder of the log's files.
    """

    LOG: ClassVar[str]
    root: str

    @property
    def commit_log(self) -> str:
        """Folder of the log's files."""
        return f"{self.root}/{self.LOG}"

    @property
    def index(self) -> str:
        return f"{self.root}/index"

    @property
    def checkpoint(self) -> str:
        return f"{self.root}/checkpoint"

    @property
    def lock(self) -> str:
        return f"{self.root}/lock"

    # ---- ours ----

    @property
    def synced(self) -> str:
        """Side file: the synced mark."""
        return f"{self.root}/synced"

    @property
    def truncating(self) -> str:
        """Side file: a truncation that has begun."""
        return f"{self.root}/truncating"

    @property
    def cut(self) -> str:
        """Folder: what was cut off the log."""
        return f"{self.root}/cut"

    @property
    def aside(self) -> str:
        """Folder: what a slave had and its master not, and what was mended. See `set_aside`."""
        return f"{self.root}/aside"


@attrs.frozen
class StoreLayout(LogLayout):
    """The paths of a classic group's store."""

    LOG = "commitlog"

    @property
    def consume_queue(self) -> str:
        return f"{self.root}/consumequeue"

    @property
    def config(self) -> str:
        """Folder: the broker's metadata, of a group with a `broker_port`. See `config_folder`."""
        return f"{self.root}/config"

    @property
    def topics(self) -> str:
        """In it the table of topics."""
        return f"{self.config}/topics.json"

    @property
    def abort(self) -> str:
        """While a store runs. Between its runs it is `abort.spare`, which is ours."""
        return f"{self.root}/abort"

    @property
    def epochs(self) -> str:
        """The epoch file of auto-switch HA."""
        return f"{self.root}/{epoch_file.FILE_NAME}"

    @property
    def epochs_before(self) -> str:
        """What Java's epoch file was before it was written last."""
        return f"{self.root}/{epoch_file.BACKUP_NAME}"

    # ---- ours ----

    @property
    def newest_epoch(self) -> str:
        """Side file: the newest epoch that the epoch file has. See `epoch_store`."""
        return f"{self.root}/newest_epoch"

    @property
    def dispatched(self) -> str:
        """Side file: how far the derived files surely reach."""
        return f"{self.root}/dispatched"

    @property
    def given_up(self) -> str:
        """Side file: what was deleted before it was dispatched. See `given_up`."""
        return f"{self.root}/given_up"

    @property
    def begun_anew(self) -> str:
        """Side file: where queues began anew. See `dispatch_state`."""
        return f"{self.root}/begun_anew"

    @property
    def queue_ends(self) -> str:
        """File: where the queues ended at an ordered stop. See `queue_ends`."""
        return f"{self.root}/queue_ends"

    @property
    def settings(self) -> str:
        """File: what operators changed while it ran. See `broker.changed_settings`."""
        return f"{self.root}/settings.json"

    @property
    def digests(self) -> str:
        """Folder: what the log's ranges were when they were written. See `digests`."""
        return f"{self.root}/digests"

    @property
    def folders(self) -> tuple[str, ...]:
        """All that are folders, the root first."""
        derived = (self.consume_queue, self.index, self.digests)
        return (self.root, self.commit_log, *derived, self.cut, self.aside)

    @property
    def files(self) -> tuple[str, ...]:
        """All that are files."""
        ours = (self.synced, self.dispatched, self.given_up, self.begun_anew, self.queue_ends)
        return (self.checkpoint, self.abort, self.lock, *ours, self.truncating)


@attrs.frozen
class AutoSwitchLayout(StoreLayout):
    """The paths of a replica's store, of an auto-switch group: those of a classic group's, its
    history, and which replica of the broker set it is.
    """

    @property
    def broker_identity(self) -> str:
        return f"{self.root}/{broker_identity.FILE_NAME}"

    @property
    def wanted_identity(self) -> str:
        """While an id is applied for."""
        return f"{self.root}/{broker_identity.TEMP_NAME}"

    @property
    def own_files(self) -> tuple[str, ...]:
        """The files that no classic group's store has."""
        epochs = (self.epochs, self.epochs_before, self.newest_epoch)
        return (*epochs, self.broker_identity, self.wanted_identity)

    @property
    def files(self) -> tuple[str, ...]:
        """All that are files."""
        return (*super().files, *self.own_files)


@attrs.frozen
class LedgerLayout(LogLayout):
    """The paths of a DLedger member's store."""

    LOG = "data"

    @property
    def term(self) -> str:
        return f"{self.root}/currterm"

    @property
    def snapshot(self) -> str:
        """Folder of the state machine's snapshots, see `snapshots`; as 0.4.0's."""
        return f"{self.root}/snapshot"

    # ---- ours ----

    @property
    def sums(self) -> str:
        """Folder: a checksum of each entry, see `per_index`."""
        return f"{self.root}/sums"

    @property
    def folders(self) -> tuple[str, ...]:
        """All that are folders, the root first."""
        derived = (self.index, self.sums, self.snapshot)
        return (self.root, self.commit_log, *derived, self.cut, self.aside)

    @property
    def files(self) -> tuple[str, ...]:
        """All that are files."""
        return (self.term, self.checkpoint, self.lock, self.synced, self.truncating)
