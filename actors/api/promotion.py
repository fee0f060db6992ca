"""Carrying out a promotion: asks the members, decides, fences, waits, and tells the new master.

    1. ask every member; choose, or refuse (`core.promotion`)
    2. fence whoever takes appends, or might soon
    3. hand-over: wait until the chosen one has all that the fenced master has, and nobody waits
       for an answer any more
    4. tell the chosen one, then all others
    5. wait until it is open

Nothing here is kept: the members remember. Up to 4 nothing has happened, and the fence is taken
away again; if the coordinator dies there, the group takes no appends until somebody promotes
again. From 4 on the promotion is a fact as soon as one member has heard of it: members tell each
other, and the fence stays, for nobody can know that none of them has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.api.member_session import LOST, lost_text
from actors.errors import OutcomeUnknown
from actors.ha.core.promotion import Plan, Refusal, Wish, decide, handed_over
from actors.log_types import GroupState
from wire import api

LOOK_S = 0.05
"""How often a wait looks: at most two nodes, in a moment that stops the group anyway."""
OPEN_TIMEOUT_S = 30.0
"""For the chosen one to open its log as a master, and to hear its members."""
UNFENCE_TIMEOUT_S = 5.0


class Asks(Protocol):
    """How members are reached; `member_requests.Members`. All raise one of LOST."""

    async def state(self, node: str) -> GroupState: ...
    async def fence(self, node: str, number: int, on: bool) -> GroupState: ...
    async def record(self, node: str, number: int, master: str, force: bool) -> GroupState: ...


@attrs.define
class Promotion:
    """One promotion, from the wish to an open master.

    Attributes:
        drain_timeout_s: how long a hand-over may take.
    """

    wish: Wish
    asks: Asks
    drain_timeout_s: float
    _fenced: list[str] = attrs.field(factory=list)

    async def run(self) -> dict[str, Any]:
        """Do it.

        Returns: what happened, ready for JSON.

        Raises:
            RequestRefused: nothing was changed, or, in words, what was.
            OutcomeUnknown: it may have happened; to be asked for again.
        """
        states, silent = await self._ask(self.wish.members)
        plan = decide(self.wish, states, silent)
        if isinstance(plan, Refusal):
            raise _refused(plan)
        told = False
        try:
            await self._fence(plan)
            if plan.hand_over:
                await self._hand_over(plan)
            told = True
            await self._tell_chosen(plan)
        except RequestRefused:
            told = False  # the chosen one has said that it does not act by it
            raise
        finally:
            if not told:
                await self._unfence(plan.number)
        return await self._finish(plan, states, silent)

    async def _ask(self, nodes: tuple[str, ...]) -> tuple[dict[str, GroupState], dict[str, str]]:
        """Those that answer, in the file's order, and why the others do not."""
        found, lost = await self._each(nodes, self.asks.state)
        return found, {node: lost_text(error) for node, error in lost.items()}

    async def _each(
        self, nodes: tuple[str, ...], ask: Callable[[str], Awaitable[GroupState]]
    ) -> tuple[dict[str, GroupState], dict[str, Exception]]:
        """Ask all at once; whoever is lost, is lost."""
        found: dict[str, GroupState] = {}
        lost: dict[str, Exception] = {}

        async def one(node: str) -> None:
            try:
                found[node] = await ask(node)
            except LOST as error:
                lost[node] = error

        async with trio.open_nursery() as nursery:
            for node in nodes:
                nursery.start_soon(one, node)
        ordered = {node: found[node] for node in nodes if node in found}
        return ordered, {node: lost[node] for node in nodes if node in lost}

    async def _fence(self, plan: Plan) -> None:
        self._fenced = list(plan.fence)  # one that was lost while it was asked may be fenced, too
        _, lost = await self._each(
            plan.fence, lambda node: self.asks.fence(node, plan.number, on=True)
        )
        for node, error in lost.items():
            raise RequestRefused(
                api.ERROR_NOT_AVAILABLE,
                f"{node} cannot be fenced: {lost_text(error)}; nothing was done",
            )

    async def _hand_over(self, plan: Plan) -> None:
        assert plan.old is not None
        pair = (plan.old, plan.chosen)
        states: dict[str, GroupState] = {}
        with trio.move_on_after(self.drain_timeout_s):
            while True:
                states, lost = await self._each(pair, self.asks.state)
                if not lost and handed_over(self.wish, states[plan.old], states[plan.chosen]):
                    return
                await trio.sleep(LOOK_S)
        why = "one of them does not answer"
        if len(states) == len(pair):
            old, chosen = states[plan.old], states[plan.chosen]
            why = (
                f"{plan.chosen} has {self.wish.end_of(chosen)} of {old.written} bytes"
                f" ({chosen.state}), {old.unanswered} records wait for their answer"
            )
        raise RequestRefused(
            api.ERROR_NOT_AVAILABLE,
            f"{plan.chosen} did not get all that {plan.old} has within {self.drain_timeout_s:g} s:"
            f" {why}; {plan.old} goes on as master",
        )

    async def _tell_chosen(self, plan: Plan) -> None:
        # After a hand-over that loses nothing, what the members hold is checked all the same: the
        # old master may have come back in between, without its fence.
        force = self.wish.force and not (plan.hand_over and not plan.losses)
        try:
            await self.asks.record(plan.chosen, plan.number, plan.chosen, force)
        except RequestRefused:
            raise
        except LOST as error:
            raise OutcomeUnknown(
                f"nobody knows whether {plan.chosen} has heard of promotion {plan.number}"
                f" ({lost_text(error)}): promote again"
            ) from error

    async def _unfence(self, number: int) -> None:
        """Also when the operator has gone: the master takes appends again."""
        with trio.move_on_after(UNFENCE_TIMEOUT_S, shield=True):
            await self._each(
                tuple(self._fenced), lambda node: self.asks.fence(node, number, on=False)
            )

    async def _finish(
        self, plan: Plan, states: dict[str, GroupState], silent: dict[str, str]
    ) -> dict[str, Any]:
        """Tell the others that answered, and see the new master open. The silent ones hear it from
        the others when they are back, and nobody waits for them a second time.
        """
        others = tuple(node for node in states if node != plan.chosen)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                self._each,
                others,
                lambda node: self.asks.record(node, plan.number, plan.chosen, force=False),
            )
            opened = await self._see_open(plan)
        if isinstance(opened, str):
            raise RequestRefused(
                api.ERROR_NOT_AVAILABLE,
                f"{plan.chosen} is master of {self.wish.group} by promotion {plan.number}, but"
                f" takes no appends: {opened}",
            )
        now, lost = await self._ask(tuple(states))
        return _answer(plan, opened, now, silent | lost)

    async def _see_open(self, plan: Plan) -> GroupState | str:
        """The chosen one's state once it is open; a text: why it is not."""
        why = "it does not answer"
        with trio.move_on_after(OPEN_TIMEOUT_S):
            while True:
                try:
                    state = await self.asks.state(plan.chosen)
                except LOST as error:
                    why = lost_text(error)
                else:
                    if state.number > plan.number:
                        return f"{state.master} is master by promotion {state.number}"
                    if state.number == plan.number and state.state == "open":
                        return state
                    why = f"{state.state}: {state.reason}"
                await trio.sleep(LOOK_S)
        return why


def _refused(found: Refusal) -> RequestRefused:
    text = "; ".join(found.reasons)
    if found.by_force:
        text += " (--force does it all the same)"
    return RequestRefused(api.ERROR_BAD_REQUEST, text)


def _answer(
    plan: Plan, opened: GroupState, states: dict[str, GroupState], silent: dict[str, str]
) -> dict[str, Any]:
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
    return {
        "group": opened.group,
        "number": plan.number,
        "master": plan.chosen,
        "old_master": plan.old,
        "start_bytes": opened.history[-1].start_bytes,
        "handed_over": plan.hand_over,
        "losses": list(plan.losses),
        "members": members | {node: {"silent": why} for node, why in silent.items()},
    }
