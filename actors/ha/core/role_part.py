"""The state of a node in a group, its record on the disk and its view; the base of `RoleRules`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from actors.ha.core.claims import Claims
from actors.ha.core.role_checks import Question
from actors.ha.core.role_effects import AppendGate, Effects, Fence, Role, RoleState, RoleView
from actors.log_types import GroupRecord, Promotion

LEAP_MAX: Final = 1 << 20
"""How many promotions a node may have missed. Numbers come from outside and are kept for good, so a
single one near the largest would leave none for later promotions.
"""


@attrs.define
class RolePart:
    """The state of one node in one group.

    Attributes:
        group: the group's name, for people.
        node: this node.
        file_master: the cluster file's master.
        members: the other members that can be asked, which are ours.
        copies: how many nodes hold an append before it is answered.
        synced: whether the group's durability is "synced".
        draw_token: draws the random token of an epoch, 1 to 2**63 - 1.
    """

    group: str
    node: str
    file_master: str
    members: tuple[str, ...]
    copies: int
    synced: bool
    draw_token: Callable[[], int]
    record: GroupRecord
    _acts_by: Promotion | None = None  # None: no tree runs by the newest promotion
    _opened: bool = False
    _questions: int = 0
    _claims: Claims = attrs.Factory(lambda self: Claims(self.node), takes_self=True)
    _state: RoleState = RoleState.CONNECTING
    _reason: str = ""
    _fence: Fence | None = None
    _damage: str = ""
    _question: Question | None = None
    _whole_at: int | None = None  # a slave that forgot has caught up from there on

    @property
    def promotion(self) -> Promotion:
        """The newest promotion that this node knows."""
        return Promotion(
            self.record.promotion_number, self.record.promotion_master or self.file_master
        )

    @property
    def role(self) -> Role:
        return Role.MASTER if self.promotion.master == self.node else Role.SLAVE

    @property
    def acts(self) -> bool:
        """Whether the group's tree runs by the newest promotion."""
        return self._acts_by == self.promotion

    def view(self) -> RoleView:
        """This node's role as others see it. Between two promotions it is the old one, closed."""
        by = self._acts_by or self.promotion
        role = Role.MASTER if by.master == self.node else Role.SLAVE
        known = self.promotion.number if by.number < self.promotion.number else 0
        return RoleView(
            role=role,
            state=self._state,
            fence=self._fence,
            reason=self._reason,
            opened=self._opened and self.acts,
            number=by.number,
            master=by.master,
            history=self.record.history,
            high_water=self.record.high_water_bytes,
            claimed=max(self._claims.number, known),
            forgot=self.record.forgot,
            damage=self._damage,
            forced=0 < self.record.forced_number == by.number and role is Role.MASTER,
        )

    def copy_is(self, damage: str) -> Effects:
        """Input: bytes of the log are damaged, as `damage` says for people, or none are ("").

        A slave with a damaged copy does not follow, because it does not hold the whole log. A
        master goes on: what is appended now is good, and it does not send damaged bytes.
        """
        self._damage = damage
        if self.role is Role.SLAVE and damage:
            self._question = self._whole_at = None
            self._become(RoleState.DAMAGED, damage)
        elif self._state is RoleState.DAMAGED:
            self._become(RoleState.CONNECTING)
        return Effects()

    def next_question(self) -> int:
        """Draw the number of the next question to a member; the answer bears it, too."""
        self._questions += 1
        return self._questions

    # ---- for the rules ----

    def _known_already(self) -> str:
        known = self.promotion
        return f"promotion {known.number} made {known.master} master already"

    def _leaps(self, number: int) -> bool:
        """Whether a number is more than LEAP_MAX above the newest that this node knows."""
        return number > self.promotion.number + LEAP_MAX

    def _why_not_known(self, number: int, master: str) -> str:
        """Why a promotion cannot be one of the group's; "" if it can."""
        if not self._knows(master):
            return f"{master} is no Python member of the group"
        if self._leaps(number):
            known = self.promotion.number
            return f"promotion {number} does not follow {known}, the last known here"
        return ""

    def _knows(self, node: str) -> bool:
        return node == self.node or node in self.members

    def _gate(self) -> AppendGate:
        master = self.promotion.master
        if master == self.node:
            passes_on = self._fence in (Fence.HANDING_OVER, Fence.SUPERSEDED)
            stays = "" if passes_on else self.node
            return AppendGate(open=False, reason=f"{self.node}: {self._reason}", master=stays)
        return AppendGate(open=False, reason=f"{self.node} is a slave", master=master)

    def _become(self, state: RoleState, reason: str = "", fence: Fence | None = None) -> None:
        self._state, self._reason, self._fence = state, reason, fence

    def _remember(self, record: GroupRecord) -> Effects:
        changed = record != self.record
        self.record = record
        return Effects(record=record if changed else None)
