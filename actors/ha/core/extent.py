"""What part of the log exists, as the store published it: the copy that HA decides by."""

from __future__ import annotations

import attrs


@attrs.frozen
class LogExtent:
    """Published range of a commit log; every field is a physical offset in bytes.

    Attributes:
        min_bytes: first byte still kept (start of the first file).
        written_bytes: end of what is written. Upstream calls it the max offset.
        synced_bytes: end of what a finished fdatasync covers; never above `written_bytes`.
    """

    min_bytes: int
    written_bytes: int
    synced_bytes: int

    def __attrs_post_init__(self) -> None:
        assert 0 <= self.min_bytes <= self.written_bytes
        assert 0 <= self.synced_bytes <= self.written_bytes

    def durable_bytes(self, *, synced: bool) -> int:
        """End of what may leave this node: only synced bytes in a `synced` group (design section
        4).
        """
        return self.synced_bytes if synced else self.written_bytes
