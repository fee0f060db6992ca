"""What a node asks the other members of its groups, each over its link to that member's API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import attrs
import trio

from actors.api.convert import from_claim, to_group_state
from actors.api.frame_socket import SocketClosed
from actors.control.member_link import Ask, AskMember, Question, link_path
from actors.control.member_session import unexpected
from actors.log_types import Claim, GoodRange, GroupState
from actors.runtime import ActorError, ActorRef, ReplyTo
from wire.api import frames
from wire.crc import crc32

A = TypeVar("A", bound=frames.Answer)

RECORD_TIMEOUT_S = 30.0
"""A node that acts by another promotion has stopped its log in order and opened it again."""


@attrs.frozen
class MemberLinks:
    """The links of one node.

    Every method raises one of `member_session.LOST`: RequestRefused is the member's own word, with
    anything else nobody knows whether it was heard.

    Attributes:
        ref: where an actor of the node is, by its path.
        answer_timeout_s: for an answer, a new connection included: the configuration's.
    """

    node: str
    ref: Callable[[str], ActorRef[Any]]
    answer_timeout_s: float

    async def ask(
        self, member: str, question: Question, kind: type[A], timeout_s: float | None = None
    ) -> A:
        """Ask one question; its number is the link's to choose."""
        link: ActorRef[Ask] = self.ref(link_path(self.node, member))
        answered = trio.Event()
        answers: list[frames.Answer | Exception] = []

        def settle(answer: frames.Answer | Exception) -> None:
            answers.append(answer)
            answered.set()

        reply: ReplyTo[frames.Answer] = ReplyTo.local(settle, asked=link)
        try:
            with trio.fail_after(self.answer_timeout_s if timeout_s is None else timeout_s):
                await link.tell(Ask(question=question, reply_to=reply))
                await answered.wait()
        finally:
            reply.abandon()
        (answer,) = answers
        if isinstance(answer, ActorError):
            raise SocketClosed(str(answer)) from answer
        if isinstance(answer, Exception):
            raise answer
        if not isinstance(answer, kind):
            raise unexpected(answer)
        return answer

    async def group_state(self, member: str, group: str) -> GroupState:
        """What another member is in the group at this moment."""
        question = frames.GetGroup(id=0, group=group)
        return to_group_state(await self.ask(member, question, frames.Group))

    async def committed(self, member: str, group: str) -> int:
        """Up to where a leader has committed at this moment, by a read that it proves its
        leadership for.
        """
        nothing = frames.Read(id=0, group=group, start=frames.POSITION_MAX, max_bytes=1, fresh=True)
        return (await self.ask(member, nothing, frames.Batch)).acknowledged

    async def log_range(self, member: str, group: str, start: int) -> GoodRange:
        """A good range of another member's log, by what that one says: nothing of it was checked
        but its length and its digest.
        """
        question = frames.GetRange(id=0, group=group, start=start)
        found = await self.ask(member, question, frames.Range)
        if crc32(found.data) != found.digest:
            raise SocketClosed("the bytes that came are not those that were sent")
        return GoodRange(start=found.start, data=found.data, digest=found.digest)


class OwnPart(Protocol):
    """The asking node's own part in the group."""

    @property
    def node(self) -> str: ...
    async def group_state(self) -> GroupState: ...
    async def fence(self, claim: Claim, on: bool) -> GroupState: ...
    async def record(self, number: int, master: str, token: int, force: bool) -> GroupState: ...


@attrs.frozen
class Members:
    """The members of one group, asked by one of them. Every method raises as those of MemberLinks.

    Attributes:
        own: who asks; itself it asks without a link.
    """

    own: OwnPart
    links: MemberLinks
    group: str

    async def state(self, node: str) -> GroupState:
        """What the node is in the group now."""
        if node == self.own.node:
            return await self.own.group_state()
        return await self.links.group_state(node, self.group)

    async def fence(self, node: str, claim: Claim, on: bool) -> GroupState:
        """Implements `NodeHandle.fence`."""
        if node == self.own.node:
            return await self.own.fence(claim, on)
        question = from_claim(claim, id=0, group=self.group, on=on)
        return to_group_state(await self.links.ask(node, question, frames.Group))

    async def record(
        self, node: str, number: int, master: str, token: int, force: bool
    ) -> GroupState:
        """Implements `NodeHandle.record`."""
        if node == self.own.node:
            return await self.own.record(number, master, token, force)
        question = frames.Record(
            id=0, group=self.group, number=number, master=master, token=token, force=force
        )
        return to_group_state(await self.links.ask(node, question, frames.Group, RECORD_TIMEOUT_S))


@attrs.frozen
class MemberAuthority:
    """The members themselves are a `RoleAuthority`: an operator's promotion is told to each, and
    each tells the others what it knows.
    """

    links: MemberLinks
    group: str

    async def ask(self, member: str, number: int) -> None:
        """See `RoleAuthority`."""
        link: ActorRef[AskMember] = self.links.ref(link_path(self.links.node, member))
        await link.tell(AskMember(group=self.group, number=number))
