"""Checks of the checksums beside a DLedger member's log: which of them say nothing, and so what.

None at all, zeros, is what another program's entries have, and what a start has yet to make.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from actors.storage.ledger.recovery import Found
from actors.storage.ledger.sums import SUM_BYTES, all_known
from actors.storage.log.commit_log import segment_path
from actors.storage.tools.findings import LedgerReport
from actors.storage.tools.ledger.files import LedgerFiles
from wire.dledger.scan import EntryHead

NAMED_MAX = 5
"""Records that are named; the others are counted."""


@attrs.define
class SumsCheck:
    """Checks one member whose log has a mark; `_folder` is that of the checksums."""

    _files: LedgerFiles
    _folder: str
    _spoilt: list[int] = attrs.field(factory=list, init=False)  # indexes of the first few
    _spoilt_count: int = attrs.field(default=0, init=False)
    _last: int = attrs.field(default=-1, init=False)

    def take(self, heads: Sequence[EntryHead], known: bytes) -> int:
        """Look at the records of entries that are good. Gives how many of them say something.

        Args:
            known: the records; zeros, or fewer, where there are none.
        """
        mark, said = self._files.mark, 0
        whole_bytes = 0 if mark is None else mark.whole_bytes
        for number, head in enumerate(heads):
            record = known[number * SUM_BYTES : (number + 1) * SUM_BYTES]
            if record and all_known(record):
                said += 1
            elif any(record) and head.pos + head.size <= whole_bytes:
                self._spoilt_count += 1
                self._last = head.index
                if len(self._spoilt) < NAMED_MAX:
                    self._spoilt.append(head.index)
        return said

    def judge(self, report: LedgerReport, found: Found | None) -> None:
        """What follows from those that were written and say nothing: no entry is lost by it.

        Args:
            found: by the next start; None: it is refused, or the member runs.
        """
        mark, findings = self._files.mark, report.findings
        follows = "it is believed as far as its head goes: damage of its body would not be noticed"
        for line in self._files.odd_sums:
            first = "" if found is None else f" of entries from {found.first_index} on"
            findings.note(
                f"{line}: none of the checksums is read; the next start makes those{first} again,"
                " other entries are believed as far as their heads go"
            )
        for index in self._spoilt:
            at, size = index * SUM_BYTES, self._files.sums.log.segment_bytes
            path = segment_path(self._folder, at - at % size)
            again = ""
            if found is not None and index >= found.first_index and mark and not mark.is_clean:
                again = "; the next start makes it again"
            findings.note(
                f"{path}: byte {at % size}: the checksum of entry {index} is damaged and says"
                f" nothing; {follows}{again}"
            )
        if self._spoilt_count > len(self._spoilt):
            findings.note(
                f"{self._folder}: {self._spoilt_count} damaged checksums in all, the last of entry"
                f" {self._last}"
            )
