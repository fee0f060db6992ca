"""Who is about to make another node master: the claim that a coordinator has at a group's members.

A coordinator asks every member that answers to hold its claim, one after the other in the file's
order, before it does anything: so of two that ask at once one is refused, by a member's word that
names the other. A random token tells them apart, as both take the same number.

A master takes no appends while it holds a claim. The claim goes through two states:

- announced: nobody has been told of a new master, and nobody will be before the claim is confirmed
  here. So it ends by itself, CLAIM_LEASE_S after its coordinator was last heard, and the master
  takes appends again. What has ended is not held again: the log may have grown since.
- confirmed, where it fences and at the chosen one, just before the chosen one is told. From then on
  the chosen one may be master, also a silent one, so that nothing but the coordinator's own word or
  another promotion ends the fence. When the coordinator has not been heard for CLAIM_LEASE_S the
  claim is `abandoned`: the fence stays, and the next coordinator may take a higher number.

There is no upstream: RocketMQ's controller is one place that decides.
"""

from __future__ import annotations

from typing import Final

import attrs

from actors.ha.core.role_effects import Fence
from actors.log_types import Claim

CLAIM_LEASE_S: Final = 5.0
"""A coordinator says every `api.promotion.RENEW_S` that it still is at it. Five times that: a busy
node is late, and what waits for this are appends behind a coordinator that has died."""


@attrs.frozen(kw_only=True)
class _Held:
    """A live claim.

    Attributes:
        since_s: when it was first heard.
        heard_s: when it was last heard.
    """

    claim: Claim
    since_s: float
    heard_s: float


@attrs.define
class Claims:
    """What one member holds. Nothing of it is remembered: a node that starts again hears members.

    Attributes:
        abandoned: a confirmed claim whose coordinator went away, or was put aside by force.
    """

    _held: _Held | None = None
    abandoned: Claim | None = None

    @property
    def live(self) -> Claim | None:
        """The claim of a coordinator that is at work."""
        return None if self._held is None else self._held.claim

    @property
    def number(self) -> int:
        """The highest that is claimed, 0 for none: the next promotion takes a higher one."""
        return max((each.number for each in (self.live, self.abandoned) if each), default=0)

    @property
    def deadline_s(self) -> float | None:
        """When to call `pass_time`."""
        return None if self._held is None else self._held.heard_s + CLAIM_LEASE_S

    def pass_time(self, now_s: float) -> None:
        """A coordinator that has not been heard for too long is gone."""
        if self._held is not None and now_s >= self._held.heard_s + CLAIM_LEASE_S:
            self._put_aside()

    def take(self, claim: Claim, now_s: float) -> str:
        """Hold a claim, or hear of it again. Returns: why not, "" if it is held."""
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
        self._put_aside()
        self._held = _Held(claim=claim, since_s=now_s, heard_s=now_s)
        return ""

    def drop(self, token: int) -> None:
        """Its coordinator gives it up: it told nobody, or the chosen one has refused."""
        if self._held is not None and self._held.claim.token == token:
            self._held = None
        if self.abandoned is not None and self.abandoned.token == token:
            self.abandoned = None

    def recorded(self, number: int) -> None:
        """Promotion `number` is known here: what was to come up to it has been settled."""
        if self._held is not None and self._held.claim.number <= number:
            self._held = None
        if self.abandoned is not None and self.abandoned.number <= number:
            self.abandoned = None

    def _put_aside(self) -> None:
        held, self._held = self._held, None
        if held is not None and held.claim.kept:
            self.abandoned = held.claim


def why_claimed(group: str, claims: Claims) -> tuple[Fence, str] | None:
    """Why a master takes no appends while a promotion is under way, and what ends it."""
    claim = claims.live
    if claim is not None:
        return Fence.HANDING_OVER, f"{claim.by} makes {claim.master} master by {claim.number}"
    claim = claims.abandoned
    if claim is not None:
        text = f"{claim.by} fell silent making {claim.master} master by number {claim.number}"
        return Fence.ABANDONED, f"{text}: `promote {group}` ends it"
    return None
