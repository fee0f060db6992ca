"""How a leader makes one peer's log equal to its own: by COMPARE, TRUNCATE, APPEND and COMMIT.

Source: openmessaging/dledger, DLedgerEntryPusher.java (EntryDispatcher), 0.3.1.2, dialect L;
dledger.md 6.1 and 6.2.

INSTALL_SNAPSHOT is dialect N's (0.4.0), between our own members: a peer that has nothing in common
with a log whose beginning is gone gets a snapshot, and then the entry at its index by TRUNCATE.

Inputs: `lead`, `rest`, `grew`, `committed`, `answered`, `unreadable`, `installed`,
`install_failed`, `tick`. Each gives DispatchEffects. An answer to a push of an earlier session
counts for nothing.

Differs from upstream:
- Pushes follow the log's growth, nothing polls.
- Three resends without progress lead back to COMPARE (bug V2; `CompatSettings.pushes_stick`), as
  does a follower whose answer to a COMMIT says that its log ends below what it had acknowledged
  when the COMMIT was sent (bug V8; `commits_unread`). What it acknowledged before is not counted
  any more.
- A search begins anew at the log's end when an answer does not come (with `search_by_one` it goes
  on): the peer may have restarted meanwhile and lost a log that it kept in memory, and its vote
  counts once it has the entry that a search compares first.
- Entries that are refused again after a comparison are sent again after a pause: the peer's files
  may have another size, so that it never takes them.
- An acknowledgement takes all pushes up to it from the pending ones at once.
- An answer to a push from before the last COMPARE is ignored. One that does not fit its push
  (`core.push_answers`) counts for nothing, and the peer is compared again after a pause.
"""

from __future__ import annotations

from typing import assert_never

import attrs

from actors.dledger.core.compare import CommonEntry, Search
from actors.dledger.core.patience import TAKES_NO_SNAPSHOT, Patience
from actors.dledger.core.push_answers import misfit, said
from actors.dledger.core.push_effects import (
    DISPATCHER_TRANSITIONS,
    DispatchEffects,
    DispatcherState,
    LedgerSizes,
    Push,
    PushAnswer,
)
from actors.dledger.core.push_window import PushWindow, UnderWay
from actors.dledger.core.settings import STRICT, CompatSettings, PushSettings
from actors.events import dledger as events
from actors.readable import counted
from wire.dledger.codes import PushType, ResponseCode


@attrs.define
class Quota:
    """Limits the bytes that a leader sends in each second to a peer that is far behind.

    The limit keeps bandwidth for the other peers.

    Source: openmessaging/dledger, DLedgerEntryPusher.java (EntryDispatcher.checkQuotaAndWait) and
    utils/Quota.java, 0.3.1.2; dledger.md 6.2.

    Differs: no thread sleeps until the next second, and the entries of batches are counted, too.
    """

    _settings: PushSettings
    _second: int = attrs.field(default=0, init=False)
    _taken_bytes: int = attrs.field(default=0, init=False)  # in that second

    def take(self, now_s: float, size_bytes: int, *, behind: int, behind_bytes: int) -> bool:
        """Return whether these bytes may be sent in the present second, and count them if so.

        Args:
            behind, behind_bytes: how many entries, and bytes of entries, the peer lacks up to the
                log's end.
        """
        settings = self._settings
        if not settings.quota_bytes_per_s or behind <= settings.throttle_entries:
            return True
        if behind_bytes < settings.throttle_bytes:
            return True
        if int(now_s) != self._second:
            self._second, self._taken_bytes = int(now_s), 0
        if self._taken_bytes >= settings.quota_bytes_per_s:
            return False
        self._taken_bytes += size_bytes
        return True

    @property
    def again_s(self) -> float:
        """The Trio time of the next second, when `take` may allow bytes again."""
        return float(self._second + 1)


@attrs.define(kw_only=True)
class Dispatch:
    """See the module's text.

    Attributes:
        peer: the peer's name.
        compat: upstream's looser rules.
        search_by_one: `compare.Search.by_one`.
        state: what the dispatcher does with the peer; meaningful while `leading`.
        matched: the index up to which the peer holds this log, by its answers in this session; -1
            if nothing is known. It falls only where the peer has lost what it acknowledged.
        refusal: what the peer refuses even after repeated comparisons, for people; "" for nothing.
    """

    peer: str
    settings: PushSettings
    sizes: LedgerSizes
    compat: CompatSettings = STRICT
    search_by_one: bool = attrs.field(
        default=attrs.Factory(lambda dispatch: dispatch.compat.compare_by_one, takes_self=True)
    )
    state: DispatcherState = attrs.field(default=DispatcherState.COMPARE, init=False)
    leading: bool = attrs.field(default=False, init=False)
    matched: int = attrs.field(default=-1, init=False)
    refusal: str = attrs.field(default="", init=False)
    _term: int = attrs.field(default=-1, init=False)
    _begin: int = attrs.field(default=-1, init=False)
    _end: int = attrs.field(default=-1, init=False)
    _committed: int = attrs.field(default=-1, init=False)
    _said: int = attrs.field(default=-1, init=False)  # the committed index of the last push
    _write: int = attrs.field(default=0, init=False)  # the next entry to append
    _window: PushWindow = attrs.field(
        default=attrs.Factory(lambda dispatch: PushWindow(dispatch.settings), takes_self=True),
        init=False,
    )
    _resends: int = attrs.field(default=0, init=False)
    _patience: Patience = attrs.field(
        default=attrs.Factory(lambda dispatch: Patience(dispatch.settings), takes_self=True),
        init=False,
    )
    _search: Search | None = attrs.field(default=None, init=False)
    _probe: Push | None = attrs.field(default=None, init=False)  # the COMPARE or TRUNCATE under way
    _probe_s: float = attrs.field(default=0.0, init=False)  # when its answer is overdue
    _pause_s: float = attrs.field(default=0.0, init=False)  # nothing is sent before then
    _phase: int = attrs.field(default=0, init=False)  # number of the last push of an older state
    _asked: tuple[int, int] = attrs.field(default=(0, -1), init=False)  # COMMIT; `matched` then
    _last_push_s: float = attrs.field(default=0.0, init=False)
    _quota: Quota = attrs.field(
        default=attrs.Factory(lambda dispatch: Quota(dispatch.settings), takes_self=True),
        init=False,
    )
    _number: int = attrs.field(default=0, init=False)
    _install: bool = attrs.field(default=False, init=False)  # a snapshot is to be sent
    _pushes: list[Push] = attrs.field(factory=list, init=False)
    _events: list[object] = attrs.field(factory=list, init=False)

    @property
    def lag(self) -> int | None:
        """How many entries the peer is not known to hold; None if nothing is known of its log."""
        known = self.matched >= 0 or self.state is DispatcherState.APPEND
        return self._end - self.matched if known else None

    # ---- inputs ----

    def lead(
        self, now_s: float, *, term: int, begin: int, end: int, committed: int
    ) -> DispatchEffects:
        """Begin a session: this member leads `term`, and nothing is known of the peer's log."""
        self.leading, self._term = True, term
        self._committed, self._said = committed, -1
        self._begin, self._end, self.matched = begin, end, -1
        self._last_push_s = self._pause_s = now_s
        self.refusal = ""
        self._patience.forget()
        self._to_compare("a new session")
        return self._effects(now_s, None)

    def rest(self) -> DispatchEffects:
        """End the session: this member does not lead any more."""
        self.leading = False
        self._window.clear()
        self._search, self._probe = None, None
        return DispatchEffects()

    def grew(self, now_s: float, begin: int, end: int, committed: int = -1) -> DispatchEffects:
        """Note the log's new range, and send what the bounds allow.

        Args:
            begin: entries below it have expired.
            end: the last entry.
            committed: the committed index, as far as known.
        """
        if not self.leading:
            return DispatchEffects()
        assert end >= self._end
        self._begin, self._end = begin, end
        self._committed = max(self._committed, committed)
        return self._effects(now_s, None)

    def committed(self, now_s: float, index: int) -> DispatchEffects:
        """Note that the committed index rose; the next push carries it."""
        self._committed = max(self._committed, index)
        return self._effects(now_s, None)

    def answered(self, now_s: float, push: Push, answer: PushAnswer | None) -> DispatchEffects:
        """Take the answer to a push; None if no answer can come any more."""
        if not self.leading:
            return DispatchEffects()
        if answer is not None and answer.term > self._term:
            return attrs.evolve(self._effects(now_s, None), larger_term=answer.term)
        before, probe = self.matched, self._probe
        waited = push.number > self._phase if probe is None else push.number == probe.number
        why = misfit(push, answer, self._term) if waited and answer is not None else ""
        if answer is not None and why:
            self._not_understood(now_s, answer, why)
        elif waited and probe is not None:
            self._probe_answered(now_s, push, answer)
        elif waited and answer is not None:
            match push.type:
                case PushType.APPEND:
                    self._append_answered(now_s, answer)
                case PushType.COMMIT:
                    self._commit_answered(push, answer)
                case PushType.COMPARE | PushType.TRUNCATE:
                    pass  # the session that waited for it has ended
                case _:
                    assert_never(push.type)
        return self._effects(now_s, self.matched if self.matched != before else None)

    def unreadable(self, now_s: float, push: Push) -> DispatchEffects:
        """Note that an entry of the push expired before it was read, so it was not sent."""
        if self.leading:
            self._to_compare(f"entry {push.first} has expired")
        return self._effects(now_s, None)

    def installed(self, now_s: float, index: int) -> DispatchEffects:
        """Note that the peer has a snapshot up to `index`; its log has to begin with that entry."""
        if self.leading and self.state is DispatcherState.INSTALL_SNAPSHOT:
            self._change(DispatcherState.TRUNCATE, f"to {index}, whose snapshot the peer has")
            self._search = Search(at=index)
        return self._effects(now_s, None)

    def install_failed(self, now_s: float, why: str) -> DispatchEffects:
        """Note that the peer did not take the snapshot.

        Args:
            why: for people.
        """
        if self.leading and self.state is DispatcherState.INSTALL_SNAPSHOT:
            self._to_compare(why)
            self._pause_s = now_s + self.settings.error_pause_s
        return self._effects(now_s, None)

    def tick(self, now_s: float) -> DispatchEffects:
        """Do what is due, because `DispatchEffects.deadline_s` has passed."""
        if self._probe is not None and now_s >= self._probe_s:
            self._failed(now_s, None)
        return self._effects(now_s, None)

    # ---- answers ----

    def _not_understood(self, now_s: float, answer: PushAnswer, why: str) -> None:
        is_news, self.refusal = why != self.refusal, why
        self._to_compare(why, emits=is_news)
        self._pause_s = now_s + self.settings.foreign_pause_s
        event = events.PeerNotUnderstood(peer=self.peer, reason=why, said=said(answer))
        self._events += [event] if is_news else []

    def _append_answered(self, now_s: float, answer: PushAnswer) -> None:
        if answer.code is ResponseCode.SUCCESS and answer.last > self.matched:
            self.matched = answer.last
            self._resends = 0
            self.refusal = ""
            self._window.acknowledged(now_s, self.matched)
        elif answer.code is ResponseCode.INCONSISTENT_STATE:
            self._to_compare("the peer refused an entry")
            self._refused(now_s, answer.refusal)

    def _refused(self, now_s: float, why: str) -> None:
        refusals = self._patience.refused(self.matched, why)
        self._window.refused(now_s, refusals)
        if refusals > 1:  # a comparison did not help
            self._pause_s = now_s + self.settings.error_pause_s
        self.refusal = self._patience.refusal or self.refusal

    def _commit_answered(self, push: Push, answer: PushAnswer) -> None:
        if self.compat.commits_unread:
            return
        number, floor = self._asked
        if answer.code is ResponseCode.INCONSISTENT_STATE:
            self._to_compare("the peer has compared nothing")
        elif answer.code is ResponseCode.SUCCESS and push.number == number and answer.end < floor:
            self.matched = -1
            self._to_compare("the peer's log has become shorter")

    def _probe_answered(self, now_s: float, push: Push, answer: PushAnswer | None) -> None:
        self._probe = None
        if push.type is PushType.TRUNCATE:
            if answer is not None and answer.code is ResponseCode.SUCCESS:
                self._to_append(push.first)
            else:
                self._failed(now_s, answer)
            return
        search, good = self._search, (ResponseCode.SUCCESS, ResponseCode.INCONSISTENT_STATE)
        if search is None or answer is None or answer.code not in good:
            self._failed(now_s, answer)
            return
        self._patience.follows()
        found = search.judge(answer, self._begin, self._end)
        if found is not None:
            self._found(now_s, found, anew=not search.agrees)

    def _found(self, now_s: float, found: CommonEntry, *, anew: bool) -> None:
        if anew and found.index > 0 and self.settings.snapshots != "none":
            self._needs_snapshot(now_s, found.index)
        elif found.truncate:
            self._change(DispatcherState.TRUNCATE, f"to {found.index}")
            self._search = Search(at=found.index)
        else:
            self._to_append(found.index)

    def _needs_snapshot(self, now_s: float, begin: int) -> None:
        if self.settings.snapshots == "install":
            self._change(DispatcherState.INSTALL_SNAPSHOT, f"the log begins at {begin}")
            self._install = True
            return
        self._to_compare("the peer takes no snapshot")
        self._pause_s = now_s + self.settings.refusal_pause_s
        self.refusal = why = TAKES_NO_SNAPSHOT.format(begin)
        self._events.append(events.SnapshotRefused(peer=self.peer, index=begin, reason=why))

    # ---- states ----

    def _change(self, state: DispatcherState, detail: str, *, emits: bool = True) -> None:
        assert state in DISPATCHER_TRANSITIONS[self.state], f"{self.state.name} to {state.name}"
        self.state, self._phase = state, self._number
        self._window.clear()
        self._probe, self._search, self._resends = None, None, 0
        changed = events.DispatcherChanged(
            peer=self.peer, term=self._term, state=state.name, detail=detail
        )
        self._events += [changed] if emits else []

    def _to_compare(self, why: str, *, emits: bool = True) -> None:
        self._change(DispatcherState.COMPARE, why, emits=emits)

    def _to_append(self, index: int) -> None:
        self._change(DispatcherState.APPEND, f"from {index + 1}")
        if index != self._patience.refused_at:
            self.refusal = ""
        self.matched = index
        self._write = index + 1

    def _failed(self, now_s: float, answer: PushAnswer | None) -> None:
        """Search anew after a pause: a COMPARE or TRUNCATE failed, or was answered wrongly."""
        search = self._search if self.search_by_one else None
        search = search if self.state is DispatcherState.COMPARE else None
        self._pause_s = now_s + self._patience.failed(answer)
        why = "no answer" if answer is None else f"answered {answer.code.name}"
        self._to_compare(why, emits=not self._patience.still)
        self._search = search

    # ---- what is sent ----

    def _send(self, now_s: float, type_: PushType, first: int, last: int) -> Push:
        self._number += 1
        self._last_push_s = now_s
        if type_ is not PushType.COMPARE:  # a follower reads nothing else of a COMPARE
            self._said = self._committed
        push = Push(
            number=self._number, type=type_, first=first, last=last, commit_index=self._committed
        )
        self._pushes.append(push)
        return push

    def _work(self, now_s: float) -> None:
        if now_s < self._pause_s or self._end < 0:
            return
        if self.state is DispatcherState.INSTALL_SNAPSHOT:
            return  # the snapshot's sender reports how it ended
        if self.state is DispatcherState.APPEND:
            self._append(now_s)
        if self.state is not DispatcherState.APPEND and self._probe is None:
            self._send_probe(now_s)

    def _send_probe(self, now_s: float) -> None:
        search = self._search
        if search is None or not self._begin <= search.at <= self._end:
            if self.state is DispatcherState.TRUNCATE:
                self._to_compare("the entry to truncate to has expired")
            search = self._search = Search(at=self._end, by_one=self.search_by_one)
        type_ = PushType.COMPARE
        if self.state is DispatcherState.TRUNCATE:
            type_ = PushType.TRUNCATE
        self._probe = self._send(now_s, type_, search.at, search.at)
        self._probe_s = now_s + self.settings.reply_timeout_s

    def _append(self, now_s: float) -> None:
        if now_s >= self._window.due_s:
            self._resend(now_s)
        self._append_more(now_s)
        if now_s >= self._commit_due_s and self.state is DispatcherState.APPEND:
            number = self._send(now_s, PushType.COMMIT, -1, -1).number
            self._asked = number, self.matched

    @property
    def _commit_due_s(self) -> float:
        """The time at which the committed index has to be sent by a COMMIT of its own."""
        settings = self.settings
        news = self._committed > self._said
        return self._last_push_s + (settings.commit_news_s if news else settings.commit_push_s)

    def _append_more(self, now_s: float) -> None:
        """Push the entries that are not sent yet, as far as the bounds allow."""
        while self.state is DispatcherState.APPEND and self._write <= self._end:
            if self._window.full:
                return
            if self._write < self._begin:
                self._to_compare(f"entry {self._write} has expired")
                return
            first = last = self._write
            if self.settings.batch:
                last = self.sizes.fits(first, self._end, self._window.batch_bytes_max)
            behind = self.sizes.bytes_from(first)
            size = behind - (self.sizes.bytes_from(last + 1) if last < self._end else 0)
            left = self._end - self._write
            if not self._quota.take(now_s, size, behind=left, behind_bytes=behind):
                self._pause_s = self._quota.again_s
                return
            self._window.add(UnderWay(first=first, last=last, size_bytes=size, sent_s=now_s))
            self._send(now_s, PushType.APPEND, first, last)
            self._write = last + 1

    def _resend(self, now_s: float) -> None:
        """Send the oldest unacknowledged push again: it, or its answer, was lost."""
        self._resends += 1
        if self._resends > self.settings.resends_max and not self.compat.pushes_stick:
            self._window.unanswered(now_s, self._patience.unanswered(self.matched))
            self._to_compare(f"{counted(self.settings.resends_max, 'resend')} without an answer")
            return
        head = self._window.again(now_s)
        self._send(now_s, PushType.APPEND, head.first, head.last)

    def _deadline_s(self, now_s: float) -> float | None:
        if not self.leading or self._end < 0 or self.state is DispatcherState.INSTALL_SNAPSHOT:
            return None
        if self._probe is not None:
            return self._probe_s
        if now_s < self._pause_s:
            return self._pause_s
        assert self.state is DispatcherState.APPEND
        return min(self._commit_due_s, self._window.due_s)

    def _effects(self, now_s: float, matched: int | None) -> DispatchEffects:
        before = self.matched
        if self.leading:
            self._work(now_s)
        assert self.matched == before
        pushes, self._pushes = tuple(self._pushes), []
        said, self._events = tuple(self._events), []
        install, self._install = self._install, False
        return DispatchEffects(
            matched=matched,
            pushes=pushes,
            install=install,
            events=said,
            deadline_s=self._deadline_s(now_s),
        )
