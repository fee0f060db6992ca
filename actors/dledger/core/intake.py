"""How a follower takes pushes: in index order, cutting only what conflicts.

Source: openmessaging/dledger, DLedgerEntryPusher.java (EntryHandler), 0.3.1.2, dialect L;
dledger.md 7 and 11.4, items 1 to 3 and 8; Raft section 5.3.

The session match index (`matched`) is the highest entry that is known to equal the leader's in this
session. A COMPARE that finds the entry, or a TRUNCATE, sets it; appends that follow on it raise it.
The committed index never passes it (CommitWithinMatch).

Inputs: `follow`, `rest`, `pushed`, `stored_to`, `refused`, `expired`, `tick`. Each gives
IntakeEffects.

Differs from upstream:
- Every push is checked for term, leader, role and form first.
- TRUNCATE to an entry that is held cuts nothing. Entries after it are removed once an append
  differs from one of them (bug B11). None at or below the committed index ever is: that would be an
  alarm, and ends the member. Where an entry has expired here, it is not known whether it differs,
  so the leader is asked to compare anew.
- TRUNCATE to an entry that is not held begins the log anew with it: the leader found nothing in
  common, so what comes before the entry here is not known to be what came before it there. Upstream
  keeps it. Where a state machine lacks what comes before it, it is refused.
- The committed index is capped by the session match index, not by the log's end (bug B14), and by
  the entries that the store has still to remove: readers would be shown the old ones.
- A duplicate is answered from the log at once; a newer duplicate of a push that waits takes its
  position (bug V2). Every push that waits too long is answered, and forgotten.
- What acknowledges an entry (a 200 to APPEND, COMPARE or TRUNCATE) is sent only once the log is
  stored up to it, and on the disk in a synced group.

`CompatSettings` takes single ones of these back: `match_is_end` (what an empty log shares is still
not known before a TRUNCATE), `cut_committed`, `commit_to_end`, `pushes_stick`.
"""

from __future__ import annotations

import heapq
import itertools
from typing import assert_never

import attrs

from actors.dledger.core.intake_effects import IntakeEffects, LedgerView, Pushed, StoreChange
from actors.dledger.core.machine_guard import MachineGuard
from actors.dledger.core.member_state import INDEX_NONE
from actors.dledger.core.push_effects import PushAnswer
from actors.dledger.core.settings import STRICT, CompatSettings, PushSettings
from actors.dledger.core.waiting_pushes import WaitingPushes
from actors.events import dledger as events
from wire.dledger.codes import PushType, ResponseCode
from wire.dledger.entry import Entry


@attrs.define(kw_only=True)
class UnsentAnswers:
    """A follower's answers that acknowledge entries, kept until these entries are stored.

    They are kept in the order of the entries, then of the pushes. There is no upstream: a member
    there acknowledges what it has written (bug B9).

    Attributes:
        most: how many may wait.
    """

    most: int
    _waiting: list[tuple[int, int, Pushed]] = attrs.field(factory=list, init=False)  # a heap
    _order: int = attrs.field(default=0, init=False)  # orders the pushes of one index

    def add(self, index: int, pushed: Pushed) -> bool:
        """Keep the answer to a push until the log is stored up to `index`.

        Returns: whether there is room for it.
        """
        if len(self._waiting) >= self.most:
            return False
        self._order += 1
        heapq.heappush(self._waiting, (index, self._order, pushed))
        return True

    def stored(self, index: int) -> list[Pushed]:
        """Remove and return the pushes that wait for that entry or an earlier one."""
        found = []
        while self._waiting and self._waiting[0][0] <= index:
            found.append(heapq.heappop(self._waiting)[2])
        return found

    def leaving(self, first: int) -> list[Pushed]:
        """Remove and return the pushes that wait for that entry or a later one, which are cut."""
        waiting = sorted(self._waiting)
        self._waiting = [each for each in waiting if each[0] < first]  # what is sorted is a heap
        return [pushed for index, _, pushed in waiting if index >= first]

    def clear(self) -> list[Pushed]:
        """Remove and return all of them."""
        return self.leaving(-1)


@attrs.define(kw_only=True)
class Intake:
    """See the module's text.

    Attributes:
        compat: upstream's looser rules.
        waiting_max: pushes that wait for those before them, and as many that wait for the disk; a
            further one is refused with PUSH_REQUEST_IS_FULL.
        committed: the highest index known to be committed; -1: none.
        begin, end: the first and the last entry of the own log, as it will be once the store has
            done all that it was asked for.
        stored: the last entry that is stored; in a synced group, the last that is synced.
        matched: see the module's text; None if nothing was compared in this session.
        machine: refuses a log with which the state machine cannot go on.
    """

    settings: PushSettings
    ledger: LedgerView
    waiting_max: int
    compat: CompatSettings = STRICT
    committed: int = INDEX_NONE
    begin: int = INDEX_NONE
    end: int = INDEX_NONE
    stored: int = INDEX_NONE
    machine: MachineGuard = attrs.field(factory=MachineGuard)
    matched: int | None = attrs.field(default=None, init=False)
    _session: int = attrs.field(default=0, init=False)
    _term: int = attrs.field(default=-1, init=False)
    _leader: str = attrs.field(default="", init=False)
    _following: bool = attrs.field(default=False, init=False)
    _cut_seen: bool = attrs.field(default=False, init=False)  # a TRUNCATE came in this session
    _waiting: WaitingPushes = attrs.field(init=False)
    _unsent: UnsentAnswers = attrs.field(init=False)
    _changed: int = attrs.field(default=0, init=False)  # number of the last change
    _cut: int = attrs.field(default=0, init=False)  # number of the last one that removed entries
    _answers: list[tuple[int, PushAnswer]] = attrs.field(factory=list, init=False)
    _changes: list[StoreChange] = attrs.field(factory=list, init=False)
    _events: list[object] = attrs.field(factory=list, init=False)
    _committed_new: int | None = attrs.field(default=None, init=False)
    _leader_committed: int = attrs.field(default=INDEX_NONE, init=False)  # in this session
    _leaving: int | None = attrs.field(default=None, init=False)  # removed from there on, soon
    _differs: int | None = attrs.field(default=None, init=False)  # committed, by a COMPARE
    _alarm: str = attrs.field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        self._unsent = UnsentAnswers(most=self.waiting_max)
        self._waiting = WaitingPushes(
            most=self.waiting_max, gap_s=self.settings.gap_s, sticks=self.compat.pushes_stick
        )

    @property
    def term(self) -> int:
        """The term of the session, -1 before the first."""
        return self._term

    # ---- inputs ----

    def follow(
        self, *, session: int, term: int, leader: str, begin: int, end: int, committed: int
    ) -> IntakeEffects:
        """Begin a session: this member follows `leader`, and its whole log is stored.

        Args:
            committed: the committed index as far as known, perhaps from this member's own
                leadership.
        """
        self._drop_all(ResponseCode.NOT_FOLLOWER)
        self._following, self._session, self._term, self._leader = True, session, term, leader
        self.begin, self.end, self.stored = begin, end, end
        self.committed = max(self.committed, committed)
        self.matched, self._cut_seen, self._differs = self._unknown(), False, None
        self._leader_committed, self._leaving = INDEX_NONE, None
        return self._effects()

    def rest(self, *, session: int, term: int) -> IntakeEffects:
        """End the session: this member follows nobody."""
        self._drop_all(ResponseCode.NOT_FOLLOWER)
        self._following, self._session, self._term, self._leader = False, session, term, ""
        self.matched = None
        return self._effects()

    def pushed(self, now_s: float, pushed: Pushed) -> IntakeEffects:
        """Take a leader's push."""
        code = self._gate(pushed)
        if code is not None:
            self._answer(pushed, code)
            larger = pushed.term if pushed.term > self._term else None
            return attrs.evolve(self._effects(), larger_term=larger)
        match pushed.type:
            case PushType.APPEND:
                self._append(now_s, pushed)
            case PushType.COMPARE:
                self._compare(pushed)
            case PushType.TRUNCATE:
                self._truncate(pushed)
            case PushType.COMMIT:
                self._commit(pushed.commit_index)
                # A follower that has compared nothing answers so, and a leader of ours compares.
                good = self.matched is not None or self.compat.commit_to_end
                code = ResponseCode.SUCCESS if good else ResponseCode.INCONSISTENT_STATE
                self._answer(pushed, code)
            case _:
                assert_never(pushed.type)
        return self._effects()

    def stored_to(self, session: int, number: int, stored: int) -> IntakeEffects:
        """Note that the log is stored up to `stored`, with the change `number` and all before it.

        A report that is older than the last removal of entries is ignored, because other entries
        may have their indexes now.
        """
        if session == self._session and number >= self._cut:
            assert stored <= self.end
            self.stored = max(self.stored, stored)
            self._leaving = None
            self._raise_committed()
            for pushed in self._unsent.stored(stored):
                self._answer(pushed, ResponseCode.SUCCESS)
        return self._effects()

    def refused(self, session: int, begin: int, end: int) -> IntakeEffects:
        """Note that the store refused a change and all later ones, perhaps for a full disk.

        Args:
            begin, end: the first and the last entry of its log as it is.
        """
        if session == self._session:
            self.begin, self.end = begin, end
            self.stored = min(self.stored, end)
            self.matched = self._unknown()
            self._leader_committed, self._leaving = INDEX_NONE, None
            self._drop_all(ResponseCode.INCONSISTENT_STATE)
        return self._effects()

    def expired(self, begin: int) -> IntakeEffects:
        """Note that the entries before `begin` have expired here."""
        assert self.begin <= begin <= self.end
        self.begin = begin
        return self._effects()

    def tick(self, now_s: float) -> IntakeEffects:
        """Answer the pushes that have waited too long, so that the leader compares again.

        Called when `IntakeEffects.deadline_s` has passed.
        """
        for pushed in self._waiting.late(now_s):
            self._answer(pushed, ResponseCode.INCONSISTENT_STATE)
            self._waiting.answered(pushed)
        return self._effects()

    # ---- kinds ----

    def _gate(self, pushed: Pushed) -> ResponseCode | None:
        """Return why a push is refused unread; None if it is not (dledger.md 11.4, item 1)."""
        if pushed.term < self._term:
            return ResponseCode.EXPIRED_TERM
        if pushed.term > self._term or not self._following:
            return ResponseCode.NOT_FOLLOWER
        if pushed.leader != self._leader:
            return ResponseCode.INCONSISTENT_LEADER
        return None if pushed.is_well_formed else ResponseCode.UNEXPECTED_ARGUMENT

    def _unknown(self) -> int | None:
        """Return the match index before anything was compared; None if it is unknown."""
        return self.end if self.compat.match_is_end and self.end >= 0 else None

    def _append(self, now_s: float, pushed: Pushed) -> None:
        if self.matched is None:
            self._answer(pushed, ResponseCode.INCONSISTENT_STATE)  # to be compared first
        elif pushed.first > self.matched + 1:
            refused = self._waiting.keep(now_s, pushed)
            if refused is not None:
                self._answer(*refused)
        else:
            self._take(pushed)
            while (following := self._waiting.next(self.matched)) is not None:
                self._take(following)

    def _take(self, pushed: Pushed) -> None:
        """Take the entries of an APPEND that begins within or right after the match; skip those
        held.
        """
        assert self.matched is not None
        assert pushed.first <= self.matched + 1
        held = itertools.takewhile(self._holds, pushed.entries)
        entries = pushed.entries[sum(1 for _ in held) :]
        if entries and entries[0].index <= max(self.matched, self.begin - 1):
            # Two entries of one leader differ, or the one that it sends has expired here.
            self._answer(pushed, ResponseCode.INCONSISTENT_STATE)
            return
        if entries and not self._write(entries):
            self._refuse(pushed)
            return
        self.matched = max(self.matched, pushed.last)
        self._commit(pushed.commit_index)
        self._acknowledge(pushed, pushed.last)

    def _holds(self, entry: Entry) -> bool:
        return self._finds(entry) is True

    def _finds(self, entry: Entry) -> bool | None:
        """Return whether the log holds this entry at its index; None if it has no entry there."""
        there = 0 <= self.begin <= entry.index <= self.end
        return self.ledger.holds(entry) if there else None

    def _write(self, entries: tuple[Entry, ...]) -> bool:
        """Have the store write entries from the first one's index on, in place of what is there.

        Returns: whether that may be done.
        """
        first = entries[0].index
        assert 0 <= self.begin <= first <= self.end + 1
        cut = first if first <= self.end else None
        if cut is not None:
            if not self._may_leave(entries[0]):
                return False
            self._take_away(first, then=first)
            self.stored = min(self.stored, first - 1)
        self.end = entries[-1].index
        self._change(entries, cut_from=cut)
        return True

    def _may_leave(self, entry: Entry) -> bool:
        """Return whether the entries from this index on may be removed, because none is committed.

        Raise the alarm if a committed entry is known to differ from the leader's.
        """
        there = min(self.committed, self.end)  # a log that began anew may have less, or none
        if max(entry.index, self.begin) > there or self.compat.cut_committed:
            return not self._alarm
        differs = self._differs if self._finds(entry) is None else entry.index
        if differs is not None:
            self._alarm = f"entry {differs} is committed and differs from the leader's"
        return False

    def _take_away(self, first: int, *, then: int) -> None:
        """Have the store remove entries from `first` on, and drop the answers about them."""
        for pushed in self._unsent.leaving(first):
            self._answer(pushed, ResponseCode.INCONSISTENT_STATE)
        self._events.append(
            events.LedgerTruncated(session=self._session, index=first, end=self.end, next=then)
        )
        self._cut = self._changed + 1
        self._leaving = first if self._leaving is None else min(first, self._leaving)

    def _change(
        self, entries: tuple[Entry, ...], *, cut_from: int | None = None, restart: bool = False
    ) -> None:
        self._changed += 1
        change = StoreChange(
            session=self._session,
            number=self._changed,
            cut_from=cut_from,
            restart=restart,
            entries=entries,
        )
        self._changes.append(change)

    def _compare(self, pushed: Pushed) -> None:
        entry = pushed.entries[0]
        self._drop_waiting()
        if self._holds(entry):
            known = self._unknown()
            self.matched, self._cut_seen = entry.index if known is None else known, False
            self._acknowledge(pushed, entry.index)
        else:
            if entry.index <= self.committed and self._finds(entry) is False:
                self._differs = entry.index
            self.matched = self._unknown()
            self._answer(pushed, ResponseCode.INCONSISTENT_STATE)

    def _truncate(self, pushed: Pushed) -> None:
        """Take a TRUNCATE: adopt its entry from the leader, and let the match end there."""
        entry = pushed.entries[0]
        self._drop_waiting()
        if self.compat.match_is_end and 0 <= self.begin <= entry.index <= self.end + 1:
            last = entry.index == self.end and self._holds(entry)
            done = last or self._write((entry,))
        else:
            done = self._holds(entry) or self._restart(entry)
        if not done:
            self._refuse(pushed)
            return
        self.matched, self._cut_seen = entry.index, True
        self._commit(pushed.commit_index)
        self._acknowledge(pushed, entry.index)

    def _restart(self, entry: Entry) -> bool:
        """Have the log begin anew with the entry. Returns: whether that may be done."""
        if not self._may_leave(entry):
            return False
        if self.machine.lacks(entry.index):
            self._events += self.machine.said(self._session, self._leader, entry.index)
            return False
        if self.begin >= 0:
            self._take_away(self.begin, then=entry.index)
            self._leaving = 0
        self.begin = self.end = entry.index
        self.stored = entry.index - 1
        self._change((entry,), restart=True)
        return True

    def _commit(self, commit_index: int) -> None:
        self._leader_committed = max(self._leader_committed, commit_index)
        self._raise_committed()

    def _raise_committed(self) -> None:
        # CommitWithinMatch, CommittedNeverLeaves, CommittedIndexMonotonic
        matched = self.matched if self.matched is not None else INDEX_NONE
        index = min(self._leader_committed, self.end if self.compat.commit_to_end else matched)
        if self._leaving is not None:
            index = min(index, self._leaving - 1)
        if index > self.committed:
            self.committed = self._committed_new = index
            self._events.append(events.CommittedRose(session=self._session, index=index))

    # ---- answers ----

    def _acknowledge(self, pushed: Pushed, index: int) -> None:
        if index <= self.stored:
            self._answer(pushed, ResponseCode.SUCCESS)
        elif not self._unsent.add(index, pushed):
            self._answer(pushed, ResponseCode.PUSH_REQUEST_IS_FULL)

    def _answer(self, pushed: Pushed, code: ResponseCode) -> None:
        if self._waiting.take_answered(pushed):
            return
        end = self.end
        if pushed.type is not PushType.COMPARE and self._cut_seen and self.matched is not None:
            end = self.matched
        term = self._term if code is ResponseCode.EXPIRED_TERM else pushed.term
        self._answers.append((pushed.token, pushed.answer(code, term, self.begin, end)))

    def _refuse(self, pushed: Pushed) -> None:
        """Refuse a push, so that its leader compares; after an alarm, answer nothing."""
        if not self._alarm:
            self._answer(pushed, ResponseCode.INCONSISTENT_STATE)

    def _drop_waiting(self) -> None:
        """Answer and forget the pushes that wait, because they were sent before the comparison."""
        for pushed in self._waiting.clear():
            self._answer(pushed, ResponseCode.INCONSISTENT_STATE)

    def _drop_all(self, code: ResponseCode) -> None:
        for pushed in (*self._waiting.clear(), *self._unsent.clear()):
            self._answer(pushed, code)

    def _effects(self) -> IntakeEffects:
        answers, self._answers = tuple(self._answers), []
        changes, self._changes = tuple(self._changes), []
        said, self._events = tuple(self._events), []
        committed, self._committed_new = self._committed_new, None
        return IntakeEffects(
            alarm=self._alarm,
            changes=changes,
            committed=committed,
            answers=answers,
            events=said,
            deadline_s=self._waiting.deadline_s,
        )
