"""Decides who is master of a group, whether it may take appends, and whether a slave may follow it.

There is one instance for each group of a node. The newest promotion that the node knows says who is
master; number 0 stands for the cluster file's master. A promotion is saved and synced before the
node acts by it, and acting by it always restarts the group's tree. So a node that acts by number N
does not follow masters of older numbers any more, and to them its log's end is final.

A master opens its log only after it has heard (`_ask`) all Python members that act by its number,
or at least one of them and ASK_GRACE_S has passed. It stays closed while one of them holds what it
lacks (a log that goes on where its own ends, or an epoch as young as its own that it does not
know), and while its log is shorter than what it is known to have acknowledged. Opening begins an
epoch, which is saved first. A slave reports to a master only after `_judge` found that its log is a
part of the master's, and that the master has begun its epoch. From then on its history is the
master's.

Inputs: `started`, `heard`, `reported_ahead`, `verify`, `left`, `fence`, `recorded`, `resync`,
`high_water`, `tick`. Each gives Effects.

There is no upstream: classic HA has no fencing. RocketMQ 5's controller and auto-switch HA settle
the same questions (store/ha/autoswitch/, controller/, 5.3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from actors.epochs import Epoch, begin
from actors.events import roles as events
from actors.ha.core.claims import why_claimed
from actors.ha.core.extent import LogExtent
from actors.ha.core.role_checks import (
    Question,
    after_cut,
    after_loss,
    conflict,
    hears_enough,
    judge,
    knows_promotions,
    why_asking,
    why_not_open,
    why_uninformed,
    without_partial_record,
)
from actors.ha.core.role_effects import AppendGate, Effects, Fence, Role, RoleState, Verdict
from actors.ha.core.role_part import RolePart
from actors.log_types import Claim, GroupState, Promotion

ASK_GRACE_S: Final = 2.0
"""After so long a master opens although some of its members, not all, are silent."""


JAVA_AHEAD_TIMES: Final = 2
"""How often a Java slave's first report above the end has to come: a single one may be a mistake.
"""
PLAUSIBLE_BYTES: Final = 1 << 40
"""A report further above the end than this is ignored: it cannot be about this log."""


@attrs.define
class AheadReports:
    """The reports above their master's end of Java slaves, which cannot be asked.

    There is at most one entry for each slave.
    """

    _reports: dict[str, tuple[int, int]] = attrs.field(factory=dict)

    def clear(self) -> None:
        self._reports.clear()

    def note(self, slave: str, offset_bytes: int, end_bytes: int) -> None:
        """Note a report above `end_bytes`, where the log ends."""
        if offset_bytes > end_bytes + PLAUSIBLE_BYTES:
            return
        known, times = self._reports.get(slave, (offset_bytes, 0))
        self._reports[slave] = (offset_bytes, times + 1 if known == offset_bytes else 1)

    def found(self) -> str | None:
        """For people: the slave that is ahead, and its report; None if there is none."""
        for slave, (offset_bytes, times) in self._reports.items():
            if times >= JAVA_AHEAD_TIMES:
                return f"{slave} reports {offset_bytes}"
        return None


@attrs.define
class RoleRules(RolePart):
    """The rules of one group on one node. See the module's text."""

    _extent: LogExtent = attrs.field(default=LogExtent(0, 0, 0))
    _since_s: float = 0.0
    _gate_open: bool = False
    _force: int = 0
    _forced_open: bool = False
    _ahead: AheadReports = attrs.field(factory=AheadReports)
    _heard: dict[str, GroupState] = attrs.field(factory=dict)
    _session: int = 0

    # ---- inputs ----

    def started(
        self,
        promotion: Promotion,
        extent: LogExtent,
        now_s: float,
        *,
        kept_bytes: int = 0,
        was_clean: bool = True,
    ) -> Effects:
        """Note that the group's tree has started, built by `promotion`; its store is closed."""
        end, cut_at = extent.written_bytes, self.record.cut_bytes
        if promotion != self.promotion or (cut_at is not None and end > cut_at):
            return Effects()  # it is about to be restarted
        self._acts_by, self._extent, self._since_s = promotion, extent, now_s
        self._opened = self._gate_open = self._forced_open = False
        self._question = self._whole_at = None
        self._damage = ""  # the scrubber of this tree will report what it finds
        self._heard.clear()
        self._ahead.clear()
        certain = was_clean or self.synced
        known = self.record if cut_at is None else after_cut(self.record, end)
        record = without_partial_record(known, self.node, end, kept_bytes, certain=certain)
        if self.role is Role.SLAVE:
            record = after_loss(record, end)
        changed = self._remember(record).record
        if self.role is Role.SLAVE:
            self._become(RoleState.CONNECTING)
            ask = () if self._is_informed() else self._questions_to(self.members)
            return Effects(record=changed, gate=self._gate(), ask=ask)
        self._become(RoleState.ASKING, "its members have not been heard yet")
        asks, effects = self._questions_to(self.members), self._ask(now_s)
        return attrs.evolve(effects, record=effects.record or changed, ask=asks + effects.ask)

    def heard(self, member: str, state: GroupState, now_s: float, asked: int = 0) -> Effects:
        """Note a member's state.

        Args:
            asked: the number of the question that it answers.
        """
        by = Promotion(state.number, state.master)
        if self._leaps(max(by.number, state.claimed)):
            return Effects()
        if by.number > self.promotion.number and self._knows(by.master):
            return self._adopt(by)
        if member in self.members:
            self._heard[member] = state
        void = self._claims.heard(member, state, asked, now_s)
        if not self.acts:
            effects = Effects()
        elif self.role is Role.MASTER:
            effects = self._ask(now_s)
        else:
            effects = self._hear_slave(member, state, asked)
        if void is not None:
            event = events.PromotionVoid(number=void.number, master=void.master, by=void.by)
            effects = attrs.evolve(effects, events=(event, *effects.events))
        return self._with_claims(effects, now_s)

    def reported_ahead(self, slave: str, offset_bytes: int, now_s: float) -> Effects:
        """Note that a slave which cannot be asked reported more than this log holds."""
        if not self.acts or self.role is not Role.MASTER:
            return Effects()
        self._ahead.note(slave, offset_bytes, self._extent.written_bytes)
        return self._ask(now_s)

    def verify(self, session: int, end_bytes: int) -> Effects:
        """Judge whether the slave's connection of this session may report."""
        self._session = session
        master = self.promotion.master
        if not self.acts or self.role is not Role.SLAVE:
            detail = "this node is not a slave now"
            return Effects(verdict=Verdict(session=session, fits=False, detail=detail))
        if self._damage:
            self._become(RoleState.DAMAGED, self._damage)
            return Effects()  # its client is notified, and ends
        if master not in self.members:
            self._become(RoleState.FOLLOWING)
            verdict = Verdict(session=session, fits=True, detail="")
            return attrs.evolve(self._caught_up(), verdict=verdict)
        if self._state is not RoleState.DIVERGED:
            self._become(RoleState.CONNECTING)
        self._question, self._whole_at = Question(session=session, end_bytes=end_bytes), None
        if self._is_informed():
            return self._ask_master()
        return Effects(ask=self._questions_to([m for m in self.members if m not in self._heard]))

    def left(self, session: int) -> Effects:
        """Note that the slave's connection of this session ended."""
        if session != self._session:
            return Effects()  # there is a newer one
        self._question = self._whole_at = None
        if self._state is RoleState.FOLLOWING and self.role is Role.SLAVE:
            self._become(RoleState.CONNECTING)
        return Effects()

    def fence(self, claim: Claim, *, on: bool, now_s: float) -> Effects:
        """Hold a coordinator's claim, which fences a master, or give it up (`on` is False)."""
        if claim.number <= self.promotion.number:
            return Effects(refused=self._known_already())
        if refused := self._why_not_known(claim.number, claim.master):
            return Effects(refused=refused)
        refused = ""
        if on:
            refused = self._claims.take(claim, now_s)
        else:
            self._claims.drop(claim.token)
        return attrs.evolve(self.tick(now_s), refused=refused)

    def recorded(
        self, promotion: Promotion, now_s: float, *, token: int, force: bool = False
    ) -> Effects:
        """Record an operator's promotion, from the coordinator whose claim bears that token."""
        known = self.promotion
        if refused := self._why_not_known(promotion.number, promotion.master):
            return Effects(refused=refused)
        if promotion.number < known.number or (
            promotion.number == known.number and promotion.master != known.master
        ):
            return Effects(refused=self._known_already())
        self._claims.pass_time(now_s)
        if promotion.number > known.number:
            chosen = promotion.master == self.node
            refused = self._claims.why_not_recorded(promotion, token, chosen=chosen)
            if refused:
                return Effects(refused=refused)
        if force and promotion.master == self.node:
            self._force = promotion.number
        if promotion.number > known.number:
            return self._adopt(promotion, informed=True)
        return self.tick(now_s)

    def resync(self, number: int, cut_bytes: int) -> Effects:
        """Cut this slave's log at `cut_bytes`, on an operator's order."""
        if number != self.promotion.number or not self.acts or self.role is not Role.SLAVE:
            return Effects(refused="this node takes another part now")
        effects = self._remember(attrs.evolve(self.record, cut_bytes=cut_bytes))
        self._acts_by = self._question = None
        self._become(RoleState.CONNECTING)
        return attrs.evolve(effects, restart=True)

    def high_water(self, offset_bytes: int) -> Effects:
        """Note that this node has acknowledged, or reported, all below `offset_bytes`."""
        if self._whole_at is not None and offset_bytes >= self._whole_at:
            return self._caught_up(max(offset_bytes, self.record.high_water_bytes))
        if offset_bytes <= self.record.high_water_bytes:
            return Effects()
        higher = attrs.evolve(self.record, high_water_bytes=offset_bytes)
        return attrs.evolve(self._remember(higher), rests=False)

    def tick(self, now_s: float) -> Effects:
        """Do what is due by now; harmless when called early."""
        self._claims.pass_time(now_s)
        if self.acts and self.role is Role.MASTER:
            return self._ask(now_s)
        return self._with_claims(Effects(), now_s)

    def _with_claims(self, effects: Effects, now_s: float) -> Effects:
        """The same effects, with what the claims ask for."""
        asked = self._claims.questions(now_s, self._questions)
        self._questions += len(asked)
        times = (effects.deadline_s, self._claims.deadline_s)
        deadline_s = min((each for each in times if each is not None), default=None)
        return attrs.evolve(effects, ask=effects.ask + asked, deadline_s=deadline_s)

    # ---- promotions ----

    def _adopt(self, promotion: Promotion, *, informed: bool = False) -> Effects:
        """Record a later promotion, close, and have the tree built by it.

        Args:
            informed: whether a coordinator made it, and so knows that there is no later one.
        """
        before, forgot = self.promotion, self.record.forgot
        effects = self._remember(
            attrs.evolve(
                self.record,
                promotion_number=promotion.number,
                promotion_master=promotion.master,
                forgot="log" if informed and forgot else forgot,
            )
        )
        if self._acts_by is not None and self._acts_by.master == self.node:
            reason = f"{Fence.SUPERSEDED.value}: {promotion.master}"
            self._become(RoleState.FENCED, reason, Fence.SUPERSEDED)
        else:
            self._become(RoleState.CONNECTING)
        self._claims.recorded(promotion.number)
        self._question = None
        self._gate_open = False
        recorded = events.PromotionRecorded(
            number=promotion.number, master=promotion.master, before=before.master
        )
        return attrs.evolve(effects, gate=self._gate(), restart=True, events=(recorded,))

    # ---- a master ----

    def _ask(self, now_s: float) -> Effects:
        """Open the log, or stay closed and show why."""
        self._claims.pass_time(now_s)
        return self._with_claims(self._settle(now_s), now_s)

    def _settle(self, now_s: float) -> Effects:
        if (found := self._why_fenced()) is not None:
            fence, detail = found
            reason = f"{fence.value}: {detail}"
            fenced = self._reason != reason or self._state is not RoleState.FENCED
            self._become(RoleState.FENCED, reason, fence)
            event = events.MasterFenced(reason=fence.name, detail=detail)
            return self._closed((event,) if fenced else ())
        if self._opened:
            self._forced_open = self._forced_open or self._is_forced
            self._become(RoleState.OPEN)
            return self._opening(())
        counted, others = self._counted(), len(self.members)
        silent = [m for m in self.members if m not in counted]
        until_s = self._since_s + ASK_GRACE_S
        enough = hears_enough(self.record, self.promotion.number, others, self.copies, counted)
        if self._is_forced or not silent or (enough and now_s >= until_s):
            return self._open()
        self._become(RoleState.ASKING, why_asking(self.node, self.record, silent, counted))
        return attrs.evolve(self._closed(()), deadline_s=until_s if now_s < until_s else None)

    @property
    def _is_forced(self) -> bool:
        return self._force == self.promotion.number and self._force > 0

    def _counted(self) -> dict[str, GroupState]:
        """The members that were heard and act by this node's promotion.

        No other master appends to their logs.
        """
        number = self.promotion.number
        return {name: said for name, said in self._heard.items() if said.number == number}

    def _why_fenced(self) -> tuple[Fence, str] | None:
        found = conflict(self.promotion, self._heard) or why_claimed(self.group, self._claims)
        ahead = self._ahead.found()
        if found is not None:
            return found
        if ahead is not None and not (self._is_forced or self._forced_open):
            return Fence.SLAVE_AHEAD, ahead
        if self._opened or self._is_forced:
            return None
        found = why_not_open(self.record, self._extent.written_bytes, self._counted())
        if found is None or not self.members:
            return found
        fence, detail = found
        return fence, f"{detail}: `promote {self.group}` makes the furthest node master"

    def _open(self) -> Effects:
        """Begin an epoch, which is saved before the gate opens."""
        end = self._extent.written_bytes
        epoch = Epoch(self.promotion.number, self.draw_token(), self.node, end)
        mark = self.record.high_water_bytes
        record = attrs.evolve(
            self.record,
            history=begin(self.record.history, end, epoch),
            high_water_bytes=min(mark, end) if self._is_forced else mark,
            forgot="",
            forced_number=epoch.number if self._is_forced else self.record.forced_number,
        )
        self._opened, self._forced_open = True, self._is_forced
        self._force = 0
        self._become(RoleState.OPEN)
        heard, forced = tuple(self._counted()), self._forced_open
        opened = events.GroupOpened(
            number=epoch.number, token=epoch.token, start_bytes=end, heard=heard, forced=forced
        )
        return attrs.evolve(self._opening((opened,)), record=self._remember(record).record)

    def _opening(self, emitted: tuple[object, ...]) -> Effects:
        gate = None if self._gate_open else AppendGate(open=True)
        self._gate_open = True
        return Effects(gate=gate, events=emitted)

    def _closed(self, emitted: tuple[object, ...]) -> Effects:
        self._gate_open = False
        return Effects(gate=self._gate(), events=emitted)

    # ---- a slave ----

    def _hear_slave(self, member: str, said: GroupState, asked: int) -> Effects:
        """Take a member's state as a slave; it may be the answer that the slave waits for."""
        if self.record.forgot != "all":
            return self._judge(member, said, asked)
        if not self._is_informed():
            return Effects()
        learned = self._remember(attrs.evolve(self.record, forgot="log"))
        asks = self._ask_master() if self._question is not None else Effects()
        return attrs.evolve(asks, record=learned.record)

    def _is_informed(self) -> bool:
        if self.record.forgot != "all" or knows_promotions(self.copies, self.members, self._heard):
            return True
        self._become(RoleState.CONNECTING, why_uninformed(self.members, self._heard))
        return False

    def _caught_up(self, mark_bytes: int | None = None) -> Effects:
        """Note that this node has caught up, so that what it holds counts again."""
        self._whole_at = None
        mark = self.record.high_water_bytes if mark_bytes is None else mark_bytes
        if self._state is RoleState.FOLLOWING:
            self._become(RoleState.FOLLOWING)
        return self._remember(attrs.evolve(self.record, forgot="", high_water_bytes=mark))

    def _ask_master(self) -> Effects:
        """Ask the master, because its answer must be younger than the slave's connection."""
        assert self._question is not None
        effects = Effects(ask=self._questions_to([self.promotion.master]))
        self._question.number = self._question.number or self._questions
        return effects

    def _questions_to(self, members: Sequence[str]) -> tuple[tuple[str, int], ...]:
        """Questions to these members, which do not report again unasked what they have reported."""
        number = self.next_question()
        return tuple((member, number) for member in members)

    def _judge(self, member: str, said: GroupState, asked: int) -> Effects:
        """Judge the slave by its master's state; a master that is not open will report again."""
        question = self._question
        if question is None or member != self.promotion.master:
            return Effects()
        ready = said.number == self.promotion.number and said.role == "master" and said.opened
        if not ready:
            return Effects()
        if asked < question.number:
            return self._ask_master()
        self._question = None
        was = self._state, self._reason
        judged = judge(self.node, self.record, question, said)
        self._whole_at = judged.verdict.whole_at_bytes
        self._become(judged.state, judged.reason)
        emitted = () if (self._state, self._reason) == was else (judged.event,)
        return Effects(
            record=self._remember(judged.record).record, verdict=judged.verdict, events=emitted
        )
