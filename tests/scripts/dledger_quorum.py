"""One `Quorum` in a script's hand: n0 and its peers. Appends are named a1, a2 and so on.

quorum members=3 committed=-1 waiting_max=10000 wait_s=2.5
lead term=5 end=9/4 | rest | stored INDEX | matched NAME INDEX | append LAST | appends COUNT
wait SECONDS | applied INDEX | committed
"""

from __future__ import annotations

from typing import Any

import attrs
from dledger_words import TURNS_MAX, end_of, span

from actors.dledger.core.quorum import Quorum, QuorumEffects
from actors.dledger.core.settings import AckSettings, CompatSettings


@attrs.frozen
class Append:
    """One that waits."""

    name: str
    last: int
    deadline_s: float
    appends: int = 1


class Appends:
    """See the module's text."""

    def __init__(
        self,
        compat: CompatSettings,
        members: int = 3,
        committed: int = -1,
        by_applied: bool = False,
        **settings: Any,
    ) -> None:
        self.settings = AckSettings(**settings)
        self.quorum: Quorum[Append] = Quorum(
            self_id="n0",
            peers=tuple(f"n{i}" for i in range(1, members)),
            settings=self.settings,
            compat=compat,
            by_applied=by_applied,
            committed=committed,
        )
        self.now_s, self.session, self.count, self.last = 0.0, 0, 0, -1
        self.due_s: float | None = None

    def made(self) -> list[str]:
        return []

    def did(self, effects: QuorumEffects[Append]) -> list[str]:
        self.due_s = effects.deadline_s
        lines = [] if effects.committed is None else [f"committed {span(0, effects.committed)}"]
        for what, appends in (
            ("done", effects.done),
            ("timed out", effects.timed_out),
            ("unknown", effects.lost),
        ):
            names = [each.name for each in appends]
            if names:
                shown = names if len(names) < 4 else [names[0], "...", names[-1]]
                lines.append(f"{what}: {' '.join(shown)}")
        return lines or ["nothing"]

    def do_lead(self, term: int = 5, end: str = "-") -> list[str]:
        self.session += 1
        log = end_of(end)
        self.last = log.index
        return self.did(
            self.quorum.lead(session=self.session, term=term, end=log.index, end_term=log.term)
        )

    def do_rest(self) -> list[str]:
        return self.did(self.quorum.rest())

    def do_stored(self, index: str) -> list[str]:
        return self.did(self.quorum.stored(self.session, int(index)))

    def do_matched(self, name: str, index: str) -> list[str]:
        return self.did(self.quorum.matched(self.session, name, int(index)))

    def do_append(self, last: str = "") -> list[str]:
        """As a member does: refused if too many wait."""
        if self.quorum.room <= 0:
            return ["LEADER_PENDING_FULL"]
        self.count += 1
        self.last = int(last) if last else self.last + 1
        append = Append(f"a{self.count}", self.last, self.now_s + self.settings.wait_s)
        return self.did(self.quorum.waiting(append))

    def do_appends(self, count: str) -> list[str]:
        lines = [line for _ in range(int(count)) for line in self.do_append() if line != "nothing"]
        refused = lines.count("LEADER_PENDING_FULL")
        return [f"{int(count) - refused} wait, {refused} refused"]

    def do_wait(self, seconds: str) -> list[str]:
        until_s, lines, turns = self.now_s + float(seconds), [], 0
        while self.due_s is not None and self.due_s <= until_s:
            turns += 1
            assert turns < TURNS_MAX, "it spins"
            self.now_s = max(self.now_s, self.due_s)
            lines += self.did(self.quorum.tick(self.now_s))
        self.now_s = until_s
        return lines or ["nothing"]

    def do_applied(self, index: str) -> list[str]:
        return self.did(self.quorum.applied(int(index)))
