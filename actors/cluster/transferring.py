"""The command `transfer-leader`: asks the leader to hand over, and describes the result.

All members are asked at the same time which node leads. If the leader's answer is lost, or says
that the outcome is unknown, they are asked once more, because they know whether the lead has moved.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.client.leading import NamedLeader, leader_named_by, newest, not_led
from actors.client.race import Race
from actors.cluster.commands import Answer
from actors.cluster.explain import EXIT_OK
from actors.cluster.links import LOST, Connect, NodeApi
from actors.cluster.reaching import AGAIN_S, NoAnswer, first_of, first_within, open_members
from actors.config import ClusterConfig
from actors.errors import NotMaster, OutcomeUnknown
from actors.readable import counted, readable_values
from wire.api import frames

SETTLE_S: Final = 3.0
"""How long the leader is searched for after a transfer with an unknown end: as long as the member
that was asked to take over may take (`TRANSFER_TIMEOUT_S` of `actors.dledger.core.settings`)."""


@attrs.frozen
class _Leading:
    """A member that says that it leads, and the term in which it does."""

    name: str
    term: int
    api: NodeApi


@attrs.define
class _Members:
    """The members of one group, and the leader that each named last.

    Attributes:
        say: called once with a line for people, if no node leads.
    """

    config: ClusterConfig
    group: str
    connect: Connect
    say: Callable[[str], None]
    _has_said: bool = False
    above: int = -1
    _named: dict[str, NamedLeader] = attrs.field(factory=dict)
    _race: Race[_Leading] | None = None

    @asynccontextmanager
    async def race(self, above: int = -1) -> AsyncIterator[Race[_Leading]]:
        """Begin a race of all members; one that leads in a term above `above` wins."""
        members = self.config.groups[self.group].members
        names = tuple(each for each in members if each in self.config.python_nodes)
        self._named, self.above = {}, above
        async with open_members(names, self._enter) as race:
            self._race = race
            yield race

    @asynccontextmanager
    async def _enter(self, name: str) -> AsyncIterator[_Leading]:
        async with self.connect(name) as node:
            yield await self._led(name, node)

    async def _led(self, name: str, node: NodeApi) -> _Leading:
        """Ask a member until it leads, and no other member names a leader of a later term."""
        race = self._race
        assert race is not None
        asked_before = False
        while True:
            with trio.fail_after(self.config.answer_timeout_s):
                own = leader_named_by(await node.status(), self.group)
            self._named[name] = own
            known = self.known or own
            if own.leader == name and own.epoch >= known.epoch and own.epoch > self.above:
                return _Leading(name, own.epoch, node)
            race.say(name, not_led(name, self.group, own, known), preferred=known.leader)
            if asked_before and self.known is None:
                self._say_nobody()
            asked_before = True
            await trio.sleep(AGAIN_S)

    def _say_nobody(self) -> None:
        """Say, once, that no node leads, if the leader has to be asked for something."""
        if self._has_said or self.above >= 0:
            return
        self._has_said = True
        names, wait_s = sorted(self._named), self.config.answer_timeout_s
        who = f"{' and '.join(names)} {'knows' if len(names) == 1 else 'know'}"
        self.say(
            f"{self.group}: no node leads now, as far as {who}; waits for a leader, up to"
            f" {wait_s:g} s"
        )

    def advised(self, error: NoAnswer) -> NoAnswer:
        """Add advice to an error, if members answer and none names a leader."""
        if not self._named or self.known is not None:
            return error
        if any(named.lacks for named in self._named.values()):  # its text says what is needed
            return NoAnswer(f"{error}: see `status`, then type it again")
        count = len(self.config.groups[self.group].members)
        return NoAnswer(
            f"{error}; a leader is elected once {count // 2 + 1} of the"
            f" {counted(count, 'member')} run and"
            " hear each other: see `status`, then type it again"
        )

    @property
    def known(self) -> NamedLeader | None:
        """The newest leader that a member named; None: no member named one."""
        return newest(self._named.values())


async def transfer_leader(
    config: ClusterConfig,
    group: str,
    node: str | None,
    connect: Connect,
    *,
    as_json: bool,
    say: Callable[[str], None],
) -> Answer:
    """Ask the leader to hand over. If it does not lead any more, the leader that it names is asked.

    Args:
        node: the node that has to lead; None: the member with most of the log.
        say: called with lines for people before the end.

    Raises:
        ConfigError: no member is running.
        NoAnswer, NotMaster: no node leads, as far as the members say. Nothing was done.
        RequestRefused: the leader refuses it; the lead has not moved.
        OutcomeUnknown: it is unknown whether the lead has moved, or another node leads than was
            asked for.
    """
    members = _Members(config, group, connect, say)
    try:
        return _answer(await _transferred(members, node), as_json)
    except NoAnswer as error:
        raise members.advised(error) from None


async def _transferred(members: _Members, node: str | None) -> dict[str, Any]:
    config, group = members.config, members.group
    until_s = trio.current_time() + config.answer_timeout_s
    led: _Leading | None = None
    while True:
        async with first_of(config, group, members.race()) as leader:
            if led is not None and leader.term > led.term and node in (None, leader.name):
                return _moved(group, led, leader)
            led = leader
            try:
                return await _handed_over(config, leader, group, node)
            except NotMaster:
                if trio.current_time() >= until_s:
                    raise
                why = ""
            except RequestRefused as error:
                if error.error != frames.ERROR_INTERNAL:
                    raise
                why = str(error)
            except LOST as error:
                why = str(error) or "the connection was lost"
        if why:
            return await _settled(members, led, node, why)
        await trio.sleep(AGAIN_S)


async def _handed_over(
    config: ClusterConfig, leader: _Leading, group: str, node: str | None
) -> dict[str, Any]:
    """Ask the leader to hand over. Raises: as its client; OutcomeUnknown: the leader is silent."""
    with trio.move_on_after(config.answer_timeout_s):
        return readable_values(await leader.api.transfer_leader(group, node))
    raise OutcomeUnknown(f"{leader.name} has not answered for {config.answer_timeout_s:g} s")


async def _settled(members: _Members, led: _Leading, node: str | None, why: str) -> dict[str, Any]:
    """Find out from the members what became of a transfer whose end the leader did not report.

    Raises: RequestRefused: the leader leads as before. OutcomeUnknown: another node than `node`
        leads, or no member names a leader.
    """
    group = members.group
    async with members.race(above=led.term) as race:
        found = await first_within(race, SETTLE_S)
        if found is not None and node in (None, found.name):
            return _moved(group, led, found)
        if found is not None:
            leads = f"{found.name} leads {group} in term {found.term}, not {node}"
            raise OutcomeUnknown(f"{leads}: {why}")
        known = members.known
    if known is not None and (known.leader, known.epoch) == (led.name, led.term):
        leads = f"{led.name} leads {group} in term {led.term} as before"
        raise RequestRefused(frames.ERROR_NOT_AVAILABLE, f"{leads}: {why}")
    raise OutcomeUnknown(
        f"whether {led.name} has handed {group} over is not known: {why}; `status` names the leader"
    )


def _moved(group: str, old: _Leading, new: _Leading) -> dict[str, Any]:
    """Make the result in the form in which a node answers."""
    return {"group": group, "leader": new.name, "old_leader": old.name, "term": new.term}


def _answer(found: Mapping[str, Any], as_json: bool) -> Answer:
    return Answer(json.dumps(found) if as_json else transferred_line(found), EXIT_OK)


def transferred_line(found: Mapping[str, Any]) -> str:
    """Describe what a transfer has done, for people."""
    if found["leader"] == found["old_leader"]:
        return f"{found['group']}: {found['leader']} leads in term {found['term']} already"
    return (
        f"{found['group']}: {found['leader']} leads in term {found['term']}; it was"
        f" {found['old_leader']}"
    )
