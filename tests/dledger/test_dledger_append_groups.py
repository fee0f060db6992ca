"""Which appends are given to the store together, and which are refused."""

from __future__ import annotations

from typing import Any

import attrs

from actors.dledger.replication.append_groups import groups
from actors.dledger.replication.append_waits import AppendWait
from actors.errors import NotStored, Overloaded, TooLarge
from actors.log_types import Chain


@attrs.define
class Caller:
    """Hears of its append; breaks its chain, as whoever takes outcomes does."""

    chain: Chain
    heard: list[Exception] = attrs.field(factory=list)

    def fail(self, error: Exception) -> bool:
        self.heard.append(error)
        self.chain.broken = True
        return True


def taken(chain: Chain, *sizes: int) -> tuple[list[Caller], list[Any]]:
    callers = [Caller(chain) for _ in sizes]
    waits = [AppendWait(each, 1, 9.0, chain=chain) for each in callers]  # type: ignore[arg-type]
    return callers, [(wait, (b"x" * size,)) for wait, size in zip(waits, sizes, strict=True)]


def reported(callers: list[Caller]) -> list[type[Exception] | None]:
    return [type(each.heard[0]) if each.heard else None for each in callers]


def test_what_is_behind_a_refused_one_of_its_chain_is_refused() -> None:
    chain = Chain()
    callers, appends = taken(chain, 10, 2000, 10)
    others, more = taken(Chain(), 10)
    (found,) = groups([*appends, *more], room=9, bytes_left=10_000, body_bytes_max=1000)
    assert reported(callers) == [None, TooLarge, NotStored]
    assert reported(others) == [None]
    assert found.bodies == (b"x" * 10, b"x" * 10)


def test_without_room_each_is_refused_for_that() -> None:
    (caller,), appends = taken(Chain(), 10)
    assert not list(groups(appends, room=0, bytes_left=10_000, body_bytes_max=1000))
    assert reported([caller]) == [Overloaded]
