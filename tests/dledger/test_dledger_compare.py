"""dledger.md 6.2: the table of COMPARE, row by row, and the search made of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.dledger.core.compare import CommonEntry, Search
from actors.dledger.core.push_effects import PushAnswer
from wire.dledger.codes import ResponseCode as C


def answer(code: C, begin: int, end: int) -> PushAnswer:
    return PushAnswer(code=code, term=1, begin=begin, end=end)


def judged(at: int, code: C, begin: int, end: int, *, own: tuple[int, int] = (10, 20)) -> object:
    """What one answer comes to: a CommonEntry, or the next entry to compare."""
    search = Search(at=at)
    return search.judge(answer(code, begin, end), *own) or search.at


SAME, OTHER = C.SUCCESS, C.INCONSISTENT_STATE


@pytest.mark.checklist(12, of="dledger")
def test_row_1_the_same_end() -> None:
    assert judged(20, SAME, 10, 20) == CommonEntry(index=20, truncate=False)


@pytest.mark.checklist(12, of="dledger")
def test_row_2_a_longer_follower_is_cut_at_what_was_compared() -> None:
    assert judged(20, SAME, 10, 25) == CommonEntry(index=20, truncate=True)


@pytest.mark.checklist(12, of="dledger")
@pytest.mark.parametrize(("begin", "end"), [(0, 9), (21, 30), (-1, -1)])
def test_row_3_no_overlap_begins_anew(begin: int, end: int) -> None:
    assert judged(20, OTHER, begin, end) == CommonEntry(index=10, truncate=True)


def test_row_4_below_the_follower() -> None:
    assert judged(12, OTHER, 13, 30) == CommonEntry(index=10, truncate=True)


@pytest.mark.checklist(12, of="dledger")
def test_row_5_a_shorter_follower_is_compared_at_its_end() -> None:
    assert judged(20, OTHER, 0, 15) == 15


@pytest.mark.checklist(12, of="dledger")
def test_row_6_another_entry_steps_down() -> None:
    assert judged(20, OTHER, 0, 30) == 19
    assert judged(20, OTHER, 0, 20) == 19


def test_row_7_below_the_leader() -> None:
    assert judged(10, OTHER, 0, 30) == CommonEntry(index=10, truncate=True)


def search(
    own: list[int], peer: list[int], begin: int, *, by_one: bool = False
) -> tuple[CommonEntry, int]:
    """Between logs of terms that begin at 0, the leader's at `begin`; and the questions it took."""
    found, asked = Search(at=len(own) - 1, by_one=by_one), 0
    while True:
        asked += 1
        at = found.at
        assert begin <= at < len(own)
        code = SAME if at < len(peer) and peer[: at + 1] == own[: at + 1] else OTHER
        result = found.judge(answer(code, 0 if peer else -1, len(peer) - 1), begin, len(own) - 1)
        if result is not None:
            return result, asked


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """The leader's and a follower's terms, equal for a while, and where the leader's begins."""
    same = sorted(draw(st.lists(st.integers(0, 5), max_size=40)))
    own = same + sorted(draw(st.lists(st.integers(6, 9), max_size=40)))
    peer = same + sorted(draw(st.lists(st.integers(10, 19), max_size=40)))
    if not own:
        own = [6]
    return own, peer, draw(st.integers(0, len(own) - 1))


@given(logs(), st.booleans())
def test_the_search_finds_the_last_common_entry(
    drawn: tuple[list[int], list[int], int], by_one: bool
) -> None:
    """An entry that both hold is never cut: the follower may have committed it."""
    own, peer, begin = drawn
    common = 0
    while common < min(len(own), len(peer)) and own[common] == peer[common]:
        common += 1
    found, _ = search(own, peer, begin, by_one=by_one)
    if common > begin:
        assert found == CommonEntry(index=common - 1, truncate=len(peer) > common)
    else:
        assert found == CommonEntry(index=begin, truncate=True)


@pytest.mark.parametrize("common", [1, 500, 9_999])
def test_thousands_of_conflicting_entries_take_tens_of_questions(common: int) -> None:
    """Bug V12: upstream asks for each of them."""
    own, peer = [1] * common + [3] * (10_000 - common), [1] * common + [2] * (10_000 - common)
    found, asked = search(own, peer, 0)
    assert found == CommonEntry(index=common - 1, truncate=True)
    assert asked <= 30
    assert search(own[:200], [1] + [2] * 199, 0, by_one=True)[1] >= (199 if common == 1 else 1)
