"""A group of real actors under `compat = "upstream"`: looser, and it still replicates."""

from __future__ import annotations

from group_kit import opened


async def test_a_group_by_upstreams_rules_commits_and_takes_a_member_back(
    autojump_clock: object,
) -> None:
    async with opened(compat="upstream") as group:
        leader = await group.leader()
        first = await group.append(leader, b"one")
        assert first.first_index == 0, "upstream opens a term with nothing"
        follower = next(name for name in group.names if name != leader)
        await group.kill(follower)
        second = await group.append(leader, b"two")
        await group.start(follower)
        await group.append(leader, b"three")
        await group.until_shown(second.last_index + 1)
        for name in group.names:
            assert await group.bodies(name) == [b"one", b"two", b"three"]


async def test_a_leader_that_died_is_followed_by_another_by_upstreams_rules(
    autojump_clock: object,
) -> None:
    async with opened(compat="upstream") as group:
        old = await group.leader()
        await group.append(old, b"one")
        await group.kill(old)
        new = await group.leader()
        assert new != old
        await group.start(old)
        done = await group.append(new, b"two")
        await group.until_shown(done.last_index)
        for name in group.names:
            assert await group.bodies(name) == [b"one", b"two"]
