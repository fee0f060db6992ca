"""A group's record for which the disk has no room, and the messages that wait for it.

The high-water mark may be saved later. Everything else in the record is saved before anything rests
on it. So the rest of the effects waits, and so does every later message; requests are refused.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import attrs

from actors.ha.core.role_effects import Effects
from actors.ha.role_messages import (
    AskFresh,
    Done,
    Fence,
    Fresh,
    MemberReported,
    Record,
    ReportedAhead,
    Resync,
    Verified,
    Verify,
)
from actors.log_types import GroupRecord

NEWER: Final = Verified(fits=False, detail="a newer connection asks")
M = TypeVar("M")
"""A message of the role keeper."""


@attrs.define
class UnsavedRecord(Generic[M]):
    """The record that is to be saved, and the messages that wait. The role keeper owns it.

    Attributes:
        reason: for people: why the record cannot be saved; "" if there is none to save.
        record: the record to save; None if there is none.
        waits: the message whose effects wait for it, and these effects; None if none do.
    """

    reason: str = ""
    record: GroupRecord | None = None
    waits: tuple[M, Effects] | None = None
    _held: dict[tuple[object, ...], M] = attrs.field(factory=dict, init=False)

    def hold(self, message: M) -> None:
        """Keep a message until there is room; of several of the same subject, the newest."""
        key: tuple[object, ...] = (type(message),)
        match message:
            case Fence() | Record() | Resync():
                message.reply_to.send(Done(refused=self.reason))
                return
            case AskFresh():
                message.reply_to.send(Fresh(offset_bytes=0, refused=self.reason))
                return
            case MemberReported(member=who) | ReportedAhead(slave=who):
                key = (type(message), who)
            case _:
                pass
        older = self._held.pop(key, None)
        if isinstance(older, Verify):
            older.reply_to.send(NEWER)
        self._held[key] = message

    def released(self) -> list[M]:
        """Remove and return the messages that were kept, because the record is saved."""
        held = list(self._held.values())
        self.reason, self.record, self.waits = "", None, None
        self._held.clear()
        return held
