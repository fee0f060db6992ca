"""An operator's promotion in an auto-switch group: its controllers elect the replica that is named.

Any member that is asked carries it out:

1. Ask the leading controller who is in the set, who of them lives, and who is master.
2. Choose the next master, or refuse. A replica outside the sync state set may lack what was
   acknowledged, and controllers elect none such.
3. Ask for its election, by the id that the controllers gave it.
4. Wait until it is open.

Up to step 3 nothing has happened. The old master, if it lives, answers nothing more once it hears
of the new one: appends under way there may have an unknown outcome.

Upstream: apache/rocketmq, tools/.../command/controller/ReElectMasterSubCommand.java (5.3.3), which
has an operator name an id, and asks for any election without one, by which controllers clear a
master if nobody else lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.broker.replica_wishes import (
    Elected,
    ElectMaster,
    GetReplicas,
    NotElected,
    WishUnanswered,
)
from actors.config import AutoSwitchGroup
from actors.control.members import GroupMembers
from actors.control.promotion import member_rows, see_open, states_of
from actors.errors import Closed
from actors.node.part import asked
from actors.runtime import ActorRef
from wire.api import frames
from wire.broker.controller import LEAST_PRIORITY, ReplicasInfo

AGAIN_S = 0.25
"""The pause before the controllers are asked again, if none that leads has answered."""


@attrs.frozen
class Chosen:
    """The next master.

    Attributes:
        broker_id: by which controllers know it.
        name: its node, or its address if the cluster file names none.
        old: the name of the master before it; None: there is none.
    """

    broker_id: int
    name: str
    old: str | None


@attrs.define(kw_only=True)
class Promotion:
    """Carries out one promotion; see the module's text.

    Attributes:
        brokers: by node, where brokers and clients reach it, "HOST:PORT".
        answer_timeout_s: how long to look for a controller that leads.
    """

    group: AutoSwitchGroup
    brokers: Mapping[str, str]
    members: GroupMembers
    manager: ActorRef[GetReplicas | ElectMaster]
    answer_timeout_s: float

    async def run(self, node: str | None) -> dict[str, Any]:
        """Carry it out.

        Args:
            node: the member that has to become master; None: any that may.

        Returns: what happened, ready for JSON.

        Raises:
            RequestRefused: nothing was changed, or the text says what was.
            OutcomeUnknown: it may have happened.
        """
        name = self.group.name
        next_master = chosen(self.group, self.brokers, await self._replicas(), node)
        elected = await self._elect(next_master.broker_id)
        start_bytes = None
        if next_master.name in self.group.members:
            opened = await see_open(partial(self.members.state, next_master.name), elected.epoch)
            if isinstance(opened, str):
                text = (
                    f"{next_master.name} is master of {name} in epoch {elected.epoch}, but does not"
                    f" say that it takes appends: {opened}"
                )
                raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
            if opened.number > elected.epoch:
                text = (
                    f"{next_master.name} became master of {name} in epoch {elected.epoch}, and then"
                    f" {opened.master or 'nobody'} in epoch {opened.number}"
                )
                raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
            start_bytes = opened.history[-1].start_bytes
        states, silent = await states_of(self.members.state, self.group.members)
        return {
            "group": name,
            "number": elected.epoch,
            "master": next_master.name,
            "old_master": next_master.old,
            "start_bytes": start_bytes,
            "handed_over": False,
            "losses": [],
            "members": member_rows(states, silent),
        }

    async def _replicas(self) -> ReplicasInfo:
        """Return who is in the set. Raises: RequestRefused: no controller says so in time."""
        why = "no answer in time"
        with trio.move_on_after(self.answer_timeout_s):
            while True:
                try:
                    return await asked(
                        self.members.own.node, self.manager, GetReplicas, ReplicasInfo
                    )
                except (WishUnanswered, Closed) as error:
                    why = " ".join(str(error).split())
                await trio.sleep(AGAIN_S)
        text = f"no controller of {self.group.name} answers: {why}; nothing was done"
        raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)

    async def _elect(self, broker_id: int) -> Elected:
        try:
            return await asked(
                self.members.own.node,
                self.manager,
                partial(_election, broker_id),
                Elected,
            )
        except NotElected as error:
            text = f"{error}; nothing was done"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text) from error


def _election(broker_id: int, reply_to: Any) -> ElectMaster:
    return ElectMaster(broker_id=broker_id, reply_to=reply_to)


def chosen(
    group: AutoSwitchGroup, brokers: Mapping[str, str], found: ReplicasInfo, node: str | None
) -> Chosen:
    """Choose the next master by what the controllers say.

    Without a wish it is a living member of the sync state set that is not master yet: one of the
    cluster file, then the one with the lowest priority in elections.

    Raises:
        RequestRefused: nobody can be it, in one line.
    """
    nodes = {address: name for name, address in brokers.items()}
    both = (*found.in_sync_replicas, *found.not_in_sync_replicas)
    replicas = {each.broker_id: each for each in both if each.broker_id is not None}
    names = {
        key: nodes.get(each.broker_address or "", each.broker_address or f"replica {key}")
        for key, each in replicas.items()
    }
    ids = {name: key for key, name in names.items()}
    in_sync = [each.broker_id for each in found.in_sync_replicas if each.broker_id in replicas]
    living = [key for key in in_sync if replicas[key].alive]
    master = found.master_broker_id
    told = ", ".join(names[key] for key in in_sync) or "nobody"
    text = ""
    if node is None:
        rest = [key for key in living if key != master]
        if not replicas:
            text = f"no replica of {group.name} is registered with the controllers"
        elif not living:
            who = " or ".join(names[key] for key in in_sync) or "one"
            text = f"no replica of the sync state set of {group.name} lives: {who} has to come back"
        elif not rest:
            text = f"no other replica of {group.name} that lives is in the sync state set ({told})"
        else:
            best = min(rest, key=lambda key: _rank(group, names[key], key))
            return Chosen(best, names[best], names.get(master or -1))
    elif node in group.learners:
        text = f"{node} is a learner: it is never elected"
    elif node not in ids:
        text = f"{node} is no replica that the controllers of {group.name} know: start it"
    elif not replicas[ids[node]].alive:
        text = f"{node} does not live, as the controllers know: start it"
    elif ids[node] == master:
        text = f"{node} is the master of {group.name} already, in epoch {found.master_epoch}"
    elif ids[node] not in in_sync:
        text = (
            f"{node} is not in the sync state set of {group.name} ({told}): it may lack what was"
            " acknowledged"
        )
    else:
        return Chosen(ids[node], node, names.get(master or -1))
    raise RequestRefused(frames.ERROR_BAD_REQUEST, text)


def _rank(group: AutoSwitchGroup, name: str, broker_id: int) -> tuple[bool, int, int]:
    priority = group.election_priority.get(name, LEAST_PRIORITY)
    return name not in group.members, priority, broker_id
