"""The range of the log that exists, as the store published it; HA decides by this copy."""

from __future__ import annotations

import attrs


@attrs.frozen
class LogExtent:
    """The published range of a commit log; every field is a physical offset in bytes.

    Attributes:
        min_bytes: the first byte that is still kept, where the first file starts.
        written_bytes: the end of what is written. Upstream calls it the max offset.
        synced_bytes: the end of what a finished fdatasync covers; never above `written_bytes`.
    """

    min_bytes: int
    written_bytes: int
    synced_bytes: int

    def __attrs_post_init__(self) -> None:
        assert 0 <= self.min_bytes <= self.written_bytes
        assert 0 <= self.synced_bytes <= self.written_bytes

    def durable_bytes(self, *, synced: bool) -> int:
        """The end of what this node may send or report: only synced bytes in a `synced` group
        (design section 4).
        """
        return self.synced_bytes if synced else self.written_bytes
