"""One `Dispatch` in a script's hand: what a leader in term 5 sends to n1. Pushes have numbers.

leader begin=0 end=9 term=5 committed=-1 entry_bytes=100 pending_max=4 ...
answer NUMBER CODE begin=0 end=9 term=5 count=1 | lost NUMBER | wait SECONDS | due
grow COUNT | commit INDEX | expire BEGIN | unreadable NUMBER | lead term=6 end=9 | rest
"""

from __future__ import annotations

from typing import Any

from dispatch_kit import Sizes
from dledger_words import TURNS_MAX, span

from actors.dledger.core.dispatch import Dispatch
from actors.dledger.core.push_effects import DispatchEffects, Push, PushAnswer
from actors.dledger.core.settings import CompatSettings, PushSettings
from actors.events.dledger import DispatcherChanged, PeerNotUnderstood
from wire.dledger.codes import PushType, ResponseCode

SHOWN_MAX = 6
"""So many pushes that follow on each other are shown each; more as one line."""


def _runs(pushes: tuple[Push, ...]) -> list[list[Push]]:
    """APPENDs that follow on each other are one run."""
    runs: list[list[Push]] = []
    for push in pushes:
        follows = runs and runs[-1][-1].last + 1 == push.first and push.type is PushType.APPEND
        if follows:
            runs[-1].append(push)
        else:
            runs.append([push])
    return runs


class Leader:
    """See the module's text."""

    def __init__(
        self,
        compat: CompatSettings,
        begin: int = 0,
        end: int = 9,
        term: int = 5,
        committed: int = -1,
        entry_bytes: int = 100,
        **settings: Any,
    ) -> None:
        self.sizes = Sizes(entry_bytes, end)
        self.dispatch = Dispatch(
            peer="n1", settings=PushSettings(**settings), sizes=self.sizes, compat=compat
        )
        self.now_s, self.term, self.begin = 0.0, term, begin
        self.pushes: dict[int, Push] = {}
        self.due_s: float | None = None
        self.first = self.do_lead(term=term, begin=begin, end=end, committed=committed)

    def made(self) -> list[str]:
        return self.first

    def did(self, effects: DispatchEffects) -> list[str]:
        self.due_s = effects.deadline_s
        lines = []
        if effects.matched is not None:
            lines.append(f"n1 holds {span(0, effects.matched)}")
        if effects.larger_term is not None:
            lines.append(f"n1 has term {effects.larger_term}")
        for event in effects.events:
            if isinstance(event, PeerNotUnderstood):
                lines.append(f"not understood: {event.said}")
            else:
                assert isinstance(event, DispatcherChanged)
                lines.append(f"{event.state}: {event.detail}")
        self.pushes |= {push.number: push for push in effects.pushes}
        for run in _runs(effects.pushes):
            one, last = run[0], run[-1]
            if len(run) > SHOWN_MAX:
                what = f"send {one.number} to {last.number}: APPEND {span(one.first, last.last)}"
                lines.append(f"{what} in {len(run)} pushes")
                continue
            for push in run:
                entries = f" {span(push.first, push.last)}" if push.first >= 0 else ""
                committed = f", committed {push.commit_index}" if push.commit_index >= 0 else ""
                lines.append(f"send {push.number}: {push.type.name}{entries}{committed}")
        return lines or ["nothing"]

    def do_lead(self, term: int, end: int, begin: int = 0, committed: int = -1) -> list[str]:
        self.term = term
        self.sizes.end = end
        return self.did(
            self.dispatch.lead(self.now_s, term=term, begin=begin, end=end, committed=committed)
        )

    def do_rest(self) -> list[str]:
        return self.did(self.dispatch.rest())

    def do_answer(
        self,
        number: str,
        code: str = "SUCCESS",
        *,
        begin: int = 0,
        end: int | None = None,
        term: int | None = None,
        count: int | None = None,
        index: int | None = None,
    ) -> list[str]:
        """The peer's log ends with the push if nothing else is said."""
        push = self.pushes[int(number)]
        answer = PushAnswer(
            code=ResponseCode[code],
            term=self.term if term is None else term,
            index=push.first if index is None else index,
            count=push.last - push.first + 1 if count is None else count,
            begin=begin,
            end=push.last if end is None else end,
        )
        return self.did(self.dispatch.answered(self.now_s, push, answer))

    def do_lost(self, number: str) -> list[str]:
        return self.did(self.dispatch.answered(self.now_s, self.pushes[int(number)], None))

    def do_unreadable(self, number: str) -> list[str]:
        return self.did(self.dispatch.unreadable(self.now_s, self.pushes[int(number)]))

    def do_wait(self, seconds: str) -> list[str]:
        until_s, lines, turns = self.now_s + float(seconds), [], 0
        while self.due_s is not None and self.due_s <= until_s:
            turns += 1
            assert turns < TURNS_MAX, "it spins"
            self.now_s = max(self.now_s, self.due_s)
            done = self.did(self.dispatch.tick(self.now_s))
            lines += [f"{self.now_s:.1f} s: {line}" for line in done if line != "nothing"]
        self.now_s = until_s
        return lines or ["nothing"]

    def do_due(self) -> list[str]:
        return ["never" if self.due_s is None else f"in {self.due_s - self.now_s:.1f} s"]

    def do_grow(self, count: str) -> list[str]:
        self.sizes.end += int(count)
        return self.did(self.dispatch.grew(self.now_s, self.begin, self.sizes.end))

    def do_expire(self, begin: str) -> list[str]:
        self.begin = int(begin)
        return self.did(self.dispatch.grew(self.now_s, self.begin, self.sizes.end))

    def do_commit(self, index: str) -> list[str]:
        return self.did(self.dispatch.committed(self.now_s, int(index)))
