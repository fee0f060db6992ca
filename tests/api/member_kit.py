"""A node with a link to the API of another, and stand-ins for what the link tells."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
from api_kit import FOLLOWS, MEMBER, NODE, PORT, Served, sink_of
from proof_kit import credentials

from actors.api.credentials import MemberNetwork
from actors.control.member_link import AskMember, WatchedGroup, link_child, link_path
from actors.control.member_session import MemberAddress
from actors.control.members import MemberLinks
from actors.env.protocols import Address
from actors.events.codec import decode_line
from actors.events.sink import EventSink
from actors.ha.role_messages import MemberReported
from actors.ha.role_status import RoleStatus
from actors.runtime import Actor, ActorRef, ChildSpec, SupervisorSpec, open_system
from actors.storage.commitlog import pull_service

TCP = MemberAddress(address=Address(NODE, PORT), cluster="demo", local_host=MEMBER)


@attrs.define
class Reader(Actor[pull_service.Message]):
    """Stands where the group's pull_service would."""

    got: list[object]

    async def handle(self, message: pull_service.Message) -> None:
        self.got.append(message)


@attrs.define
class Keeper(Actor[MemberReported]):
    """Stands where the group's role keeper would."""

    received: list[MemberReported]

    async def handle(self, message: MemberReported) -> None:
        self.received.append(message)


@attrs.define
class Slave:
    got: list[object]
    sink: EventSink
    received: list[MemberReported] = attrs.Factory(list)
    role_status: RoleStatus = attrs.field(init=False)
    link: ActorRef[AskMember] = attrs.field(init=False)
    links: MemberLinks = attrs.field(init=False)

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
    address: MemberAddress = TCP,
    group: str = "orders",
    master: str = "n0",
    retry_s: float = 5.0,
    network: MemberNetwork | None = None,
    more: tuple[str, ...] = (),
) -> AsyncIterator[Slave]:
    """A node n1 with the link, which watches `group` and `more`, and what takes what it tells."""
    found = Slave([], sink_of("n1"))
    found.role_status = RoleStatus(attrs.evolve(FOLLOWS, master=master))
    names = (group, *more)
    link = link_child(
        node="n1",
        member=master,
        address=address,
        network=network or MemberNetwork(served.member, credentials()),
        groups=tuple(
            WatchedGroup(name=name, retry_s=retry_s, role_status=found.role_status)
            for name in names
        ),
    )
    links = ChildSpec(name="links", start=SupervisorSpec(children=(link,)))
    api = ChildSpec(name="api", start=SupervisorSpec(children=(links,)))
    keepers = tuple(
        ChildSpec(name=each, start=lambda: Keeper(received=found.received)) for each in names
    )
    roles = ChildSpec(name="roles", start=SupervisorSpec(children=keepers))
    reader = ChildSpec(name="pull_service", start=lambda: Reader(got=found.got))
    readers = SupervisorSpec(children=(reader,))
    groups = tuple(ChildSpec(name=each, start=readers) for each in names)
    spec = SupervisorSpec(children=(roles, *groups, api))
    async with open_system("n1", spec, events=found.sink) as system:
        found.link = system.ref(link_path("n1", master))
        found.links = MemberLinks("n1", system.ref, address.answer_timeout_s)
        yield found
