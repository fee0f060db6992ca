"""A group's state machine: it gets what is committed, in order, and answers who appended it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from group_kit import opened
from machine_kit import Book, Shelf, appended, failed, other

from actors.dledger.machine.machine_run import Given
from actors.errors import MachineFailed, OutcomeUnknown
from actors.state_machine import LogEntry


@pytest.mark.parametrize("members", [1, 3])
async def test_every_member_applies_the_same_and_the_appender_gets_results(
    autojump_clock: Any, members: int
) -> None:
    shelf = Shelf()
    async with opened(members, machine=shelf) as group:
        leader = await group.leader()
        first = await group.append(leader, b"one", b"two")
        assert first.results == (1, 2)
        assert shelf.books[leader].bodies == ["one", "two"], "answered after it is applied"
        second = await group.append(leader, b"three")
        assert second.results == (3,)
        await group.until(shelf.all_have(group, ["one", "two", "three"]))
        assert shelf.books[leader].indexes == [1, 2, 3], "not the entry that opens the term"


async def test_results_are_each_appenders_own(autojump_clock: Any) -> None:
    shelf = Shelf()
    async with opened(machine=shelf) as group:
        leader = await group.leader()
        found: dict[int, object] = {}

        async def append(number: int) -> None:
            done = await group.append(leader, *(b"%d" % number for _ in range(number % 3 + 1)))
            for index, result in zip(
                range(done.first_index, done.last_index + 1), done.results, strict=True
            ):
                found[index] = result

        async with trio.open_nursery() as nursery:
            for number in range(300):
                nursery.start_soon(append, number)
        assert [found[index] for index in sorted(found)] == list(range(1, 601))


async def test_an_empty_body_is_given_to_nobody(autojump_clock: Any) -> None:
    shelf = Shelf()
    async with opened(machine=shelf) as group:
        leader = await group.leader()
        done = await group.append(leader, b"one", b"", b"two")
        assert done.results == (1, None, 2)
        assert shelf.books[leader].bodies == ["one", "two"]


async def test_the_machine_hears_who_leads_once_it_has_all_before(autojump_clock: Any) -> None:
    shelf = Shelf()
    seen: dict[str, int] = {}

    def made(name: str, book: Book) -> None:
        book.breaks["leader_started"] = lambda: seen.update({name: len(book.bodies)})

    shelf.made = made
    async with opened(machine=shelf) as group:
        leader = await group.leader()
        await group.append(leader, b"first")
        ((what, term),) = shelf.books[leader].roles
        assert (what, term) == ("started", group.role(leader).term)  # type: ignore[union-attr]
        assert seen == {leader: 0}
        assert all(not shelf.books[name].roles for name in group.names if name != leader)
        bodies = ["first", *await appended(group, leader, 0, 50)]
        for name in group.names:
            if name != leader:
                group.world.network.cut_both(leader, name)
        old = leader
        await group.until(lambda: bool(group.leaders) and group.leaders != [old])
        leader = await group.leader()
        await group.append(leader, b"after")
        assert seen[leader] == len(bodies), "all that was there was applied before"
        await group.until(lambda: shelf.books[old].roles[-1] == ("stopped", term))


async def test_a_restart_applies_the_log_anew(autojump_clock: Any) -> None:
    shelf = Shelf()
    async with opened(machine=shelf) as group:
        leader = await group.leader()
        bodies = await appended(group, leader, 0, 20)
        follower = other(group, leader)
        before = shelf.books[follower]
        await group.kill(follower)
        bodies += await appended(group, leader, 20, 5)
        await group.start(follower)
        await group.until(shelf.all_have(group, bodies))
        assert shelf.books[follower] is not before
        assert shelf.books[follower].loads == 0


def fail() -> None:
    raise ValueError("no such account")


async def test_a_machine_that_raises_ends_its_member_with_one_line(autojump_clock: Any) -> None:
    shelf = Shelf()
    async with opened(machine=shelf) as group:
        leader = await group.leader()
        await group.append(leader, b"good")
        follower = other(group, leader)
        await group.until(lambda: shelf.books[follower].bodies == ["good"])
        shelf.books[follower].breaks["apply"] = fail
        await group.append(leader, b"bad")
        text = await failed(group, follower)
        what = "the state machine's apply() of entry 2 failed: ValueError: no such account"
        assert text == f"group ledger: {what}"
        done = await group.append(leader, b"others go on")
        assert done.copies == 2


async def test_so_does_one_that_cannot_lead(autojump_clock: Any) -> None:
    def made(name: str, book: Book) -> None:
        book.breaks["leader_started"] = fail

    async with opened(1, machine=Shelf(made=made)) as group:
        text = await failed(group, "n0")
        what = "the state machine's leader_started() failed: ValueError: no such account"
        assert text == f"group ledger: {what}"


async def test_a_machine_must_answer_every_entry(autojump_clock: Any) -> None:
    class Short(Book):
        def apply(self, entries: Any) -> list[object]:
            super().apply(entries)
            return []

    async with opened(1, machine=lambda name: Short()) as group:
        leader = await group.leader()
        with pytest.raises(OutcomeUnknown):
            await group.append(leader, b"x")
        text = await failed(group, leader)
        what = "the state machine's apply() of entry 1 gave 0 results for 1 entry"
        assert text == f"group ledger: {what}"


async def test_one_that_cannot_be_made_ends_the_start(autojump_clock: Any) -> None:
    def make(name: str) -> Book:
        raise LookupError("no such table")

    async with opened(1, started=False, machine=make) as group:
        text = "group ledger: the state machine's making failed: LookupError: no such table"
        with pytest.RaisesGroup(
            pytest.RaisesExc(MachineFailed, match=text), flatten_subgroups=True
        ):
            await group.start()


POISON = b"poison"


class Picky(Book):
    """It takes all but one entry, at each start anew."""

    def apply(self, entries: Any) -> list[object]:
        found: list[object] = []
        for entry in entries:
            if entry.body == POISON:
                raise ValueError("two\nlines of  words")
            found += super().apply([entry])
        return found


async def test_an_entry_that_the_machine_does_not_take_is_named_at_each_start(
    autojump_clock: Any,
) -> None:
    """And the member ends each time: it is not restarted, for its machine's state is in doubt."""
    async with opened(1, machine=lambda name: Picky()) as group:
        leader = await group.leader()
        await appended(group, leader, 0, 3)
        with pytest.raises(OutcomeUnknown):
            await group.append(leader, POISON)
        what = "failed: ValueError: two lines of words"
        assert await failed(group, leader) == (
            f"group ledger: the state machine's apply() of entry 4 {what}"
        )
        for _ in range(2):
            began = len(group.seen)
            await group.start(leader)
            text = await failed(group, leader)
            assert text.startswith("group ledger: the state machine's apply() of entr")
            assert text.endswith((f"y 4 {what}", f"to 4, at 4 {what}"))
            path = group.paths(leader).state_machine_caller
            assert [life for life in group.lives(began) if life[1] == path][:2] == [
                ("started", path),
                ("crashed", path),
            ]
            assert [life for life in group.lives(began) if life == ("started", path)] == [
                ("started", path)
            ]


def test_of_several_entries_the_one_it_was_at_is_named() -> None:
    given = Given(LogEntry(index, 1, b"%d" % index) for index in (5, 6, 9))
    assert given.which == "entries 5 to 9"
    for entry in given:
        if entry.index == 6:
            break
    assert given.which == "entries 5 to 9, at 6"
    assert [entry.index for entry in given] == [5, 6, 9]
    assert given.which == "entries 5 to 9, at 9"
    assert Given([LogEntry(7, 1, b"x")]).which == "entry 7"
