"""Simulated histories in which name servers know who lives, and what it takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from registration_runs import objections, run

from actors.broker import registrar
from actors.broker.core import registration
from actors.broker.core.registration import Registration
from actors.broker.registrar import Registrar
from actors.metadata.core.tables import as_master
from wire.broker.topics import TopicTable

SEEDS = range(4)
Break = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("seed", SEEDS)
async def test_name_servers_know_who_lives(autojump_clock: object, seed: int) -> None:
    history = await run(seed)
    assert history.number > 0
    assert len(history.perms) > 2


def what_is_lost_counts(patch: pytest.MonkeyPatch) -> None:
    """A registration without an answer is none that has to be made up for."""
    patch.setattr(Registration, "failed", lambda self, reason, now_s: self.answered(now_s))


def nobody_registers_again(patch: pytest.MonkeyPatch) -> None:
    """What a name server has once answered it has for ever."""
    patch.setattr(registration, "PERIOD_S", math.inf)


def nobody_unregisters(patch: pytest.MonkeyPatch) -> None:
    async def broken(self: Registrar, server: object) -> None:
        pass

    patch.setattr(Registrar, "_leave", broken)


def no_promotion_has_a_number(patch: pytest.MonkeyPatch) -> None:
    """As 4.x, whose data versions have no state."""

    def broken(self: Registrar) -> TopicTable:
        is_master = self._member.broker_id == 0
        return as_master(self.view.tables).topics if is_master else TopicTable()

    patch.setattr(Registrar, "_table", broken)


def a_promoted_node_keeps_its_id(patch: pytest.MonkeyPatch) -> None:
    appear = Registrar._appear

    def broken(self: Registrar) -> None:
        if self._presence is None:
            appear(self)

    patch.setattr(Registrar, "_appear", broken)


def changes_share_a_version(patch: pytest.MonkeyPatch) -> None:
    """As in upstream, which tells a change of one topic at a time."""
    patch.setattr(registration, "_earlier", lambda version, by: version)


def a_lone_topic_comes_first(patch: pytest.MonkeyPatch) -> None:
    """T4."""
    patch.setattr(registration, "in_parts", lambda table: (table,))


def one_name_server_hears_for_all(patch: pytest.MonkeyPatch) -> None:
    tell = Registrar._tell

    def broken(self: Registrar, server: Any, told: Any) -> None:
        if server == self.servers[0]:
            tell(self, server, told)

    patch.setattr(Registrar, "_tell", broken)


def changes_wait_for_the_period(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Registration, "_next_topic", lambda *_: None)


def slaves_have_topics_alone(patch: pytest.MonkeyPatch) -> None:
    """What a master registers is empty, too."""
    patch.setattr(registrar, "MASTER_ID", 99)


def a_version_is_never_new(patch: pytest.MonkeyPatch) -> None:
    """Name servers take a topic that they know only under a version that they do not know."""
    only = registration._only

    def broken(table: TopicTable, rows: Any, version: Any) -> TopicTable:
        same = msgspec.structs.replace(version, counter=0, timestamp=0)
        return only(table, rows, same)

    patch.setattr(registration, "_only", broken)


MUTATIONS: dict[Break, tuple[str, int]] = {
    what_is_lost_counts: ("TriedAgain", 0),
    nobody_registers_again: ("Found", 0),
    nobody_unregisters: ("Leaves", 0),
    no_promotion_has_a_number: ("TheNewMasterStays", 1),
    a_promoted_node_keeps_its_id: ("TheNewMasterStays", 0),
    changes_share_a_version: ("ToldAtOnce", 0),
    a_lone_topic_comes_first: ("Found", 0),
    one_name_server_hears_for_all: ("Found", 0),
    changes_wait_for_the_period: ("TriedAgain", 0),
    slaves_have_topics_alone: ("Found", 0),
    a_version_is_never_new: ("ToldAtOnce", 0),
}
"""By mutation: the judge that objects first, and the seed."""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.__name__)
async def test_a_broken_registration_is_caught(
    autojump_clock: object, mutation: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, seed = MUTATIONS[mutation]
    mutation(monkeypatch)
    with pytest.raises(ExceptionGroup) as raised:
        await run(seed)
    assert objections(raised.value)[:1] == [judge]
