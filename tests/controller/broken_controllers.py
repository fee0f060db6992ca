"""Controllers and replicas, broken on purpose, one rule at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from actors.broker.core.replica import Effects, Replica
from actors.broker.replicas_manager import ReplicasManager
from actors.controller import controller
from actors.controller.controller import Controller
from actors.controller.core import broker_sets
from actors.controller.core.broker_sets import BrokerSets

Break = Callable[[pytest.MonkeyPatch], None]


def answers_do_not_wait_for_commits(patch: pytest.MonkeyPatch) -> None:
    append = Controller._append

    def broken(self: Controller, body: bytes, on_reply: Any) -> None:
        append(self, body, on_reply)
        if self._deciding is not None and body:
            controller._answer(self._deciding)
            self._deciding = attrs.evolve(
                self._deciding, asked=attrs.evolve(self._deciding.asked, request=None)
            )

    patch.setattr(Controller, "_append", broken)


def reads_are_not_confirmed(patch: pytest.MonkeyPatch) -> None:
    """As upstream with isProcessReadEvent=false."""

    def broken(self: Controller) -> None:
        for found in self._unproven:
            controller._answer(found)
        self._unproven = []

    patch.setattr(Controller, "_prove", broken)


def anybody_is_elected(patch: pytest.MonkeyPatch) -> None:
    best = BrokerSets._best

    def broken(self: BrokerSets, *args: Any) -> int | None:
        return best(attrs.evolve(self, unclean=True), *args)

    patch.setattr(BrokerSets, "_best", broken)


def sets_are_changed_unchecked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broker_sets, "_alter_problem", lambda *args: None)


def an_id_is_given_to_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerSets, "_apply_problem", lambda self, found, asked: "")


def any_epoch_changes_the_role(patch: pytest.MonkeyPatch) -> None:
    take = Replica._take_role

    def broken(self: Replica, *args: Any) -> Effects:
        known, self.role = self.role, None
        effects = take(self, *args)
        if effects.role is None or effects.role == known:
            self.role = known
            return attrs.evolve(effects, role=None)
        return effects

    patch.setattr(Replica, "_take_role", broken)


def a_failed_change_is_given_up(patch: pytest.MonkeyPatch) -> None:
    """autoswitch-ha.md T7: upstream ignores that it failed."""
    changed = ReplicasManager._changed

    def broken(self: ReplicasManager, message: Any) -> None:
        if isinstance(message.outcome, Exception):
            self._changing = self._wanted = None
        else:
            changed(self, message)

    patch.setattr(ReplicasManager, "_changed", broken)


MUTATIONS: dict[Break, tuple[int, str]] = {
    answers_do_not_wait_for_commits: (0, "NothingPromisedIsLost"),
    reads_are_not_confirmed: (4, "NothingOld"),
    anybody_is_elected: (0, "ElectedFromTheSet"),
    sets_are_changed_unchecked: (3, "TheMasterIsInTheSet"),
    an_id_is_given_to_all: (0, "IdsStay"),
    any_epoch_changes_the_role: (0, "RolesAscend"),
    a_failed_change_is_given_up: (1, "Converges"),
}
"""The seed at which each is caught, and the judge that objects."""
