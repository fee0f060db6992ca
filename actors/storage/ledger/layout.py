"""Where things lie in the store root of a DLedger group.

Upstream: openmessaging/dledger, DLedgerConfig.java and MemberState.java (0.3.1.2): the root is
`<storeBaseDir>/dledger-<selfId>`. The names above the line are Java's; those below are ours, and
Java neither reads nor removes them.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class LedgerLayout:
    """The paths of one store.

    Attributes:
        root: absolute path of the store root.
    """

    root: str

    @property
    def commit_log(self) -> str:
        """Folder of the data files; the name is that of `truncation.CutLayout`."""
        return f"{self.root}/data"

    @property
    def index(self) -> str:
        return f"{self.root}/index"

    @property
    def term(self) -> str:
        return f"{self.root}/currterm"

    @property
    def checkpoint(self) -> str:
        return f"{self.root}/checkpoint"

    @property
    def snapshot(self) -> str:
        """Folder of the state machine's snapshots, see `snapshots`; as 0.4.0's."""
        return f"{self.root}/snapshot"

    @property
    def lock(self) -> str:
        return f"{self.root}/lock"

    # ---- ours ----

    @property
    def synced(self) -> str:
        """Side file: the synced mark, see `mark`."""
        return f"{self.root}/synced"

    @property
    def sums(self) -> str:
        """Folder: a checksum of each entry, see `per_index`."""
        return f"{self.root}/sums"

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
        """Folder: what was mended. See `set_aside`."""
        return f"{self.root}/aside"

    @property
    def folders(self) -> tuple[str, ...]:
        """All that are folders, the root first."""
        return (
            self.root,
            self.commit_log,
            self.index,
            self.sums,
            self.snapshot,
            self.cut,
            self.aside,
        )

    @property
    def files(self) -> tuple[str, ...]:
        """All that are files."""
        return (self.term, self.checkpoint, self.lock, self.synced, self.truncating)
