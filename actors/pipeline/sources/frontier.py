"""How much of several logs goes into one micro-batch: up to a time that all of them have reached.

A watermark follows the newest row of a batch, and drops what comes later and is older. A batch that
takes a log's newest megabytes beside another's oldest loses the other's (three quarters of the rows
were lost: measured). So a batch ends, in every log, at the same time: the least of the last times
that the logs can offer.

A log that has no more would hold the others for ever. It does so only for some looks in a row, and
in a run that ends (availableNow) not at all, because it will offer nothing more in it.
"""

from __future__ import annotations

import attrs
import numpy as np

from actors.pipeline.sources.cells import Numbers


@attrs.frozen(eq=False, kw_only=True)
class Offer:
    """What one log could give to the next batch.

    Attributes:
        times: of its records, in the log's order. They may go back: the newest so far counts.
        more: it has more than that.
        is_final: it will have no more in this run.
        last_time: of what it gave before; None: unknown.
        quiet_looks: looks in a row, this one included, in which it had nothing.
    """

    times: Numbers
    more: bool
    is_final: bool = False
    last_time: int | None = None
    quiet_looks: int = 0


def frontier(offers: list[Offer], hold_looks: int) -> int | None:
    """The time up to which all may go; None: nobody holds anybody back."""
    times = [time for offer in offers if (time := _held_at(offer, hold_looks)) is not None]
    return min(times, default=None)


def _held_at(offer: Offer, hold_looks: int) -> int | None:
    if len(offer.times):
        return None if offer.is_final and not offer.more else int(offer.times.max())
    return None if offer.is_final or offer.quiet_looks > hold_looks else offer.last_time


def admitted(offer: Offer, until: int | None) -> int:
    """How many records of an offer go into a batch that ends at `until`.

    Whoever holds the others back goes in whole, so each batch goes on: FrontierMoves.
    """
    if until is None:
        return len(offer.times)
    reached = np.maximum.accumulate(offer.times)
    return int(np.searchsorted(reached, until, "right"))
