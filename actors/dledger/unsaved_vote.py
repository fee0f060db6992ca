"""A vote that a member cannot save: nothing of it leaves the member, so it says why it is silent.

Upstream: openmessaging/dledger, MemberState.java (persistTerm, 0.3.1.2), which logs the failure and
answers as if the vote were kept.
"""

from __future__ import annotations

import attrs

from actors.dledger.base_fields import Sender
from actors.dledger.refusal_log import RefusalLog
from actors.events.dledger import VoteUnsaved


@attrs.define
class UnsavedVote:
    """See the module's text. One owner: the state maintainer.

    Attributes:
        words: what is in the way, for people; "": nothing is.
    """

    _sender: Sender
    words: str = attrs.field(default="", init=False)
    _log: RefusalLog = attrs.field(
        default=attrs.Factory(lambda vote: RefusalLog(vote._sender.group), takes_self=True),
        init=False,
    )

    def tried(self, term: int, error: Exception | None) -> tuple[VoteUnsaved, ...]:
        """A vote was saved, or it could not be, and will be tried again. Warns of what is news.

        Returns: what to emit.
        """
        before, me = self.words, self._sender.self_id
        if error is None:
            self.words, reason = "", ""
            said = f"{me} has saved its vote of term {term}, and goes on"
        else:
            reason = str(error) or type(error).__name__
            self.words = f"cannot save its vote of term {term}: {reason}"
            said = f"{me} {self.words}; until it can it takes no part in elections"
        if bool(before) == bool(self.words):
            return ()
        self._log.say(me, said)
        return (VoteUnsaved(term=term, reason=reason),)
