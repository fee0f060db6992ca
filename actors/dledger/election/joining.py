"""A provisional voter: a new member, or one that lacks its log; its vote counts only if all vote.

It is one until it has caught up. Upstream's member votes whatever it has lost, and may help to
elect a leader that lacks an acknowledged entry.
"""

from __future__ import annotations

import logging
from typing import Final

import attrs

from actors.dledger.rpc.rpc_messages import Sender
from actors.events.dledger import MembershipChanged
from actors.log_types import Membership
from actors.storage.ledger.member_opening import MemberNote

_LOGGER = logging.getLogger("triolog.dledger")
IS_NEW: Final = "is new"
"""How the text about a member of a new group begins, and that about an added member."""
_REASONS = {
    Membership.FULL: "",
    Membership.NEW: (
        f"{IS_NEW}: its vote counts only with all others', until it holds a leader's log"
    ),
    Membership.FORGOT: (
        "lacks its group's log: its vote counts only with all others', until it holds a leader's"
    ),
}


@attrs.define
class Joining:
    """The membership of this member. The state maintainer owns it. See the module's text.

    Attributes:
        reason: why its vote counts only if all members vote, for people; "" if it counts by itself.
    """

    _sender: Sender
    _note: MemberNote | None = None
    reason: str = attrs.field(default="", init=False)

    def present(self, found: Membership) -> Membership:
        """Return the membership with which an incarnation of the maintainer begins.

        The member may have caught up since the store was opened, in an earlier incarnation.

        Args:
            found: the membership that was found when the store was opened.
        """
        noted = None if self._note is None else self._note.membership()
        return noted or found

    def began(self, membership: Membership) -> tuple[MembershipChanged, ...]:
        """Begin an incarnation of the maintainer with `membership`. Returns: the events to emit."""
        self.reason = _REASONS[membership]
        if membership is Membership.FULL:
            return ()
        level = logging.INFO if membership is Membership.NEW else logging.WARNING
        _LOGGER.log(level, "%s: %s %s", self._sender.group, self._sender.self_id, self.reason)
        return (MembershipChanged(membership=membership.value),)

    def elected(self, peers: tuple[str, ...], members_count: int, end_index: int) -> str:
        """Log what may be lost when this member is elected, and return it; "": nothing is.

        Of what was committed a majority has a copy. If as many had none when they voted, it may
        have been on them alone, and this member has the longest log that is left. A leader that is
        new itself begins a new group.

        Args:
            peers: the provisional voters among the others.
            end_index: where the log of this member ended; -1: it was empty.
        """
        if self.reason.startswith(IS_NEW):
            return ""
        self_id = self._sender.self_id
        lack = sorted([*peers, *([self_id] if self.reason else [])])
        if len(lack) <= members_count // 2:
            return ""
        begins = f"behind entry {end_index}" if end_index >= 0 else "before"
        text = (
            f"{', '.join(lack)} were new or lacked their logs when {self_id} was elected: what"
            f" was committed {begins} may be lost; if a backup or an old disk has more, stop all"
            " members, and begin the group anew on it"
        )
        _LOGGER.warning("%s: %s", self._sender.group, text)
        return text

    def joined(self) -> tuple[MembershipChanged, ...]:
        """Let the member's vote count by itself from now on.

        If that cannot be saved, it holds nevertheless until the node's next start.

        Returns: the events to emit.
        """
        self.reason = ""
        group, self_id = self._sender.group, self._sender.self_id
        _LOGGER.info("%s: %s holds its leader's log now: its vote counts", group, self_id)
        if self._note is not None:
            try:
                self._note.take(Membership.FULL)
            except OSError as error:
                text = "%s: %s cannot note that its vote counts: %s; it begins as before again"
                _LOGGER.warning(text, group, self_id, error)
        return (MembershipChanged(membership=Membership.FULL.value),)
