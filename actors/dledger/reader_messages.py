"""What entry_reader is told, apart from reads, which are those of `storage.pull_messages`."""

from __future__ import annotations

import attrs

from actors.runtime import ReplyTo
from actors.storage.dledger.mending import Inspected
from actors.storage.mending import GoodRange


@attrs.frozen(kw_only=True)
class CommittedTo:
    """All up to `index` is committed, as this member knows. Conflated."""

    index: int


@attrs.frozen(kw_only=True)
class Inspect:
    """See whether some entries from `index` on, committed and synced here, are what was written.
    The answer's `next_index` is `index` if there are none.
    """

    index: int
    reply_to: ReplyTo[Inspected]


@attrs.frozen(kw_only=True)
class GetEntry:
    """Give an entry that is committed and synced here, if it is what was written."""

    index: int
    reply_to: ReplyTo[GoodRange]
