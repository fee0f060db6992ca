"""Questions that a controller decides, as they are read from requests.

Source: apache/rocketmq, controller/.../processor/ControllerRequestProcessor.java, 5.3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, TypeVar

import attrs

from actors.controller.core.broker_sets import Alive, BrokerSet, BrokerSets, Decision
from actors.remoting.requests import Request
from wire.broker import controller as said
from wire.broker.codes import RequestCode as Code

AliveOf: TypeAlias = Callable[[BrokerSet | None], Alive]
"""Gives the living replicas of a broker set; of one that is not known, nobody."""


N = TypeVar(
    "N", said.RegisterToController, said.BrokerSet, said.CleanBrokerData, said.ApplyBrokerId
)


@attrs.frozen(kw_only=True)
class Question:
    """What has to be decided.

    Attributes:
        broker: the name of the broker set; "" for several.
        code: what is asked.
        decide: gives the decision on the sets as they are.
        asked_by: who wants an election, for events.
        asker: the replica that asks, by its id; None: nobody who lives by asking.
    """

    broker: str
    code: Code
    decide: Callable[[BrokerSets, AliveOf], Decision]
    asked_by: str = "the controller"
    asker: int | None = None


def _alter(request: Request) -> Question:
    asked = request.fields(said.AlterSyncStateSet)
    wanted, name = said.decode_sync_state_set(request.body), asked.broker_name
    return Question(
        broker=name,
        code=Code.CONTROLLER_ALTER_SYNC_STATE_SET,
        decide=lambda sets, alive: sets.alter(asked, wanted, alive(sets.get(name))),
    )


def _elect(request: Request) -> Question:
    asked = request.fields(said.ElectMaster)
    if asked.designate_elect:
        return election(asked, "an operator")
    found = election(asked, f"replica {asked.broker_id}")
    return attrs.evolve(found, asker=asked.broker_id)


def election(asked: said.ElectMaster, by: str = "the controller") -> Question:
    """Return the question who is to be master."""
    name = asked.broker_name
    return Question(
        broker=name,
        code=Code.CONTROLLER_ELECT_MASTER,
        decide=lambda sets, alive: sets.elect(asked, alive(sets.get(name))),
        asked_by=by,
    )


def _sync_state_data(request: Request) -> Question:
    names = said.decode_names(request.body) if request.body else ()
    return Question(
        broker="",
        code=Code.CONTROLLER_GET_SYNC_STATE_DATA,
        decide=lambda sets, alive: sets.sync_state_data(names, alive),
    )


def _reader(
    type_: type[N],
    decide: Callable[[BrokerSets, N, Alive], Decision],
    asker: Callable[[N], int | None] = lambda asked: None,
) -> Callable[[Request], Question]:
    """Return what reads a request about one set that has all it says in its fields.

    Args:
        decide: gets the sets, the fields, and the living replicas of the set.
        asker: gives `Question.asker`.
    """

    def read(request: Request) -> Question:
        asked = request.fields(type_)
        name = asked.broker_name
        return Question(
            broker=name,
            code=Code(request.header.code),
            decide=lambda sets, alive: decide(sets, asked, alive(sets.get(name))),
            asker=asker(asked),
        )

    return read


READERS: Final[Mapping[Code, Callable[[Request], Question]]] = {
    Code.CONTROLLER_ALTER_SYNC_STATE_SET: _alter,
    Code.CONTROLLER_ELECT_MASTER: _elect,
    Code.CONTROLLER_REGISTER_BROKER: _reader(
        said.RegisterToController, BrokerSets.register, lambda asked: asked.broker_id
    ),
    Code.CONTROLLER_GET_REPLICA_INFO: _reader(
        said.BrokerSet, lambda sets, asked, alive: sets.replica_info(asked)
    ),
    Code.CONTROLLER_GET_SYNC_STATE_DATA: _sync_state_data,
    Code.CLEAN_BROKER_DATA: _reader(said.CleanBrokerData, BrokerSets.clean),
    Code.CONTROLLER_GET_NEXT_BROKER_ID: _reader(
        said.BrokerSet, lambda sets, asked, alive: sets.next_id(asked)
    ),
    Code.CONTROLLER_APPLY_BROKER_ID: _reader(
        said.ApplyBrokerId, lambda sets, asked, alive: sets.apply_id(asked)
    ),
}
"""By request code, what reads a request. Each raises Refused or RemoteProtocolError for junk."""
