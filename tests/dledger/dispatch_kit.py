"""One `Dispatch` in the hands of a test: pushes are kept, and answered as the test says."""

from __future__ import annotations

import attrs

from actors.dledger.core.dispatch import Dispatch
from actors.dledger.core.push_effects import DispatchEffects, DispatcherState, Push, PushAnswer
from actors.dledger.core.settings import PushSettings
from wire.dledger.codes import PushType, ResponseCode

MIB = 1 << 20


@attrs.define
class Sizes:
    """Entries of one size, in a log that the kit lets grow."""

    entry_bytes: int = 100
    end: int = -1

    def fits(self, first: int, last_max: int, bytes_max: int) -> int:
        return max(first, min(last_max, first + bytes_max // self.entry_bytes - 1))

    def bytes_from(self, first: int) -> int:
        return (self.end + 1 - first) * self.entry_bytes


class Kit:
    """The dispatcher to n1 of a leader in term 5.

    Attributes:
        sent: pushes that the test has not taken.
        last: what the last input asked for.
    """

    def __init__(
        self, begin: int = 0, end: int = 9, *, entry_bytes: int = 100, **settings: object
    ) -> None:
        self.sizes = Sizes(entry_bytes, end)
        self.dispatch = Dispatch(
            peer="n1",
            settings=PushSettings(**settings),  # type: ignore[arg-type]
            sizes=self.sizes,
        )
        self.now_s = 0.0
        self.sent: list[Push] = []
        self.last = DispatchEffects()
        self.did(self.dispatch.lead(0.0, term=5, begin=begin, end=end, committed=-1))

    def did(self, effects: DispatchEffects) -> DispatchEffects:
        self.last = effects
        self.sent += effects.pushes
        return effects

    @property
    def state(self) -> DispatcherState:
        return self.dispatch.state

    def take(self, *types: PushType) -> list[Push]:
        """All that was sent, which is of these types."""
        sent, self.sent = self.sent, []
        assert [push.type for push in sent] == list(types)
        return sent

    def one(self, type_: PushType, first: int) -> Push:
        """The one that was sent."""
        (push,) = self.take(type_)
        assert push.first == first
        return push

    def answer(
        self,
        push: Push,
        code: ResponseCode = ResponseCode.SUCCESS,
        *,
        begin: int = 0,
        end: int | None = None,
        term: int = 5,
        count: int | None = None,
        refusal: str = "",
    ) -> DispatchEffects:
        """The peer's log ends with the push if nothing else is said."""
        answer = PushAnswer(
            code=code,
            term=term,
            index=push.first,
            count=push.last - push.first + 1 if count is None else count,
            begin=begin,
            end=push.last if end is None else end,
            refusal=refusal,
        )
        return self.did(self.dispatch.answered(self.now_s, push, answer))

    def silence(self, push: Push) -> DispatchEffects:
        return self.did(self.dispatch.answered(self.now_s, push, None))

    def tick(self) -> DispatchEffects:
        """When it is due."""
        assert self.last.deadline_s is not None
        self.now_s = max(self.now_s, self.last.deadline_s)
        return self.did(self.dispatch.tick(self.now_s))

    def wait(self, seconds: float) -> None:
        """All that is due until then."""
        until_s = self.now_s + seconds
        while self.last.deadline_s is not None and self.last.deadline_s <= until_s:
            before_s = self.last.deadline_s
            self.tick()
            assert self.last.deadline_s is None or self.last.deadline_s > before_s, "it spins"
        self.now_s = until_s

    def grow(self, count: int = 1) -> DispatchEffects:
        self.sizes.end += count
        end = self.sizes.end
        return self.did(self.dispatch.grew(self.now_s, self.dispatch._begin, end))

    def append_state(self) -> None:
        """As after a COMPARE that found the same end."""
        (push,) = self.take(PushType.COMPARE)
        self.answer(push)
        assert self.state is DispatcherState.APPEND
