"""`repair` of a DLedger group: a member's entries are read, and damaged ones fetched from others.

All that is committed and synced here is read (`storage.ledger.mending`), because nothing else looks
at old entries before they are needed, and damage that is found then ends the member. Members are
asked one after the other, the leader first. The store judges what they give, and writes it.
"""

from __future__ import annotations

from typing import Any

import attrs

from actors.api.failures import RequestRefused
from actors.control.member_session import LOST, lost_text
from actors.dledger.reading.entry_reader import GetEntry, Inspect
from actors.log_types import GoodRange
from actors.node.ledger_member import LedgerMember
from actors.node.part import asked
from actors.readable import counted
from actors.storage.ledger.mending import Inspected
from actors.storage.ledger.store_messages import Mend
from actors.storage.scrub.mending import Mended
from wire.api import frames


async def entry_range(part: LedgerMember, index: int) -> GoodRange:
    """Implements `NodeHandle.log_range`."""
    found = await asked(
        part.node, part.reader, lambda reply: GetEntry(index=index, reply_to=reply), GoodRange
    )
    if found.refused:
        raise RequestRefused(frames.ERROR_NOT_AVAILABLE, found.refused)
    return found


@attrs.define
class LedgerRepair:
    """One call of `repair`.

    Attributes:
        names: the members to ask, in this order.
    """

    part: LedgerMember
    names: tuple[str, ...]

    async def run(self) -> dict[str, Any]:
        """Mend all damaged entries. Returns: what `Part.repair` does, with entries as the unit."""
        part, index = self.part, 0
        held = await part.wait_offsets(None)
        first, count = held.min, min(held.synced, held.acknowledged) - held.min
        mended: list[dict[str, Any]] = []
        left: list[dict[str, Any]] = []
        while True:
            read = f"{max(0, index - first):,} of {counted(count, 'entry', 'entries')}"
            part.repairing = f"{read} are read"
            found = await self._inspect(index)
            if found.next_index <= index:
                break
            index = found.next_index
            if found.bad is None:
                continue
            at = found.bad.index
            giver, why = await self._mend(at)
            if giver:
                mended.append({"first": at, "next": at + 1, "source": giver})
            else:
                left.append({"first": at, "next": at + 1, "reason": f"{found.bad.reason}; {why}"})
        return {
            "group": part.group.name,
            "node": part.node,
            "unit": "entries",
            "looked": {"first": first, "next": max(first, index)},
            "derived_anew": False,
            "mended": mended,
            "left": left,
        }

    async def _inspect(self, index: int) -> Inspected:
        part = self.part
        return await asked(
            part.node, part.reader, lambda reply: Inspect(index=index, reply_to=reply), Inspected
        )

    async def _mend(self, index: int) -> tuple[str, str]:
        """Mend one entry.

        Returns: the member that gave the bytes and ""; or "" and why no member could, for people.
        """
        part, reasons = self.part, []
        for name in self.names:
            if name in part.group.java_nodes:
                reasons.append(f"{name}: a Java member cannot be asked")
                continue
            try:
                data = await self._given(name, index)
            except LOST as error:
                reasons.append(f"{name}: {lost_text(error)}")
                continue
            done = await self._give(name, index, data)
            if not done.refused:
                return name, ""
            reasons.append(f"{name}: {done.refused}")
        return "", "; ".join(reasons)

    async def _give(self, name: str, index: int, data: bytes) -> Mended:
        part = self.part
        return await asked(
            part.node,
            part.store,
            lambda reply: Mend(index=index, data=data, source=name, reply_to=reply),
            Mended,
        )

    async def _given(self, name: str, index: int) -> bytes:
        """Return the bytes of an entry, from a member. Raises: one of LOST."""
        return (await self.part.links.log_range(name, self.part.group.name, index)).data
