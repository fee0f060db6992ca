"""A follower says that its leader has it cut entries that were synced here."""

from __future__ import annotations

from contextlib import suppress

import pytest
from group_kit import Group, opened

from actors.dledger.replication.entry_handler import CutLog
from actors.dledger.rpc.rpc_messages import Sender
from actors.errors import TriologError
from actors.events.dledger import LedgerTruncated, RoleChanged
from actors.runtime import ActorError
from actors.storage.ledger.store_messages import LedgerGrew

LOST = 9


async def diverged(group: Group) -> tuple[str, int]:
    """A leader is cut off with entries of its own, while another one leads, and comes back.

    Returns: it, and the first of its entries.
    """
    first = await group.leader()
    others = [name for name in group.names if name != first]
    done = await group.append(first, b"before")
    await group.until_shown(done.last_index)
    for name in others:
        group.world.network.cut_both(first, name)
    with suppress(TriologError, ActorError):
        await group.append(first, *(b"lost %d" % number for number in range(LOST)), timeout_s=1.0)
    await group.until(lambda: bool(set(group.leaders) & set(others)))
    kept = await group.append(await group.leader(), b"kept")
    await group.until_shown(kept.last_index, *others)
    group.world.network.heal_all()
    await group.until_shown(kept.last_index, first)
    return first, done.last_index + 1


@pytest.mark.parametrize("durability", ["synced", "written"])
async def test_it_says_which_and_who_leads(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, durability: str
) -> None:
    async with opened(durability=durability) as group:
        first, index = await diverged(group)
        (cut,) = group.events(LedgerTruncated, first)
        role = next(e for e in group.events(RoleChanged, first) if e.session == cut.session)
    last = index + LOST - 1
    assert (cut.index, cut.end, cut.synced) == (index, last, last)
    assert caplog.messages == [
        f"ledger: {first} cuts entries {index} to {last}, synced to {last}:"
        f" {role.leader}, leader of term {role.term}, has others"
    ]
    assert {(each.name, each.levelname) for each in caplog.records} == {
        ("triolog.dledger", "WARNING")
    }


def grew(synced: int, cuts: int) -> LedgerGrew:
    return LedgerGrew(
        session=1,
        begin_index=0,
        end_index=9,
        end_term=1,
        synced_index=synced,
        committed_index=-1,
        cuts=cuts,
    )


def cut(index: int, *, then: int | None = None) -> LedgerTruncated:
    return LedgerTruncated(session=1, index=index, end=9, next=index if then is None else then)


def test_what_was_not_synced_leaves_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    log = CutLog(Sender(group="g", self_id="n0"))
    assert log.noted(cut(5), "n1", 2) == cut(5), "the store has said nothing yet"
    log.grew(grew(4, cuts=1))
    assert log.noted(cut(5), "n1", 2) == cut(5)
    assert log.noted("another event", "n1", 2) == "another event"
    log.grew(grew(7, cuts=1))  # it was on the way when that was cut
    assert log.noted(cut(5), "n1", 2) == cut(5)
    log.grew(grew(7, cuts=2))
    assert not caplog.messages
    found = log.noted(cut(6), "n1", 2)
    assert isinstance(found, LedgerTruncated)
    assert found.synced == 7
    assert caplog.messages == [
        "g: n0 cuts entries 6 to 9, synced to 7: n1, leader of term 2, has others"
    ]


def test_a_log_that_begins_anew_has_only_its_event(caplog: pytest.LogCaptureFixture) -> None:
    """Its leader has deleted what would come next: most of it is everywhere."""
    log = CutLog(Sender(group="g", self_id="n0"))
    log.grew(grew(9, cuts=0))
    found = log.noted(cut(0, then=50), "n1", 2)
    assert isinstance(found, LedgerTruncated)
    assert found.synced == 9
    assert not caplog.messages
