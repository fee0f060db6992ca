"""The settings of a DLedger store, under our names and with upstream's defaults.

Source: openmessaging/dledger, DLedgerConfig.java (0.3.1.2); dledger.md 10.
"""

from __future__ import annotations

import attrs

from actors.storage.log.expiry import HOUR_MS, Expiry
from wire.dledger.entry import (
    BLANK_BYTES,
    DATA_FILE_BYTES,
    ENTRY_HEAD_BYTES,
    INDEX_BYTES,
    INDEX_FILE_BYTES,
)

FULL_ABOVE_CLEAN = 0.05
FULL_RATIO_MAX = 0.95
DATA_FILE_BYTES_MIN = 4096
"""The smallest size of a data file, and of a commit log's: disk space is allocated by pages."""


@attrs.frozen(kw_only=True)
class LedgerSettings:
    """The settings of one group's stores. File sizes are equal on all members, Java's among them.

    Attributes:
        data_file_bytes: size of every data file: mappedFileSizeForEntryData, 1 GiB.
        index_file_bytes: size of every index file, a multiple of 32: mappedFileSizeForEntryIndex,
            160 MiB.
        file_reserved_hours: age in hours at which a data file expires: fileReservedHours, 72.
        delete_when_hours: local hours in which expired files are deleted: deleteWhen, "04".
        disk_check_ratio: used share of the disk, 0 to 1, above which expired files are deleted at
            any hour: diskSpaceRatioToCheckExpired, 0.70.
        disk_clean_ratio: used share above which files are deleted whatever their age:
            diskSpaceRatioToForceClean, 0.85; above 0.05 more, and 0.95 at most, appends are
            refused.
        disk_force_clean: whether files are deleted before they expire: enableDiskForceClean, true.
        checkpoint_interval_s: how often the committed index is written down: checkPointInterval,
            3000 ms.
        vote_unsynced: with `compat`, bug B8: term and vote are written in upstream's way
            (`term_files`).
        cut_stays: with `compat`, bug B6: a truncation leaves the bytes where they are, and a start
            accepts whatever looks like an entry, without mark and checksums.
        cuts_committed: with `compat`, bug B12: committed entries may be cut.
    """

    data_file_bytes: int = DATA_FILE_BYTES
    index_file_bytes: int = INDEX_FILE_BYTES
    file_reserved_hours: int = 72
    delete_when_hours: tuple[int, ...] = (4,)
    disk_check_ratio: float = 0.70
    disk_clean_ratio: float = 0.85
    disk_force_clean: bool = True
    checkpoint_interval_s: float = 3.0
    vote_unsynced: bool = False
    cut_stays: bool = False
    cuts_committed: bool = False

    def __attrs_post_init__(self) -> None:
        assert self.data_file_bytes >= max(DATA_FILE_BYTES_MIN, ENTRY_HEAD_BYTES + BLANK_BYTES)
        assert self.index_file_bytes >= INDEX_BYTES
        assert self.index_file_bytes % INDEX_BYTES == 0

    @property
    def disk_full_ratio(self) -> float:
        """The used share of the disk above which appends are refused."""
        return min(FULL_RATIO_MAX, self.disk_clean_ratio + FULL_ABOVE_CLEAN)

    def expiry(self) -> Expiry:
        """Return the rules for when data files are deleted."""
        return Expiry(
            reserved_ms=max(self.file_reserved_hours, 1) * HOUR_MS,
            hours=self.delete_when_hours,
            used_max=self.disk_check_ratio,
            used_forcibly=self.disk_clean_ratio if self.disk_force_clean else 1.0,
            used_full=self.disk_full_ratio,
        )
