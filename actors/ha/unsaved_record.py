"""What a group must remember while the disk has no room for it, and what came meanwhile.

How far it has acknowledged may be saved later. All else is saved before anybody hears of it: then
the rest of its effects waits, and so does every later message; who asks for something is refused.
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
    """See the module's text. One owner: the role keeper.

    Attributes:
        reason: why it cannot be saved, for people; "": nothing is owed.
        record: what is to be saved; None: nothing.
        waits: the message whose effects wait for it, and these; None: nothing waits.
    """

    reason: str = ""
    record: GroupRecord | None = None
    waits: tuple[M, Effects] | None = None
    _held: dict[tuple[object, ...], M] = attrs.field(factory=dict, init=False)

    def hold(self, message: M) -> None:
        """Keep a message until there is room; of those that say the same thing the newest."""
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
        """It is saved. Gives the messages that were kept."""
        held = list(self._held.values())
        self.reason, self.record, self.waits = "", None, None
        self._held.clear()
        return held
