"""What entry_reader is told, apart from reads, which are those of `storage.pull_messages`."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class CommittedTo:
    """All up to `index` is committed, as this member knows. Conflated."""

    index: int
