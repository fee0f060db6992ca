"""What a link tells of the member it leads to, and when a slave shows what its master says."""

from __future__ import annotations

import attrs
import trio
from api_kit import FOLLOWS, STATE, MemoryNode, serving
from member_kit import slave
from trio.testing import MockClock

from actors.control.member_link import AskMember
from actors.ha.core.role_effects import RoleState
from actors.ha.role_messages import MemberReported
from actors.storage.commitlog import pull_service


async def test_what_a_member_is_is_reported_at_once_and_when_it_changes(
    autojump_clock: MockClock,
) -> None:
    node = MemoryNode()
    async with serving(node) as served, slave(served) as found:
        await trio.sleep(1)
        assert found.received == [MemberReported(member="n0", state=STATE)]
        node.state = attrs.evolve(STATE, state="fenced", reason="n1 is ahead")
        node.stir()
        await trio.sleep(1)
        assert found.received[1:] == [MemberReported(member="n0", state=node.state)]


async def test_a_question_has_an_answer_of_its_own(autojump_clock: MockClock) -> None:
    async with serving(MemoryNode()) as served, slave(served) as found:
        await found.link.tell(AskMember(group="orders", number=6))  # before there is a connection
        await trio.sleep(1)
        for number in (7, 8):
            await found.link.tell(AskMember(group="orders", number=number))
        await trio.sleep(1)
        assert [each.asked for each in found.received] == [0, 6, 7, 8]


async def test_a_slave_that_is_not_known_to_fit_shows_nothing_new(
    autojump_clock: MockClock,
) -> None:
    node = MemoryNode(stored=[b"x"] * 9, acknowledged=100)
    async with serving(node) as served, slave(served) as found:
        found.role_status.publish(attrs.evolve(FOLLOWS, state=RoleState.DIVERGED), is_open=False)
        await trio.sleep(1)
        assert found.got == []
        found.role_status.publish(FOLLOWS, is_open=False)
        await trio.sleep(1)
        assert found.acknowledged() == [100], "known before, shown now"
        found.role_status.publish(attrs.evolve(FOLLOWS, state=RoleState.CONNECTING), is_open=False)
        node.acknowledged = 200
        node.stir()
        await trio.sleep(1)
        assert found.acknowledged() == [100]


async def test_the_offsets_of_the_master_alone_are_watched(autojump_clock: MockClock) -> None:
    node = MemoryNode(stored=[b"x"] * 9, acknowledged=100)
    async with serving(node) as served, slave(served) as found:
        await trio.sleep(1)
        assert found.acknowledged() == [100]
        found.role_status.publish(attrs.evolve(FOLLOWS, master="n2"), is_open=False)
        node.acknowledged = 300
        node.stir()
        await trio.sleep(1)
        assert found.acknowledged() == [100], "it is not master any more"
        node.state = attrs.evolve(STATE, state="following")
        node.stir()
        await trio.sleep(1)
        assert found.received[-1].state.state == "following", "but it is still a member"
        found.role_status.publish(FOLLOWS, is_open=False)
        await trio.sleep(1)
        assert found.acknowledged()[-1] == 300
        assert all(
            isinstance(each, pull_service.Acknowledged | pull_service.MasterChanged)
            for each in found.got
        )
