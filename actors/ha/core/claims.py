"""Claims: a coordinator's intent to make another node master, held by a group's members.

A coordinator asks every member that answers to hold its claim, one after the other in the file's
order, before it does anything. So of two coordinators that ask at once one is refused, by a member
whose answer names the other. Both take the same number, so each claim has a random token.

A master takes no appends while it holds a claim. The claim goes through two states:

- announced: no member has recorded the promotion, and none will before the claim is confirmed here.
  So it ends by itself, CLAIM_LEASE_S after its coordinator was last heard, and the master takes
  appends again. A claim that has ended is not held again: the log may have grown since.
- confirmed: where it fences and at the chosen member, just before that one records the promotion.
  From then on the chosen member may be master, even if it is silent, so the fence does not time
  out. When the coordinator has not been heard for CLAIM_LEASE_S the claim is `abandoned`: the fence
  stays, and the next coordinator may take a higher number.

The promotion itself carries the claim's token. The chosen member accepts it only while it holds
that claim, confirmed. So a coordinator that stood still, or whose chosen member has restarted
since, is refused, and cannot give a number to a second master.

So the chosen member knows: a promotion that it neither holds a claim of nor has recorded will never
take place. A member that holds an abandoned claim asks the chosen one again and again, and its
answer ends the fence, too. Only an answer to a question asked since then counts, because the chosen
member held the claim before any member confirmed it.

There is no upstream: RocketMQ's controller decides alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from actors.ha.core.role_effects import Fence
from actors.log_types import Claim, GroupState, Promotion

CLAIM_LEASE_S: Final = 5.0
"""How long a claim is held after its coordinator was last heard, in seconds. It is renewed every
`control.promotion.RENEW_S`, a fifth of that, because a busy node may be late. After a coordinator
has died, appends wait for so long.
"""
ASK_CHOSEN_S: Final = CLAIM_LEASE_S
"""How often the chosen member is asked, in seconds: its own claim ends within that time."""


@attrs.frozen(kw_only=True)
class _Held:
    """A claim whose coordinator is at work.

    Attributes:
        since_s: when the claim first came.
        heard_s: when it was last renewed.
    """

    claim: Claim
    since_s: float
    heard_s: float


@attrs.define(kw_only=True)
class _Doubt:
    """An abandoned claim.

    Attributes:
        question: the number of the first question that the chosen member was asked since then; 0
            for none.
        ask_s: when to ask it next.
    """

    claim: Claim
    ask_s: float
    question: int = 0


@attrs.define
class Claims:
    """The claims that one member holds. They are not saved: a restarted node asks the members.

    Attributes:
        node: this member. A claim that makes it master is forgotten once it ends.
    """

    node: str = ""
    _held: _Held | None = None
    _doubts: dict[str, _Doubt] = attrs.field(factory=dict)  # by chosen member

    @property
    def live(self) -> Claim | None:
        """The claim of a coordinator that is at work."""
        return None if self._held is None else self._held.claim

    @property
    def abandoned(self) -> Claim | None:
        """The highest confirmed claim whose coordinator went away, or was superseded."""
        claims = (doubt.claim for doubt in self._doubts.values())
        return max(claims, key=lambda claim: claim.number, default=None)

    @property
    def number(self) -> int:
        """The highest number that is claimed; 0 for none. The next promotion takes a higher one."""
        return max((each.number for each in (self.live, self.abandoned) if each), default=0)

    @property
    def deadline_s(self) -> float | None:
        """When to call `pass_time` and `questions`; None if there is no need."""
        times = [doubt.ask_s for doubt in self._doubts.values()]
        if self._held is not None:
            times.append(self._held.heard_s + CLAIM_LEASE_S)
        return min(times, default=None)

    def pass_time(self, now_s: float) -> None:
        """End or abandon the claim of a coordinator that was not heard for CLAIM_LEASE_S."""
        if self._held is not None and now_s >= self._held.heard_s + CLAIM_LEASE_S:
            self._put_aside(now_s)

    def take(self, claim: Claim, now_s: float) -> str:
        """Hold a claim, or renew it. Returns: why it is not held; "" if it is."""
        self.pass_time(now_s)
        held = self._held
        if held is not None and held.claim.token == claim.token:
            kept = held.claim.kept or claim.kept
            known = attrs.evolve(held.claim, kept=kept)
            self._held = attrs.evolve(held, claim=known, heard_s=now_s)
            return ""
        if claim.kept or claim.again:
            return f"promotion {claim.number} by {claim.by} is not claimed here any more"
        if held is not None and not claim.force:
            return (
                f"promotion {held.claim.number} makes {held.claim.master} master, by"
                f" {held.claim.by}, since {now_s - held.since_s:.0f} s: wait for its end"
            )
        unknown = held.claim if held is not None and held.claim.kept else self.abandoned
        if unknown is not None and claim.number <= unknown.number:
            return f"promotion {unknown.number} may have taken place: ask again"
        self._put_aside(now_s)
        self._held = _Held(claim=claim, since_s=now_s, heard_s=now_s)
        return ""

    def why_not_recorded(self, promotion: Promotion, token: int, *, chosen: bool) -> str:
        """Why a new promotion is not accepted; "" if it is.

        Args:
            token: the token of its claim.
            chosen: whether this node becomes master. It settles the promotion: other members are
                sent only what the chosen member has recorded, and accept it without a claim.
        """
        live = self.live
        if live is not None and live.token != token:
            if chosen or live.number >= promotion.number:
                return f"promotion {live.number} of {live.master} is under way"
        elif chosen and (live is None or not live.kept):
            return f"promotion {promotion.number} is not claimed here any more"
        return ""

    def drop(self, token: int) -> None:
        """Forget a claim that its coordinator gives up: no member recorded the promotion, or the
        chosen one refused it.
        """
        if self._held is not None and self._held.claim.token == token:
            self._held = None
        self._settle(lambda claim: claim.token == token)

    def recorded(self, number: int) -> None:
        """Forget the claims up to a promotion that is recorded here now."""
        if self._held is not None and self._held.claim.number <= number:
            self._held = None
        self._settle(lambda claim: claim.number <= number)

    def questions(self, now_s: float, last: int) -> tuple[tuple[str, int], ...]:
        """The members to ask now what became of abandoned claims, each with the question's number.

        Args:
            last: the number of the last question that any member was asked.
        """
        asked = []
        for chosen, doubt in self._doubts.items():
            if now_s >= doubt.ask_s:
                last += 1
                doubt.question = doubt.question or last
                doubt.ask_s = now_s + ASK_CHOSEN_S
                asked.append((chosen, last))
        return tuple(asked)

    def heard(self, member: str, state: GroupState, asked: int, now_s: float) -> Claim | None:
        """Note a member's state.

        Args:
            asked: the number of the question that it answers.

        Returns: an abandoned claim whose promotion, as this shows, will never take place.
        """
        doubt = self._doubts.get(member)
        if doubt is None:
            return None
        if not 0 < doubt.question <= asked:
            doubt.ask_s = now_s  # it runs: an answer comes soon
            return None
        claim = doubt.claim
        if max(state.number, state.claimed) >= claim.number:
            return None
        del self._doubts[member]
        return claim

    def _settle(self, is_over: Callable[[Claim], bool]) -> None:
        kept = self._doubts.items()
        self._doubts = {name: doubt for name, doubt in kept if not is_over(doubt.claim)}

    def _put_aside(self, now_s: float) -> None:
        held, self._held = self._held, None
        if held is not None and held.claim.kept and held.claim.master != self.node:
            self._doubts[held.claim.master] = _Doubt(claim=held.claim, ask_s=now_s)


def why_claimed(group: str, claims: Claims) -> tuple[Fence, str] | None:
    """Why a master takes no appends while a promotion is under way, and what ends it."""
    claim = claims.live
    if claim is not None:
        return Fence.HANDING_OVER, f"{claim.by} makes {claim.master} master by {claim.number}"
    claim = claims.abandoned
    if claim is not None:
        text = (
            f"{claim.by} went away while it made {claim.master} master by promotion"
            f" {claim.number}; {claim.master} knows whether it is, and has not answered: start"
            f" {claim.master}, or type `promote {group}`"
        )
        return Fence.ABANDONED, text
    return None
