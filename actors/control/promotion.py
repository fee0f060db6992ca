"""The coordinator of a promotion: it asks the members, decides, fences, waits, and records it.

    1. Ask every member for its state; choose the new master, or refuse (`core.promotion`).
    2. Claim the promotion at every member that answers, one after the other in the file's order.
       So no other coordinator can be at work, and every member that takes appends, or might soon,
       is fenced (`core.claims`).
    3. Hand over: wait until the chosen member has all that the fenced master has, and no append
       waits for its answer any more.
    4. Confirm the claim where it fences, and at the chosen member.
    5. Record the promotion at the chosen member, then at all others.
    6. Wait until the new master is open.

The coordinator keeps nothing; the members remember. Up to step 4 nothing has happened, and a
failure takes the claim back; if the coordinator dies, the claim ends by itself. From step 4 on the
claim stays. The promotion is a fact as soon as the chosen member has recorded it, and members
report it to each other. If the coordinator dies there, what the chosen member has recorded settles
it; while that one is silent, the status of the old master says what to type.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.control.member_session import LOST, lost_text
from actors.errors import OutcomeUnknown, TriologError
from actors.ha.core.promotion import PromotionPlan, PromotionRefusal, Wish, decide, handed_over
from actors.log_types import Claim, GroupState
from actors.readable import counted
from wire.api import frames

LOOK_S = 0.05
"""The seconds after which a wait asks again. It asks at most two nodes, and the group takes no
appends meanwhile.
"""
OPEN_TIMEOUT_S = 30.0
"""How many seconds the chosen member may take to open as a master, and to hear its members."""
UNFENCE_TIMEOUT_S = 5.0
"""How many seconds to wait for the answers of fenced members whose claim is taken back."""
GONE_S = 3.0
"""A hand-over fails when the chosen member has had no connection to its master for this many
seconds, or when one of the two has not answered for as long. A slave that was just started connects
sooner.
"""
RENEW_S = 1.0
"""The seconds between two renewals of the claim at the members. See CLAIM_LEASE_S."""


class MemberCalls(Protocol):
    """How members are asked; implemented by `members.GroupMembers`. All raise one of LOST."""

    async def state(self, node: str) -> GroupState: ...
    async def fence(self, node: str, claim: Claim, on: bool) -> GroupState: ...
    async def record(
        self, node: str, number: int, master: str, token: int, force: bool
    ) -> GroupState: ...


@attrs.define
class Coordinator:
    """Carries out one promotion, from the request to an open master. See the module's text.

    Attributes:
        wish: what the operator asked for.
        drain_timeout_s: how long a hand-over may take.
        by: the name of the node that carries it out.
        token: drawn for its claim.
    """

    wish: Wish
    asks: MemberCalls
    drain_timeout_s: float
    by: str
    token: int
    _asked: list[str] = attrs.field(factory=list)
    _claimed: list[str] = attrs.field(factory=list)
    _recorded: bool = False  # or it is unknown whether the chosen member has recorded it

    async def run(self) -> dict[str, Any]:
        """Carry the promotion out.

        Returns: what happened, ready for JSON.

        Raises:
            RequestRefused: nothing was changed, or the text says what was.
            OutcomeUnknown: it may have happened; the operator has to ask again.
        """
        states, silent = await states_of(self.asks.state, self.wish.members)
        plan = decide(self.wish, states, silent)
        if isinstance(plan, PromotionRefusal):
            raise _refused(plan)
        states = {node: state for node, state in states.items() if node not in plan.strays}
        claim = Claim(
            number=plan.number,
            token=self.token,
            by=self.by,
            master=plan.chosen,
            force=self.wish.force,
        )
        failed: Exception | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._renew, claim)
                try:
                    await self._switch(plan, claim, tuple(states))
                except TriologError as error:
                    failed = error
                nursery.cancel_scope.cancel()
        finally:
            if not self._recorded:
                await self._take_back(plan, claim)
        if failed is not None:
            raise failed
        return await self._finish(plan, states, silent)

    async def _switch(self, plan: PromotionPlan, claim: Claim, members: tuple[str, ...]) -> None:
        """Carry out steps 2 to 4, and of step 5 the record at the chosen member."""
        await self._claim(plan, claim, members)
        if plan.hand_over:
            await self._hand_over(plan)
        await self._confirm(plan, claim)
        self._recorded = True
        try:
            await self._record_at_chosen(plan)
        except RequestRefused:
            self._recorded = False  # the chosen member answered that it does not act by it
            raise

    async def _claim(self, plan: PromotionPlan, claim: Claim, members: tuple[str, ...]) -> None:
        needed = (*plan.fence, plan.chosen)
        for node in members:
            self._asked.append(node)  # a member that is lost while it is asked may hold it, too
            try:
                await self.asks.fence(node, claim, on=True)
            except RequestRefused as error:
                raise RequestRefused(error.error, f"{error}; nothing was done") from error
            except LOST as error:
                if node in needed:
                    what = "be fenced" if node in plan.fence else "be asked"
                    text = f"{node} cannot {what}: {lost_text(error)}; nothing was done"
                    raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text) from error
            else:
                self._claimed.append(node)

    async def _renew(self, claim: Claim) -> None:
        """Renew the claim again and again. A lost member is ignored here; the steps notice it."""
        again = attrs.evolve(claim, again=True)
        while True:
            await trio.sleep(RENEW_S)
            await _each(
                tuple(self._claimed), lambda node: self.asks.fence(node, again, on=True), RENEW_S
            )

    async def _confirm(self, plan: PromotionPlan, claim: Claim) -> None:
        kept = attrs.evolve(claim, kept=True)
        needed = tuple(dict.fromkeys((*plan.fence, plan.chosen)))
        _, lost = await _each(needed, lambda node: self.asks.fence(node, kept, on=True))
        for node, error in lost.items():
            text = f"{node} was lost: {lost_text(error)}; nothing was done"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)

    async def _hand_over(self, plan: PromotionPlan) -> None:
        """Wait until the chosen member has all that the old master has.

        It may be without a connection to the old master for GONE_S, and no longer.
        """
        assert plan.old is not None
        pair = (plan.old, plan.chosen)
        states: dict[str, GroupState] = {}
        well_s = dict.fromkeys(pair, trio.current_time())
        with trio.move_on_after(self.drain_timeout_s):
            while True:
                states, lost = await _each(pair, self.asks.state, GONE_S)
                if not lost and handed_over(self.wish, states[plan.old], states[plan.chosen]):
                    return
                now_s = trio.current_time()
                for node, state in states.items():
                    if node == plan.old or state.state == "following":
                        well_s[node] = now_s
                for node, seen_s in well_s.items():
                    if now_s - seen_s >= GONE_S:
                        raise _lost_in_hand_over(plan, node, states.get(node))
                await trio.sleep(LOOK_S)
        why = "one of them does not answer"
        if len(states) == len(pair):
            old, chosen = states[plan.old], states[plan.chosen]
            why = (
                f"{plan.chosen} has {self.wish.end_of(chosen)} of {old.written} bytes"
                f" ({chosen.state}),"
                f" {counted(old.unanswered, 'record waits', 'records wait')} for an answer"
            )
        raise RequestRefused(
            frames.ERROR_NOT_AVAILABLE,
            f"{plan.chosen} did not get all that {plan.old} has within {self.drain_timeout_s:g} s:"
            f" {why}; {plan.old} goes on as master",
        )

    async def _record_at_chosen(self, plan: PromotionPlan) -> None:
        # After a hand-over that loses nothing, what the members hold is checked all the same: the
        # old master may have come back in between, without its fence.
        force = self.wish.force and not (plan.hand_over and not plan.losses)
        try:
            await self.asks.record(plan.chosen, plan.number, plan.chosen, self.token, force)
        except RequestRefused as error:
            raise RequestRefused(error.error, f"{error}; nothing was done") from error
        except LOST as error:
            raise OutcomeUnknown(
                f"nobody knows whether {plan.chosen} has heard of promotion {plan.number}"
                f" ({lost_text(error)}): see that {plan.chosen} runs, and `status` says who is"
                f" master; while it cannot run, type `promote {self.wish.group}`"
            ) from error

    async def _take_back(self, plan: PromotionPlan, claim: Claim) -> None:
        """Take the claim back, even when cancelled, so that the master takes appends again.

        Members that are not fenced are hardly waited for, because a claim there ends by itself.
        """
        fenced = tuple(node for node in self._asked if node in plan.fence)
        others = tuple(node for node in self._asked if node not in plan.fence)
        with trio.CancelScope(shield=True):
            for nodes, timeout_s in ((fenced, UNFENCE_TIMEOUT_S), (others, RENEW_S)):
                await _each(nodes, lambda node: self.asks.fence(node, claim, on=False), timeout_s)

    async def _finish(
        self, plan: PromotionPlan, states: dict[str, GroupState], silent: dict[str, str]
    ) -> dict[str, Any]:
        """Record the promotion at the other members that answered, and wait for the new master.

        A silent member is not asked a second time; it learns the promotion from the others when it
        is back.
        """
        others = tuple(node for node in states if node != plan.chosen)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                _each,
                others,
                lambda node: self.asks.record(
                    node, plan.number, plan.chosen, self.token, force=False
                ),
            )
            opened = await see_open(partial(self.asks.state, plan.chosen), plan.number)
        if isinstance(opened, str):
            raise RequestRefused(
                frames.ERROR_NOT_AVAILABLE,
                f"{plan.chosen} is master of {self.wish.group} by promotion {plan.number}, but"
                f" takes no appends: {opened}",
            )
        if opened.number > plan.number:
            raise RequestRefused(
                frames.ERROR_NOT_AVAILABLE,
                f"{plan.chosen} became master of {self.wish.group} by promotion {plan.number}, and"
                f" then a newer promotion came: {opened.master} is master by promotion"
                f" {opened.number}; if it shall be {plan.chosen} all the same, type"
                f" `promote {self.wish.group} {plan.chosen}`",
            )
        now, lost = await states_of(self.asks.state, tuple(states))
        return _answer(plan, opened, now, silent | lost)


async def states_of(
    ask: Callable[[str], Awaitable[GroupState]], nodes: tuple[str, ...]
) -> tuple[dict[str, GroupState], dict[str, str]]:
    """Return the states of the nodes that answer, in the order of `nodes`, and others' errors."""
    found, lost = await _each(nodes, ask)
    return found, {node: lost_text(error) for node, error in lost.items()}


async def _each(
    nodes: tuple[str, ...],
    ask: Callable[[str], Awaitable[GroupState]],
    timeout_s: float = math.inf,
) -> tuple[dict[str, GroupState], dict[str, Exception]]:
    """Ask all nodes at once, and wait for every answer or failure."""
    found: dict[str, GroupState] = {}
    lost: dict[str, Exception] = {}

    async def one(node: str) -> None:
        try:
            with trio.fail_after(timeout_s):
                found[node] = await ask(node)
        except LOST as error:
            lost[node] = error

    async with trio.open_nursery() as nursery:
        for node in nodes:
            nursery.start_soon(one, node)
    ordered = {node: found[node] for node in nodes if node in found}
    return ordered, {node: lost[node] for node in nodes if node in lost}


async def see_open(ask: Callable[[], Awaitable[GroupState]], number: int) -> GroupState | str:
    """Wait until a member is open by this promotion or in this epoch, or acts by a newer one.

    Args:
        ask: gives the member's state.

    Returns: its state then; after OPEN_TIMEOUT_S a text for people, why it is not open.
    """
    why = "it does not answer"
    with trio.move_on_after(OPEN_TIMEOUT_S):
        while True:
            try:
                state = await ask()
            except LOST as error:
                why = lost_text(error)
            else:
                is_open = state.number == number and state.state == "open"
                if is_open or state.number > number:
                    return state
                why = f"{state.state}: {state.reason}"
            await trio.sleep(LOOK_S)
    return why


def member_rows(states: Mapping[str, GroupState], silent: Mapping[str, str]) -> dict[str, Any]:
    """Return what a promotion's answer says of each member.

    Args:
        silent: members that did not answer, and why.
    """
    members: dict[str, Any] = {
        node: {
            "role": state.role,
            "state": state.state,
            "reason": state.reason,
            "number": state.number,
            "written_bytes": state.written,
            "synced_bytes": state.synced,
        }
        for node, state in states.items()
    }
    return members | {node: {"silent": why} for node, why in silent.items()}


def _lost_in_hand_over(plan: PromotionPlan, node: str, state: GroupState | None) -> RequestRefused:
    what = f"has not answered for {GONE_S:g} s"
    if state is not None:
        what = f"has had no connection to {plan.old} for {GONE_S:g} s ({state.state})"
    then = f"{plan.old} goes on as master" if node == plan.chosen else "nothing was done"
    return RequestRefused(frames.ERROR_NOT_AVAILABLE, f"{node} {what}; {then}")


def _refused(found: PromotionRefusal) -> RequestRefused:
    text = "; ".join(found.reasons)
    if found.by_force:
        text += " (--force does it all the same)"
    return RequestRefused(frames.ERROR_BAD_REQUEST, text)


def _answer(
    plan: PromotionPlan, opened: GroupState, states: dict[str, GroupState], silent: dict[str, str]
) -> dict[str, Any]:
    return {
        "group": opened.group,
        "number": plan.number,
        "master": plan.chosen,
        "old_master": plan.old,
        "start_bytes": opened.history[-1].start_bytes,
        "handed_over": plan.hand_over,
        "losses": list(plan.losses),
        "members": member_rows(states, silent),
    }
