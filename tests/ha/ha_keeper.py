"""Stands where a group's role keeper is, and remembers; the test answers for it."""

from __future__ import annotations

from typing import Any

import attrs

from actors.ha import role_messages
from actors.runtime import Actor


@attrs.define
class KitKeeper(Actor[role_messages.Message]):
    """See the module's text.

    Attributes:
        heard: what came, in order.
        verdicts: answers to the next Verify messages, in order; without one, none is given.
    """

    heard: list[Any]
    verdicts: list[role_messages.Verified]
    _kept: list[role_messages.Verify] = attrs.Factory(list)

    async def handle(self, message: role_messages.Message) -> None:
        self.heard.append(message)
        if isinstance(message, role_messages.Verify):
            if self.verdicts:
                message.reply_to.send(self.verdicts.pop(0))
            else:
                self._kept.append(message)
