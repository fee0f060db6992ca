"""A node with one link to the API of another, and stand-ins for what the link tells."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
from api_kit import FOLLOWS, MEMBER, NODE, PORT, Served, sink_of
from proof_kit import credentials

from actors.api.credentials import MemberNetwork
from actors.control.member_link import link_child
from actors.control.member_session import MasterDoor
from actors.env.protocols import Address
from actors.events.codec import decode_line
from actors.events.sink import EventSink
from actors.ha.role_board import RoleBoard
from actors.ha.role_messages import AskMember, MemberTold
from actors.runtime import Actor, ActorRef, ChildSpec, SupervisorSpec, open_system
from actors.storage.commitlog import pull_service

TCP = MasterDoor(address=Address(NODE, PORT), cluster="demo", local_host=MEMBER)


@attrs.define
class Reader(Actor[pull_service.Message]):
    """Stands where the group's pull_service would."""

    got: list[object]

    async def handle(self, message: pull_service.Message) -> None:
        self.got.append(message)


@attrs.define
class Keeper(Actor[MemberTold]):
    """Stands where the group's role keeper would."""

    told: list[MemberTold]

    async def handle(self, message: MemberTold) -> None:
        self.told.append(message)


@attrs.define
class Slave:
    got: list[object]
    sink: EventSink
    told: list[MemberTold] = attrs.Factory(list)
    board: RoleBoard = attrs.field(init=False)
    link: ActorRef[AskMember] = attrs.field(init=False)

    def acknowledged(self) -> list[int]:
        return [
            each.offset_bytes for each in self.got if isinstance(each, pull_service.Acknowledged)
        ]

    def events(self) -> list[str]:
        kinds = [decode_line(line).kind for line in self.sink.peek(10_000)]
        return [kind for kind in kinds if kind.startswith("MasterLink")]


@asynccontextmanager
async def slave(
    served: Served,
    door: MasterDoor = TCP,
    group: str = "orders",
    master: str = "n0",
    retry_s: float = 5.0,
) -> AsyncIterator[Slave]:
    """A node n1 with the link and something that takes what it tells."""
    found = Slave([], sink_of("n1"))
    found.board = RoleBoard(attrs.evolve(FOLLOWS, master=master))
    link = link_child(
        node="n1",
        group=group,
        member=master,
        door=door,
        network=MemberNetwork(served.member, credentials()),
        retry_s=retry_s,
        board=found.board,
    )
    keeper = ChildSpec(name=group, start=lambda: Keeper(told=found.told))
    roles = ChildSpec(name="roles", start=SupervisorSpec(children=(keeper,)))
    reader = ChildSpec(name="pull_service", start=lambda: Reader(got=found.got))
    group_child = ChildSpec(name=group, start=SupervisorSpec(children=(reader,)))
    spec = SupervisorSpec(children=(roles, group_child, link_named(link)))
    async with open_system("n1", spec, events=found.sink) as system:
        found.link = system.ref("/n1/link")
        yield found


def link_named(link: ChildSpec) -> ChildSpec:
    return attrs.evolve(link, name="link")
