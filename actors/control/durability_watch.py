"""DurabilityWatch finds out whether another member of a DLedger group counts what is not synced.

The leader of a group with `durability = "synced"` believes what a peer acknowledges, and DLedger's
wire does not say whether that is on the peer's disk. Each machine has a cluster file of its own, so
one that says less there weakens what all others promise. A member asks the others' APIs, warns of
such a one again and again while it is there, and shows it in its status.

Messages: only its feeder's. Sends none; writes `LeaderStatus.weaker`.
There is no upstream.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import attrs
import trio

from actors.config import DLedgerGroup
from actors.control.member_session import LOST
from actors.control.members import MemberLinks
from actors.dledger.leader_status import LeaderStatus
from actors.dledger.weaker import weaker_settings, weaker_text
from actors.events.dledger import MemberWeaker
from actors.runtime import Actor, Backoff, ChildSpec
from wire.api import frames

_LOGGER: Final = logging.getLogger("triolog.dledger")
FIRST_LOOK_S: Final = 1.0
"""The seconds before the first question, as the other members may start together with this node."""
LOOK_S: Final = 30.0
"""The seconds between two questions to a member, which reads its cluster file only at its start."""
REPEAT_S: Final = 600.0
"""The least time in seconds between two warnings about the same settings of one member."""
RESTART_BACKOFF: Final = Backoff(first_s=0.5, max_s=30.0)


@attrs.frozen(kw_only=True)
class _Said:
    """Feeder: the settings by which the member promises less, of `weaker_settings`; "" for none."""

    weaker: str


@attrs.define
class DurabilityWatch(Actor[_Said]):
    """Watches one member of one group. See the module's text.

    Attributes:
        node: this node.
        member: the member that is asked.
        role_status: this node's own status in the group, in which a weaker member is shown.
    """

    _node: str
    _group: str
    _member: str
    _answer_timeout_s: float
    _role_status: LeaderStatus
    _warned_s: float = -REPEAT_S

    async def on_start(self) -> None:
        self.ctx.spawn(self._look_again)

    async def handle(self, message: _Said) -> None:
        known, now_s = self._role_status.weaker.get(self._member, ""), self.ctx.now_s()
        if message.weaker != known:
            self._role_status.weaker = dict(self._role_status.weaker)
            self._role_status.weaker.pop(self._member, None)
            if message.weaker:
                self._role_status.weaker[self._member] = message.weaker
            event = MemberWeaker(group=self._group, member=self._member, settings=message.weaker)
            self.ctx.emit(event)
            self._warned_s = -REPEAT_S
        if message.weaker and now_s >= self._warned_s + REPEAT_S:
            self._warned_s = now_s
            text = weaker_text(self._member, message.weaker)
            _LOGGER.warning("%s: %s: %s", self._node, self._group, text)

    async def _look_again(self) -> None:
        """Ask the member again and again; a feeder.

        A member that cannot be asked is shown as it was before.
        """
        await trio.sleep(FIRST_LOOK_S)
        while True:
            try:
                weaker = weaker_settings(await self._status(), self._group)
            except LOST:
                pass
            else:
                await self.ctx.self_ref.tell(_Said(weaker=weaker))
            await trio.sleep(LOOK_S)

    async def _status(self) -> dict[str, Any]:
        """Return the member's status. Raises: one of LOST."""
        links = MemberLinks(self._node, self.ctx.ref, self._answer_timeout_s)
        answer = await links.ask(self._member, frames.GetStatus(id=0), frames.Status)
        return answer.value


def watch_child(
    *,
    node: str,
    group: str,
    member: str,
    answer_timeout_s: float,
    role_status: LeaderStatus,
) -> ChildSpec:
    """Return the specification of the child that watches one member of a group.

    Args:
        node: this node.
        member: the member to watch.
        answer_timeout_s: how long an answer may take, in seconds.
        role_status: this node's own status in the group.
    """
    return ChildSpec(
        name=f"{group}-{member}-durability",
        start=lambda: DurabilityWatch(
            node=node,
            group=group,
            member=member,
            answer_timeout_s=answer_timeout_s,
            role_status=role_status,
        ),
        backoff=RESTART_BACKOFF,
    )


def is_watched(group: DLedgerGroup) -> bool:
    """Return whether the group promises that acknowledged entries are synced, and needs a watch."""
    return group.durability == "synced" and group.store == "file" and group.compat is None
