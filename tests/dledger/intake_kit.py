"""One `Intake` in the hands of a test, over a log that is a list and synced when the test says."""

from __future__ import annotations

from entry_kit import new_entry

from actors.dledger.core.intake import Intake
from actors.dledger.core.intake_effects import IntakeEffects, Pushed
from actors.dledger.core.push_effects import PushAnswer
from actors.dledger.core.settings import PushSettings
from wire.dledger.codes import PushType, ResponseCode
from wire.dledger.entry import (
    Entry,
)


def entry(index: int, term: int = 5, body: str = "") -> Entry:
    return new_entry(index=index, term=term, pos=100 * index, body=body.encode())


def entries(first: int, last: int, term: int = 5) -> tuple[Entry, ...]:
    return tuple(entry(index, term) for index in range(first, last + 1))


class Ledger:
    """By index; a log that was begun anew has no entries below.

    Attributes:
        gone: entries below have expired, which nobody has reported yet.
    """

    def __init__(self, log: tuple[Entry, ...]) -> None:
        self.log = {each.index: each for each in log}
        self.gone = 0

    def holds(self, entry: Entry) -> bool | None:
        return self.log.get(entry.index) == entry if entry.index >= self.gone else None


class Kit:
    """n0, which follows n1 in term 5 and session 1.

    Attributes:
        answers: by token, of all pushes that were answered.
        alarms, changes: everything that was asked for, a change as (cut from, restart, indexes).
    """

    def __init__(self, *log: Entry, committed: int = -1, waiting_max: int = 1024) -> None:
        self.ledger = Ledger(log)
        self.intake = Intake(settings=PushSettings(), ledger=self.ledger, waiting_max=waiting_max)
        self.now_s = 0.0
        self.answers: dict[int, PushAnswer] = {}
        self.changes: list[tuple[int | None, bool, list[int]]] = []
        self.numbers: list[int] = []
        self.alarm = ""
        self.last = IntakeEffects()
        self.token = 0
        self.follow(committed=committed)

    def follow(self, *, session: int = 1, term: int = 5, committed: int = -1) -> None:
        log = self.ledger.log
        self.did(
            self.intake.follow(
                session=session,
                term=term,
                leader="n1",
                begin=min(log, default=-1),
                end=max(log, default=-1),
                committed=committed,
            )
        )

    def did(self, effects: IntakeEffects) -> IntakeEffects:
        """The store does at once what it is asked; nothing is synced by that."""
        self.last = effects
        self.alarm = self.alarm or effects.alarm
        log = self.ledger.log
        for change in effects.changes:
            indexes = [each.index for each in change.entries]
            self.changes.append((change.cut_from, change.restart, indexes))
            self.numbers.append(change.number)
            for index in list(log):
                if change.restart or (change.cut_from is not None and index >= change.cut_from):
                    del log[index]
            log.update((each.index, each) for each in change.entries)
        for token, answer in effects.answers:
            assert token not in self.answers, "answered twice"
            self.answers[token] = answer
        return effects

    def push(
        self,
        type_: PushType,
        *given: Entry,
        term: int = 5,
        leader: str = "n1",
        commit_index: int = -1,
    ) -> int:
        """Its token."""
        self.token += 1
        pushed = Pushed(
            token=self.token,
            type=type_,
            term=term,
            leader=leader,
            commit_index=commit_index,
            entries=given,
        )
        self.did(self.intake.pushed(self.now_s, pushed))
        return self.token

    def code(self, token: int) -> ResponseCode | None:
        """Of its answer; None: it waits."""
        answer = self.answers.get(token)
        return None if answer is None else answer.code

    def append(self, *given: Entry, commit_index: int = -1) -> int:
        return self.push(PushType.APPEND, *given, commit_index=commit_index)

    def compare(self, given: Entry) -> int:
        return self.push(PushType.COMPARE, given)

    def truncate(self, given: Entry, commit_index: int = -1) -> int:
        return self.push(PushType.TRUNCATE, given, commit_index=commit_index)

    def commit(self, index: int) -> int:
        return self.push(PushType.COMMIT, commit_index=index)

    def sync(self, stored: int | None = None, number: int | None = None) -> None:
        """All that is written is on the disk, or what is said."""
        if stored is None:
            stored = max(self.ledger.log)
        if number is None:
            number = self.numbers[-1] if self.numbers else 0
        self.did(self.intake.stored_to(1, number, stored))

    def terms(self) -> list[int]:
        return [self.ledger.log[index].term for index in sorted(self.ledger.log)]


def matched(last: int = 9, **options: int) -> Kit:
    """Ten entries of term 4, or so many, of which the last was compared."""
    kit = Kit(*entries(0, last, term=4), **options)
    kit.compare(entry(last, 4))
    assert kit.intake.matched == last
    return kit
