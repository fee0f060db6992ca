"""Decides how a slave follows its master's epochs: where their logs part, and what comes next.

Source: apache/rocketmq store/ha/autoswitch/AutoSwitchHAClient.java (5.3.3), doTruncate and
dispatchReadRequest; EpochFileCache.findConsistentPoint; autoswitch-ha.md 2.6, 2.8, 4.3, 4.4 and
T1b, T3, T5, T9, T11.

Differs from upstream:
- A log without epochs is compared, too: it is of epoch 0, as is all below a master's first epoch.
  Upstream's slave goes on from where it ends, whatever it holds.
- A master whose last epoch, and that in which controllers named it, is older than that of the own
  bytes is one that was deposed, and is not followed; upstream's slave cuts off what it does not
  have.
- Upstream checks the CRC of the record that begins where a log is cut, here a log is checked as it
  opens.
- The epochs that bytes are of are those that the answer listed, and what headers name is compared
  with it; upstream takes them from headers alone, and misses the first one (autoswitch-ha.md 2.6).
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Callable

import attrs

from actors.epochs import Epoch, History, Kind, compare, line
from actors.ha.core.autoswitch_dialect import epoch_at, history_of
from wire.ha.autoswitch import ANSWER_EPOCHS_MAX, EpochFrameStarted, HandshakeAnswer


class Verdict(enum.Enum):
    """What to do with the own log; the value is the sentence shown to people."""

    FOLLOWS = "the own log is a part of the master's"
    CUT = "the own log has to be cut first"
    UNKNOWN = "it is not known which epochs the own log is of"
    DEPOSED = "the master's last epoch is older than that of the own log"
    UNRELATED = "the master's log has no epoch of the own one"
    NO_RECORD = "no record begins where the logs part"


@attrs.frozen
class Agreement:
    """What a slave makes of an answer.

    Attributes:
        end_bytes: where the own log ends once this was carried out; None: it is not followed.
    """

    verdict: Verdict
    end_bytes: int | None
    theirs: History

    @property
    def text(self) -> str:
        """For people."""
        where = "" if self.verdict is not Verdict.CUT else f" at {self.end_bytes}"
        return f"{self.verdict.value}{where}"


@attrs.frozen(kw_only=True)
class OwnLog:
    """A slave's log, as its epoch store knows it.

    Attributes:
        min_bytes, end_bytes: its range.
        begins: whether a record begins at an offset within it.
        known_bytes: up to here its history is believed; None: all of it.
    """

    history: History
    min_bytes: int
    end_bytes: int
    begins: Callable[[int], bool]
    known_bytes: int | None = None

    def agree(self, answer: HandshakeAnswer, *, told_epoch: int = 0) -> Agreement:
        """Compare with the master that has answered a handshake.

        Args:
            told_epoch: in which the controllers have named this master; 0: they have not. A Java
                master may lack it: one that begins where the last one does (autoswitch-ha.md T1).
        """
        theirs = history_of(answer.epochs)
        end = self.end_bytes
        if end == 0:
            return Agreement(Verdict.FOLLOWS, 0, theirs)
        if self.known_bytes == 0:
            return Agreement(Verdict.UNKNOWN, None, theirs)
        if max(answer.last_epoch, told_epoch) < line(self.history, end)[-1].number:
            return Agreement(Verdict.DEPOSED, None, theirs)
        found = compare(self.history, end, theirs, max(answer.end, 0))
        if found.kind is Kind.UNRELATED:
            return Agreement(Verdict.UNRELATED, None, theirs)
        agreed = found.consistent_bytes
        if self.known_bytes is not None:
            agreed = min(agreed, self.known_bytes)
        if agreed == end:
            return Agreement(Verdict.FOLLOWS, end, theirs)
        if agreed > self.min_bytes and not self.begins(agreed):
            return Agreement(Verdict.NO_RECORD, None, theirs)
        return Agreement(Verdict.CUT, agreed, theirs)


@attrs.define
class EpochTrail:
    """The master's epochs on one connection, and how many of them the own history has.

    Attributes:
        theirs: the master's history, as it answered and as headers have named epochs since.
    """

    theirs: History
    _due: int = -1  # how many of them have begun

    def frame(self, head: EpochFrameStarted) -> str:
        """Take a frame's header, in order. Returns: what is wrong with it, "" if nothing is.

        Java names the next epoch in the frame that ends one: it may begin above the body.
        """
        if head.offset < 0:
            return ""  # the master does not know yet where to begin
        named = Epoch(head.epoch, 0, "", head.epoch_start)
        last = self.theirs[-1] if self.theirs else None
        end = head.offset + head.size
        if last is None or named.number > last.number:
            if len(self.theirs) >= ANSWER_EPOCHS_MAX:
                return f"more than {ANSWER_EPOCHS_MAX} epochs"
            if last is not None and named.start_bytes < last.start_bytes:
                return f"epoch {named.number} begins at {named.start_bytes}, before the last one"
            self.theirs = (*self.theirs, named)
        present, present_end = epoch_at(self.theirs, head.offset)
        if head.size > 0 and end > present_end:
            return f"bytes {head.offset} to {end} are of two epochs, from {present_end} on"
        is_next = head.size > 0 and named.start_bytes == end == present_end
        if named != present and not (is_next and named in self.theirs):
            return (
                f"bytes from {head.offset} on are of epoch {present.number}, from"
                f" {present.start_bytes} on, not of {named.number}, from {named.start_bytes} on"
            )
        return ""

    def due(self, end_bytes: int) -> bool:
        """Whether an epoch begins at or below this end that did not when this was asked before."""
        before = self._due
        self._due = bisect_right(self.theirs, end_bytes, key=lambda epoch: epoch.start_bytes)
        return self._due != before
