"""What a slave's store received together is reported together."""

from __future__ import annotations

from typing import Any

from store_kit import running, sim_disk, small_group, until

from actors.events import store as events


async def test_growth_is_reported_though_the_next_frame_has_begun(autojump_clock: Any) -> None:
    group = small_group(durability="written", flush_interval_s=1000.0)
    async with running(sim_disk(), group, is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, b"ab", ends_frame=True)
        await kit.receive(1, 2, b"c", ends_frame=False)
        await until(lambda: kit.grown is not None and kit.grown.written_bytes == 3)


async def test_what_came_before_a_refused_message_is_reported_first(autojump_clock: Any) -> None:
    async with running(sim_disk(), is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, b"abc")
        await kit.receive(1, 3, b"de")
        await kit.receive(1, 6, b"f")
        await kit.receive(1, 5, b"f")
        await until(lambda: kit.refused)
        assert (await kit.range()).written_bytes == 5
        (reported,) = kit.of(events.BytesReceived)
        assert (reported.first_bytes, reported.next_bytes) == (0, 5)
        (refused,) = kit.of(events.RawAppendRefused)
        assert refused.offset_bytes == 6
        assert len(kit.refused) == 1
