"""A promotion over members in memory that do as they are asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import trio
from group_states import WISH

from actors.control.promotion import Coordinator
from actors.epochs import Epoch
from actors.log_types import Claim, GroupState

DRAIN_S = 6.0
TOKEN = 77
GONE = ConnectionRefusedError("connection refused")


@attrs.define
class Group:
    """Members that do as they are asked.

    Attributes:
        gone: those that do not answer.
        words: what was asked of whom; states, and that the coordinator is at it, are not noted.
        before: called before each of these, with its name, may raise.
    """

    states: dict[str, GroupState]
    gone: dict[str, Exception] = attrs.field(factory=dict)
    words: list[str] = attrs.field(factory=list)
    before: Callable[[str], None] = lambda word: None
    after: Callable[[str], None] = lambda word: None
    opens: bool = True
    asked: list[str] = attrs.field(factory=list)
    renewed: list[str] = attrs.field(factory=list)
    hangs: str = ""

    @property
    def log(self) -> list[str]:
        """What changes something."""
        quiet = ("claim", "unclaim", "keep")
        return [word for word in self.words if not word.startswith(quiet)]

    async def _met(self, node: str, word: str) -> None:
        await trio.sleep(0.01)
        if node in self.gone:
            raise self.gone[node]
        if word:
            self.before(word)
            self.words.append(word)

    async def state(self, node: str) -> GroupState:
        self.asked.append(node)
        if node == self.hangs and self.words:
            await trio.sleep_forever()
        await self._met(node, "")
        return self.states[node]

    async def fence(self, node: str, claim: Claim, on: bool) -> GroupState:
        state, number = self.states[node], claim.number
        if claim.again:
            self.renewed.append(node)
            return state
        is_master = state.role == "master"
        word = f"{'fence' if is_master else 'claim'} {node} {number}"
        word = f"keep {node} {number}" if claim.kept else word if on else f"un{word}"
        await self._met(node, word)
        if is_master:
            self.states[node] = attrs.evolve(state, state="fenced" if on else "open")
        self.after(word)
        return self.states[node]

    async def record(
        self, node: str, number: int, master: str, token: int, force: bool
    ) -> GroupState:
        assert token == TOKEN
        word = f"record {node} {number} {master}{' force' if force else ''}"
        await self._met(node, word)
        state = attrs.evolve(self.states[node], number=number, master=master)
        if node == master:
            end = state.written
            opened = {"state": "open", "opened": True} if self.opens else {"state": "asking"}
            history = (*state.history, Epoch(number, 100 + number, node, end))
            state = attrs.evolve(state, role="master", history=history, **opened)
        else:
            state = attrs.evolve(state, role="slave", state="connecting")
        self.states[node] = state
        self.after(word)
        return state


def group(*states: GroupState, **keys: Any) -> Group:
    return Group({state.node: state for state in states}, **keys)


def of(found: Group, **wish: object) -> Coordinator:
    changed = attrs.evolve(WISH, **wish)  # type: ignore[arg-type]
    return Coordinator(changed, found, drain_timeout_s=DRAIN_S, by="n1", token=TOKEN)
