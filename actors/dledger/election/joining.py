"""A provisional voter: a new member, or one that lacks its log; its vote counts only if all vote.

It is one until it has caught up. Upstream's member votes whatever it has lost: with others it may
elect a leader that lacks an acknowledged entry.
"""

from __future__ import annotations

import logging

import attrs

from actors.dledger.rpc.rpc_messages import Sender
from actors.events.dledger import MembershipChanged
from actors.log_types import Membership
from actors.storage.ledger.member_opening import MemberNote

_LOGGER = logging.getLogger("triolog.dledger")
_TOLD = {
    Membership.FULL: "",
    Membership.NEW: "is new: its vote counts only with all others', until it holds a leader's log",
    Membership.FORGOT: (
        "lacks its group's log: its vote counts only with all others', until it holds a leader's"
    ),
}


@attrs.define
class Joining:
    """See the module's text. One owner: the state maintainer.

    Attributes:
        words: for people; "": its vote counts.
    """

    _sender: Sender
    _note: MemberNote | None = None
    words: str = attrs.field(default="", init=False)

    def present(self, found: Membership) -> Membership:
        """What the member is as a life of the maintainer begins. The process may have lived for
        longer, and the member joined in between.

        Args:
            found: when the store was opened.
        """
        noted = None if self._note is None else self._note.membership()
        return noted or found

    def began(self, membership: Membership) -> tuple[MembershipChanged, ...]:
        """What a life of the maintainer begins as. Returns: what to emit."""
        self.words = _TOLD[membership]
        if membership is Membership.FULL:
            return ()
        level = logging.INFO if membership is Membership.NEW else logging.WARNING
        _LOGGER.log(level, "%s: %s %s", self._sender.group, self._sender.self_id, self.words)
        return (MembershipChanged(membership=membership.value),)

    def joined(self) -> tuple[MembershipChanged, ...]:
        """Its vote counts from now on. Returns: what to emit.

        Where that cannot be noted it is so all the same, until a restart.
        """
        self.words = ""
        group, self_id = self._sender.group, self._sender.self_id
        _LOGGER.info("%s: %s holds its leader's log now: its vote counts", group, self_id)
        if self._note is not None:
            try:
                self._note.take(Membership.FULL)
            except OSError as error:
                text = "%s: %s cannot note that its vote counts: %s; it begins as before again"
                _LOGGER.warning(text, group, self_id, error)
        return (MembershipChanged(membership=Membership.FULL.value),)
