"""`repair` of a classic group: damaged ranges of its log are fetched from other members.

The scrubber reads the whole log first, for its rounds may not have met what is damaged yet; it
judges the bytes that came and writes them (`storage.scrub.mending`). Here members are asked one
after the other, the master first. A member
gives only what fits its own digest, and is asked only if its log is the same one up to there. A
repair that is interrupted has mended the ranges that it had come to.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.control.member_session import LOST, lost_text
from actors.epochs import compare
from actors.log_types import GoodRange, GroupState
from actors.node.commit_log_part import CommitLogPart
from actors.node.part import asked
from actors.readable import size
from actors.storage.dispatch.dispatcher_messages import Rederive, Rederived
from actors.storage.log.digests import RANGE_BYTES
from actors.storage.scrub.log_check import Rot
from actors.storage.scrub.mending import (
    Damage,
    GetDamage,
    GetGoodRange,
    Mend,
    Mended,
)
from actors.storage.scrub.scrubber_messages import Look, Looked
from wire.api import frames

HEARD_S: Final = 5.0
"""How many seconds to wait until `status` counts the mended copy again."""


async def log_range(part: CommitLogPart, start: int) -> GoodRange:
    """Implements `NodeHandle.log_range`."""
    found = await asked(
        part.node,
        part.scrubber,
        lambda reply: GetGoodRange(start=start, reply_to=reply),
        GoodRange,
    )
    if found.refused:
        raise RequestRefused(frames.ERROR_NOT_AVAILABLE, found.refused)
    return found


@attrs.define
class ClassicRepair:
    """One call of `repair`.

    Attributes:
        own: this node's state when its log was last compared with another member's.
        names: the members to ask, in this order.
        shared: by member, the byte up to which its log equals this node's.
        silent: by member, why it is not asked, for people.
    """

    part: CommitLogPart
    own: GroupState
    names: tuple[str, ...]
    shared: dict[str, int] = attrs.field(factory=dict, init=False)
    silent: dict[str, str] = attrs.field(factory=dict, init=False)

    async def run(self) -> dict[str, Any]:
        """Read the whole log, then mend in rounds until nothing more is found.

        Where no digest is known, damage may show only once the range before it is mended.
        """
        mended: dict[int, tuple[Rot, str]] = {}
        left: dict[int, tuple[Rot, str]] = {}
        looked = {"first": self.own.min, "next": self.own.synced}
        await self._look()
        while new := [rot for rot in await self._damage() if rot.start not in left]:
            if not self.shared and not self.silent:
                for name in self.names:
                    await self._meet(name)
            for rot in new:
                if rot.start in mended:  # a disk that does not keep what it is given
                    left[rot.start] = mended.pop(rot.start)[0], "it is damaged again"
                    continue
                giver, why = await self._mend(rot)
                (mended if giver else left)[rot.start] = rot, giver or why
        anew = [await self._rederived(rot) for rot, _ in mended.values()]
        if not left:
            await self._counts_again()
        return {
            "group": self.part.name,
            "node": self.part.node,
            "unit": "bytes",
            "looked": looked,
            "derived_anew": any(anew),
            "mended": [_outcome(rot, "source", each) for _, (rot, each) in sorted(mended.items())],
            "left": [_outcome(rot, "reason", each) for _, (rot, each) in sorted(left.items())],
        }

    async def _look(self) -> None:
        """Have the log read from its beginning up to where it ends now."""
        part, end = self.part, self.own.synced
        found = Looked(next_bytes=self.own.min, is_over=False)
        while not found.is_over and found.next_bytes < end:
            read, of = size(found.next_bytes - self.own.min), size(end - self.own.min)
            part.repairing = f"{read} of {of} are read"
            found = await self._looked(found.next_bytes)
        part.repairing = "mends"

    async def _looked(self, position: int) -> Looked:
        return await asked(
            self.part.node,
            self.part.scrubber,
            lambda reply: Look(position=position, reply_to=reply),
            Looked,
        )

    async def _rederived(self, rot: Rot) -> bool:
        """Make queues and index anew if damaged bytes are in them. Returns: whether it was so."""
        part = self.part
        done = await asked(
            part.node,
            part.dispatcher,
            lambda reply: Rederive(start_bytes=rot.start, end_bytes=rot.end, reply_to=reply),
            Rederived,
        )
        return done.anew

    async def _counts_again(self) -> None:
        """Wait up to HEARD_S until the role keeper knows that the damage is mended."""
        role_status = self.part.role_status
        with trio.move_on_after(HEARD_S):
            while role_status.view.damage:
                await role_status.wait_changed(role_status.view)

    async def _damage(self, only: tuple[int, int] | None = None) -> tuple[Rot, ...]:
        """Read the damage again, and return the ranges that are damaged.

        Args:
            only: the log bytes [start, end) to which this is limited; None: the whole log.
        """
        part = self.part
        found = await asked(
            part.node, part.scrubber, lambda reply: GetDamage(only=only, reply_to=reply), Damage
        )
        return found.rotten

    async def _meet(self, name: str) -> None:
        """Find out up to which byte a member has the same log, if it has the same log at all."""
        part = self.part
        if name in part.file_group.java_nodes:
            self.silent[name] = "a Java broker cannot be asked"
            return
        try:
            said = await part.links.group_state(name, part.name)
        except LOST as error:
            self.silent[name] = f"does not answer: {lost_text(error)}"
            return
        found = compare(self.own.history, self.own.written, said.history, said.written)
        self.shared[name] = found.consistent_bytes

    async def _meet_again(self, name: str) -> None:
        """Compare with a member again, because both logs may have grown past the damage."""
        self.own = await self.part.group_state()
        await self._meet(name)

    async def _mend(self, rot: Rot) -> tuple[str, str]:
        """Mend one range.

        Returns: the member that gave the bytes and ""; or "" and why no member could, for people.
        """
        reasons: list[str] = []
        all_asked = not self.silent and len(self.names) == len(self.part.file_group.members) - 1
        for outvotes in (False, True) if all_asked else (False,):
            reasons.clear()
            for name in self.names:
                who, refused = name, self.silent.get(name, "")
                if not refused:
                    who, refused = await self._mend_from(name, rot, outvotes)
                if not refused:
                    return name, ""
                if who == self.part.node:
                    return "", f"{who}: {refused}"
                reasons.append(f"{name}: {refused}")
        return "", "; ".join(reasons)

    async def _mend_from(self, name: str, rot: Rot, outvotes: bool) -> tuple[str, str]:
        """Mend one range with one member's bytes.

        Args:
            outvotes: see `Mend`.

        Returns: the node that is the cause of a failure, this one or the member, and the reason;
            "" as the reason if the range is good now.
        """
        until, data = rot.end, bytearray()
        while True:
            if self.shared[name] < until:
                await self._meet_again(name)
            if self.shared[name] < until:
                return name, f"its log is the same up to byte {self.shared[name]} only"
            while rot.start + len(data) < until:
                try:
                    data += await self._range(name, rot.start + len(data), until)
                except LOST as error:
                    return name, lost_text(error)
            done = await self._give(name, rot.start, bytes(data), outvotes)
            if done.refused or done.wants_until <= until:
                break
            until = done.wants_until
        if done.refused or done.wants_until:
            who = self.part.node if done.is_own else name
            return who, done.refused or "the bytes received are damaged"
        found = await self._damage(only=(rot.start, until))
        again = {each.start: each.reason for each in found}
        return name, again.get(rot.start, "")

    async def _range(self, name: str, start: int, until: int) -> bytes:
        """Return the bytes of a range below `until`, from a member. Raises: one of LOST."""
        found = await self.part.links.log_range(name, self.part.name, start)
        size = self.part.file_group.segment_bytes
        due = min(RANGE_BYTES, size - start % size, until - start)
        if found.start != start or len(found.data) < due:
            sent = f"{len(found.data)} bytes from {found.start}"
            text = f"it sent {sent} for {due} from {start}"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        return found.data[:due]

    async def _give(self, name: str, start: int, data: bytes, outvotes: bool) -> Mended:
        part = self.part
        return await asked(
            part.node,
            part.scrubber,
            lambda reply: Mend(
                start=start, data=data, source=name, outvotes=outvotes, reply_to=reply
            ),
            Mended,
        )


def _outcome(rot: Rot, what: str, text: str) -> dict[str, Any]:
    return {"first": rot.start, "next": rot.end, what: text}
