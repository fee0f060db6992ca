"""The questions that a node asks other members of its groups, over its links to their APIs."""

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
"""How many seconds a member may take to act by a new promotion, for which it closes its log in
order and opens it again.
"""


@attrs.frozen
class MemberLinks:
    """The links of one node.

    Every method raises one of `member_session.LOST`. RequestRefused is the member's own answer;
    with any other error it is unknown whether the member has received the question.

    Attributes:
        node: the node that asks.
        ref: gives the reference to an actor of the node, by its path.
        answer_timeout_s: the configured time for an answer, a new connection included.
    """

    node: str
    ref: Callable[[str], ActorRef[Any]]
    answer_timeout_s: float

    async def ask(
        self, member: str, question: Question, kind: type[A], timeout_s: float | None = None
    ) -> A:
        """Ask one question, and return its answer, which is of `kind`.

        Args:
            question: the link chooses its number.
            timeout_s: how long the answer may take; None: `answer_timeout_s`.
        """
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
        """Return the present state of another member in the group."""
        question = frames.GetGroup(id=0, group=group)
        return to_group_state(await self.ask(member, question, frames.Group))

    async def committed(self, member: str, group: str) -> int:
        """Return the end of what a leader has committed; it proves for this that it still leads."""
        nothing = frames.Read(id=0, group=group, start=frames.POSITION_MAX, max_bytes=1, fresh=True)
        return (await self.ask(member, nothing, frames.Batch)).acknowledged

    async def log_range(self, member: str, group: str, start: int) -> GoodRange:
        """Return a range of another member's log which that member found good.

        Here only its digest is checked, against damage on the way.
        """
        question = frames.GetRange(id=0, group=group, start=start)
        found = await self.ask(member, question, frames.Range)
        if crc32(found.data) != found.digest:
            raise SocketClosed("the range was damaged on the way: its digest differs")
        return GoodRange(start=found.start, data=found.data, digest=found.digest)


class OwnPart(Protocol):
    """What `GroupMembers` needs of the asking node's own part in the group."""

    @property
    def node(self) -> str: ...
    async def group_state(self) -> GroupState: ...
    async def fence(self, claim: Claim, on: bool) -> GroupState: ...
    async def record(self, number: int, master: str, token: int, force: bool) -> GroupState: ...


@attrs.frozen
class GroupMembers:
    """The members of one group, for one of them that asks them and itself.

    Its methods raise what those of `MemberLinks` raise.

    Attributes:
        own: the asking node's own part in the group, which needs no link.
    """

    own: OwnPart
    links: MemberLinks
    group: str

    async def state(self, node: str) -> GroupState:
        """Return the present state of a node in the group."""
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
    """The `RoleAuthority` of a classic group: its members themselves.

    Each member records an operator's promotion, and reports what it knows to the others.
    """

    links: MemberLinks
    group: str

    async def ask(self, member: str, number: int) -> None:
        """See `RoleAuthority`."""
        link: ActorRef[AskMember] = self.links.ref(link_path(self.links.node, member))
        await link.tell(AskMember(group=self.group, number=number))
