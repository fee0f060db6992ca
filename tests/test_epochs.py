"""Histories of logs: examples by hand, then all small families of logs."""

from __future__ import annotations

from unittest import mock

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors import epochs
from actors.epochs import (
    BEFORE_EPOCHS,
    EPOCHS_MAX,
    Comparison,
    Epoch,
    History,
    Kind,
    begin,
    compare,
    cut,
    expire,
    follow,
    prune,
    trim,
)

A = Epoch(0, 11, "n0", 0)
B = Epoch(0, 12, "n0", 100)
C = Epoch(1, 13, "n1", 150)
C2 = Epoch(1, 14, "n2", 120)


def test_an_epoch_without_a_byte_leaves() -> None:
    assert trim((A, B, C), 151) == (A, B, C)
    assert trim((A, B, C), 150) == (A, B)
    assert trim((A, B), 0) == ()


def test_a_log_without_history_is_older_than_epochs() -> None:
    assert trim((), 10) == (BEFORE_EPOCHS,)
    assert compare((), 10, (), 20) == Comparison(Kind.FITS, 10)
    assert compare((), 20, (), 10) == Comparison(Kind.AHEAD, 10)
    assert compare((), 10, begin((), 10, Epoch(0, 5, "n0", 10)), 30) == Comparison(Kind.FITS, 10)
    assert compare((), 11, begin((), 10, Epoch(0, 5, "n0", 10)), 30) == Comparison(
        Kind.DIVERGED, 10
    )


@pytest.mark.parametrize(
    ("own", "own_end", "other", "other_end", "expected"),
    [
        # An empty log fits everywhere.
        ((), 0, (A,), 50, Comparison(Kind.FITS, 0)),
        ((C,), 0, (A,), 50, Comparison(Kind.FITS, 0)),
        # The same epoch.
        ((A,), 50, (A,), 50, Comparison(Kind.FITS, 50)),
        ((A,), 40, (A,), 50, Comparison(Kind.FITS, 40)),
        ((A,), 60, (A,), 50, Comparison(Kind.AHEAD, 50)),
        # The master went on in another epoch.
        ((A,), 100, (A, B), 130, Comparison(Kind.FITS, 100)),
        ((A,), 101, (A, B), 130, Comparison(Kind.DIVERGED, 100)),
        # An epoch that has begun without a byte is a cut too.
        ((A,), 120, (A, B), 100, Comparison(Kind.DIVERGED, 100)),
        # The other is a slave that knows of epochs whose bytes it does not hold yet.
        ((A, B), 130, (A, B), 60, Comparison(Kind.AHEAD, 60)),
        ((A, B), 130, (A, B, C), 120, Comparison(Kind.AHEAD, 120)),
        # Begun, but nothing held of it: no reason to part.
        ((A, B), 100, (A,), 300, Comparison(Kind.FITS, 100)),
        # The own log went on where the other stayed in the old epoch.
        ((A, B), 130, (A,), 300, Comparison(Kind.DIVERGED, 100)),
        # A master that was restored from an older copy.
        ((A, B), 130, (A,), 90, Comparison(Kind.AHEAD, 90)),
        ((A, B), 130, (A,), 100, Comparison(Kind.AHEAD, 100)),
        # Two promotions from the same past: cut at the lower start.
        ((A, B, C), 200, (A, B, C2), 400, Comparison(Kind.DIVERGED, 120)),
        ((A, B, C2), 200, (A, B, C), 190, Comparison(Kind.DIVERGED, 120)),
        # Nothing in common, or the same token with another start.
        ((B,), 200, (C,), 200, Comparison(Kind.UNRELATED, 0)),
        ((A,), 50, (attrs.evolve(A, start_bytes=7),), 50, Comparison(Kind.UNRELATED, 0)),
        # It ends before anything that a full history still has: a beginning of the same log.
        ((C,), 120, (C,), 200, Comparison(Kind.FITS, 120)),
        ((C,), 120, (C,), 90, Comparison(Kind.AHEAD, 90)),
        ((C,), 120, (B, C), 200, Comparison(Kind.FITS, 120)),
        ((C,), 120, (C2,), 200, Comparison(Kind.UNRELATED, 0)),
    ],
)
def test_compare(
    own: History, own_end: int, other: History, other_end: int, expected: Comparison
) -> None:
    assert compare(own, own_end, other, other_end) == expected


def entries(text: str) -> History:
    """Entries of an auto-switch epoch file: epoch@start, separated by spaces."""
    return tuple(
        Epoch(number=int(number), token=0, master="", start_bytes=int(start))
        for number, start in (each.split("@") for each in text.split())
    )


@pytest.mark.checklist(13, of="autoswitch")
@pytest.mark.parametrize(
    ("own", "own_end", "other", "other_end", "expected"),
    [
        ("1@100 2@300 3@500", 900, "1@100 2@300 3@450", 900, Comparison(Kind.DIVERGED, 450)),
        ("1@100 2@300 3@500", 700, "1@100 2@300 3@500", 600, Comparison(Kind.AHEAD, 600)),
        ("1@100 2@300 3@500", 900, "1@200 2@500", 900, Comparison(Kind.UNRELATED, 0)),
        ("1@0 2@200 3@500 4@800", 900, "1@0 2@200 3@500", 700, Comparison(Kind.AHEAD, 700)),
        # An epoch that starts above the log's end holds none of its bytes.
        ("1@0 2@800", 700, "1@0 2@800", 900, Comparison(Kind.FITS, 700)),
    ],
)
def test_entries_of_an_epoch_file_compare_as_upstream_does(
    own: str, own_end: int, other: str, other_end: int, expected: Comparison
) -> None:
    """Upstream: EpochFileCache.findConsistentPoint."""
    assert compare(entries(own), own_end, entries(other), other_end) == expected


def test_two_promotions_without_a_byte_between_them_stay_apart() -> None:
    """Upstream refuses such an entry, and the bytes of both masters share a number."""
    returning = entries("1@0 2@654")
    history = begin(returning, 654, Epoch(number=3, token=0, master="", start_bytes=654))
    assert history == entries("1@0 3@654")
    assert compare(returning, 700, history, 900) == Comparison(Kind.DIVERGED, 654)


def test_a_restart_without_a_byte_leaves_no_trace() -> None:
    once = begin((A,), 100, Epoch(0, 21, "n0", 100))
    assert begin(once, 100, Epoch(0, 22, "n0", 100)) == (A, Epoch(0, 22, "n0", 100))


def test_an_empty_log_begins_with_its_first_epoch() -> None:
    assert begin((), 0, A) == (A,)
    assert begin((A, B), 0, attrs.evolve(A, token=9)) == (attrs.evolve(A, token=9),)


def test_a_history_is_bounded() -> None:
    history: History = ()
    for number in range(EPOCHS_MAX + 10):
        history = begin(history, 10 * number, Epoch(0, number + 1, "n0", 10 * number))
    assert len(history) == EPOCHS_MAX
    assert history[0].token == 11
    assert prune((A, *history)) == history


def test_a_copy_older_than_what_is_kept_is_unrelated() -> None:
    history: History = ()
    for number in range(EPOCHS_MAX + 10):
        history = begin(history, 10 * number, Epoch(0, number + 1, "n0", 10 * number))
    assert compare((Epoch(0, 1, "n0", 0),), 5, history, 9999) == Comparison(Kind.UNRELATED, 0)


def test_a_slave_below_what_is_kept_goes_on() -> None:
    history = tuple(Epoch(0, number, "n0", 1000 * number) for number in range(1, EPOCHS_MAX + 1))
    assert compare(prune(history), 500, history, 10**6) == Comparison(Kind.FITS, 500)
    assert compare(cut(history, 500), 500, history, 10**6) == Comparison(Kind.FITS, 500)
    assert compare(cut(history, 500), 500, (), 10**6) == Comparison(Kind.UNRELATED, 0)


def test_a_follower_has_the_other_s_epochs_as_far_as_its_bytes_reach() -> None:
    assert follow((), (A, B, C), 0) == (A,)
    assert follow((), (A, B, C), 120) == (A, B)  # several at once are about to be received
    assert follow((A,), (A, B, C), 99) == (A,)
    assert follow((A,), (A, B, C), 100) == (A, B)
    assert follow((A, B, C2), (A, B, C), 120) == (A, B)
    assert follow((A, B), (A, B, C), 150) == (A, B, C)
    assert follow((A, B), (B, C), 150) == (A, B, C)  # the other has deleted its first file
    assert follow((A, B), (A, C2), 100) == (A,)  # nothing was written in B, so its entry goes
    with pytest.raises(AssertionError):
        follow((A,), (C,), 200)


def test_epochs_of_deleted_files_leave_but_never_the_last_one() -> None:
    assert expire((A, B, C), 99) == (A, B, C)
    assert expire((A, B, C), 100) == (B, C)
    assert expire((A, B, C), 9999) == (C,)
    assert expire((), 100) == ()


def test_a_cut_log() -> None:
    assert cut((A, B, C), 120) == (A, B)
    assert cut((A, B), 0) == ()
    assert cut((), 7) == (BEFORE_EPOCHS,)


@attrs.define
class Copy:
    """A log as it really is: each byte is the token of the epoch that wrote it, and a serial."""

    history: History = ()
    data: list[tuple[int, int]] = attrs.Factory(list)
    is_open: bool = False


class Logs(RuleBasedStateMachine):
    """Three copies, written and copied in every order; `compare` against the bytes themselves."""

    forgets = False

    @initialize()
    def begin(self) -> None:
        self.copies = [Copy() for _ in range(3)]
        self.serial = 0
        self.token = 0

    @rule(at=st.integers(0, 2))
    def epoch(self, at: int) -> None:
        """A node opens its log as a master."""
        copy = self.copies[at]
        self.token += 1
        end = len(copy.data)
        copy.history = begin(copy.history, end, Epoch(0, self.token, f"n{at}", end))
        copy.is_open = True

    @rule(at=st.integers(0, 2), count=st.integers(1, 3))
    def append(self, at: int, count: int) -> None:
        """A master appends, in an epoch that it has begun since it was something else."""
        copy = self.copies[at]
        if not copy.is_open:
            self.epoch(at)
        for _ in range(count):
            self.serial += 1
            copy.data.append((copy.history[-1].token, self.serial))

    @rule(at=st.integers(0, 2), to=st.integers(0, 2), count=st.integers(0, 4))
    def follow(self, at: int, to: int, count: int) -> None:
        """A slave follows: only if it fits."""
        own, master = self.copies[at], self.copies[to]
        if at == to or not master.history:
            return
        found = compare(own.history, len(own.data), master.history, len(master.data))
        if found.kind is not Kind.FITS:
            return
        own.history, own.is_open = prune(master.history), False
        own.data += master.data[len(own.data) : len(own.data) + count]

    @rule(at=st.integers(0, 2), lost=st.integers(1, 4))
    def lose(self, at: int, lost: int) -> None:
        """A power loss takes the end; who appends after it begins an epoch."""
        copy = self.copies[at]
        copy.data = copy.data[: max(0, len(copy.data) - lost)]
        copy.is_open = False

    @rule(at=st.integers(0, 2), to=st.integers(0, 2))
    def resync(self, at: int, to: int) -> None:
        own, master = self.copies[at], self.copies[to]
        found = compare(own.history, len(own.data), master.history, len(master.data))
        if found.kind is Kind.FITS:
            return
        own.data = own.data[: found.consistent_bytes]
        own.history, own.is_open = cut(own.history, found.consistent_bytes), False
        again = compare(own.history, len(own.data), master.history, len(master.data))
        forgot = self.forgets and again.kind is Kind.UNRELATED  # by the master's full history
        assert forgot or again == Comparison(Kind.FITS, found.consistent_bytes)

    @invariant()
    def compares_as_the_bytes_do(self) -> None:
        for own in getattr(self, "copies", ()):
            for other in self.copies:
                found = compare(own.history, len(own.data), other.history, len(other.data))
                equal = found.consistent_bytes
                assert own.data[:equal] == other.data[:equal]
                if found.kind is Kind.FITS:
                    assert equal == len(own.data)
                elif found.kind is Kind.AHEAD:
                    assert equal == len(other.data) < len(own.data)
                else:
                    # What is called foreign is not in the other log.
                    assert own.data != other.data[: len(own.data)]


TestLogs = Logs.TestCase


class ShortHistories(Logs):
    """The same with histories that are full: what is called equal is; what is not known may be."""

    forgets = True

    @initialize()
    def begin(self) -> None:
        self.patch = mock.patch.object(epochs, "EPOCHS_MAX", 2)
        self.patch.start()
        super().begin()

    def teardown(self) -> None:
        self.patch.stop()

    @invariant()
    def compares_as_the_bytes_do(self) -> None:
        for own in getattr(self, "copies", ()):
            for other in self.copies:
                found = compare(own.history, len(own.data), other.history, len(other.data))
                equal = found.consistent_bytes
                assert own.data[:equal] == other.data[:equal]
                assert (equal == len(own.data)) == (found.kind is Kind.FITS)


TestShortHistories = ShortHistories.TestCase


@given(st.lists(st.integers(1, 5), max_size=6), st.integers(0, 40))
def test_a_cut_copy_always_fits(sizes: list[int], end: int) -> None:
    history: History = ()
    at = 0
    for token, size in enumerate(sizes, 1):
        history = begin(history, at, Epoch(0, token, "n0", at))
        at += size
    end = min(end, at)
    assert compare(cut(history, end), end, history, at) == Comparison(Kind.FITS, end)
