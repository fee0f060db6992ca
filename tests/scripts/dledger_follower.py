"""One `Intake` in a script's hand: n0 follows n1 in term 5. Requests have numbers.

    follower terms=1x3,2 begin=0 committed=-1 stored=true
    append INDEX:TERM ... commit=-1 term=5 leader=n1 | commit INDEX
    compare INDEX:TERM | truncate INDEX:TERM commit=-1
    sync [INDEX] | wait SECONDS | follow NAME term=6 | rest term=6 | refused | log

A third part of an entry is its body: 5:5:x. The store does at once what it is asked; what it has
done is on the disk after `sync`, or at once with `synced=true`.
"""

from __future__ import annotations

from dledger_words import TURNS_MAX, span, terms_of, terms_text
from intake_kit import Ledger, entry

from actors.dledger.core.intake import Intake
from actors.dledger.core.intake_effects import IntakeEffects, Pushed
from actors.dledger.core.settings import CompatSettings, PushSettings
from wire.dledger.codes import PushType
from wire.dledger.entry import Entry


def _entry(text: str) -> Entry:
    index, term, *body = text.split(":")
    return entry(int(index), int(term), "".join(body))


class Follower:
    """See the module's text."""

    def __init__(
        self,
        compat: CompatSettings,
        terms: str | int = "-",
        begin: int = 0,
        committed: int = -1,
        waiting_max: int = 1024,
        synced: bool = True,
    ) -> None:
        log = tuple(entry(begin + i, term) for i, term in enumerate(terms_of(terms)))
        self.ledger = Ledger(log)
        self.intake = Intake(
            settings=PushSettings(), ledger=self.ledger, waiting_max=waiting_max, compat=compat
        )
        self.now_s, self.session, self.term, self.leader = 0.0, 0, 5, "n1"
        self.token = self.number = 0
        self.synced = synced
        self.due_s: float | None = None
        self.first = self.do_follow("n1", term=5, committed=committed)

    def made(self) -> list[str]:
        return self.do_log()

    def did(self, effects: IntakeEffects) -> list[str]:
        self.due_s = effects.deadline_s
        lines = [f"ALARM: {effects.alarm}"] if effects.alarm else []
        log = self.ledger.log
        for change in effects.changes:
            first, last = change.entries[0].index, change.entries[-1].index
            what = f"store {span(first, last)}"
            if change.restart:
                what = f"drop everything, {what}"
                log.clear()
            elif change.cut_from is not None:
                what = f"cut from {change.cut_from} on, {what}"
                for index in [each for each in log if each >= change.cut_from]:
                    del log[index]
            lines.append(what)
            self.number = change.number
            log.update((each.index, each) for each in change.entries)
        if effects.committed is not None:
            lines.append(f"committed {effects.committed}")
        if effects.larger_term is not None:
            lines.append(f"term {effects.larger_term} was seen")
        for token, answer in effects.answers:
            held = span(answer.begin, answer.end)
            lines.append(f"answer {token}: {answer.code.name}, log {held}")
        if effects.changes and self.synced and not effects.alarm:
            lines += [line for line in self.do_sync() if line != "nothing"]
        return lines or ["nothing"]

    def push(self, type_: PushType, *given: str, commit: int = -1, **who: object) -> list[str]:
        self.token += 1
        pushed = Pushed(
            token=self.token,
            type=type_,
            commit_index=commit,
            entries=tuple(map(_entry, given)),
            **{"term": self.term, "leader": self.leader, **who},  # type: ignore[arg-type]
        )
        return self.did(self.intake.pushed(self.now_s, pushed))

    def do_append(self, *given: str, **options: object) -> list[str]:
        return self.push(PushType.APPEND, *given, **options)  # type: ignore[arg-type]

    def do_compare(self, given: str, **options: object) -> list[str]:
        return self.push(PushType.COMPARE, given, **options)  # type: ignore[arg-type]

    def do_truncate(self, given: str, **options: object) -> list[str]:
        return self.push(PushType.TRUNCATE, given, **options)  # type: ignore[arg-type]

    def do_commit(self, index: str, **options: object) -> list[str]:
        return self.push(PushType.COMMIT, commit=int(index), **options)  # type: ignore[arg-type]

    def do_sync(self, index: str = "") -> list[str]:
        stored = int(index) if index else max(self.ledger.log)
        return self.did(self.intake.stored_to(self.session, self.number, stored))

    def do_wait(self, seconds: str) -> list[str]:
        until_s, lines, turns = self.now_s + float(seconds), [], 0
        while self.due_s is not None and self.due_s <= until_s:
            turns += 1
            assert turns < TURNS_MAX, "it spins"
            self.now_s = max(self.now_s, self.due_s)
            lines += self.did(self.intake.tick(self.now_s))
        self.now_s = until_s
        return lines or ["nothing"]

    def do_follow(self, name: str, term: int = 5, committed: int = -1) -> list[str]:
        self.session += 1
        self.term, self.leader = term, name
        log = self.ledger.log
        return self.did(
            self.intake.follow(
                session=self.session,
                term=term,
                leader=name,
                begin=min(log, default=-1),
                end=max(log, default=-1),
                committed=committed,
            )
        )

    def do_rest(self, term: int = 5) -> list[str]:
        self.session += 1
        return self.did(self.intake.rest(session=self.session, term=term))

    def do_refused(self) -> list[str]:
        """The store was full: nothing of the last change was done."""
        log = self.ledger.log
        begin, end = min(log, default=-1), max(log, default=-1)
        return self.did(self.intake.refused(self.session, begin, end))

    def do_log(self) -> list[str]:
        log = self.ledger.log
        terms = terms_text(min(log, default=0), (log[index].term for index in sorted(log)))
        committed = self.intake.committed
        return [f"log {terms}; committed {span(0, committed)}"]
