"""What a leader gives a peer that is far behind: so many bytes in each second, others unaffected.

Source: openmessaging/dledger, DLedgerEntryPusher.java (EntryDispatcher.checkQuotaAndWait) and
utils/Quota.java, 0.3.1.2; specification 6.2.

Differs: no thread sleeps until the next second, and batches count, too.
"""

from __future__ import annotations

import attrs

from actors.dledger.core.settings import PushSettings


@attrs.define
class Quota:
    """Of one peer."""

    _settings: PushSettings
    _second: int = attrs.field(default=0, init=False)
    _taken_bytes: int = attrs.field(default=0, init=False)  # in that second

    def take(self, now_s: float, size_bytes: int, *, behind: int, behind_bytes: int) -> bool:
        """Whether so many bytes may be sent in this second; they count then.

        Args:
            behind, behind_bytes: entries, and bytes of them, up to the log's end.
        """
        settings = self._settings
        if not settings.quota_bytes_per_s or behind <= settings.throttle_entries:
            return True
        if behind_bytes < settings.throttle_bytes:
            return True
        if int(now_s) != self._second:
            self._second, self._taken_bytes = int(now_s), 0
        if self._taken_bytes >= settings.quota_bytes_per_s:
            return False
        self._taken_bytes += size_bytes
        return True

    @property
    def again_s(self) -> float:
        """When the next second begins, after a `take` that found no room."""
        return float(self._second + 1)
