"""Faults of the simulated network, each seen through what an application notices."""

from __future__ import annotations

import pytest
import trio
from lan_kit import PORT, SERVER, lan

from actors.env import ReceiveHalf
from actors.sim.network import NetworkOptions
from actors.sim.network.links import Agenda


async def silent(receive: ReceiveHalf, seconds: float) -> bool:
    with trio.move_on_after(seconds):
        await receive.receive_some(1)
        return False
    return True


async def test_a_cut_holds_bytes_back_until_it_is_healed(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        it.net.cut("client", "server")
        await it.send.send_all(b"held")
        assert await silent(it.receive, 60)
        _, back = it.ends[1].halves()
        await back.send_all(b"the other way works")
        assert await it.ends[0].halves()[0].receive_some(100) == b"the other way works"
        it.net.heal("client", "server")
        assert await it.receive.receive_some(100) == b"held"
        await it.send.send_all(b"and on")
        assert await it.receive.receive_some(100) == b"and on"


async def test_a_cut_way_back_fills_the_window(autojump_clock: trio.abc.Clock) -> None:
    async with lan(NetworkOptions(window_bytes=1000, fragment_share=0.0)) as it:
        it.net.cut("server", "client")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(it.send.send_all, b"x" * 2000)
            await trio.sleep(10)
            assert len(await it.receive.receive_some(5000)) == 1000
            assert await silent(it.receive, 60)
            it.net.heal("server", "client")
            assert len(await it.receive.receive_some(5000)) == 1000


async def test_unacknowledged_bytes_break_the_sender_after_a_quarter_of_an_hour(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        it.net.cut_both("client", "server")
        start_s = trio.current_time()
        await it.send.send_all(b"into the void")
        near_receive, _ = it.ends[0].halves()
        with pytest.raises(trio.BrokenResourceError, match="timed out"):
            await near_receive.receive_some(1)
        assert trio.current_time() - start_s == pytest.approx(924.6, abs=0.1)
        it.net.heal_all()
        assert await silent(it.receive, 60)  # the server knows nothing ...
        _, back = it.ends[1].halves()
        await back.send_all(b"x")  # ... until it says something
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await it.receive.receive_some(1)
        assert it.net.counts["retransmit_timeout"] == 1


async def test_what_a_closed_side_had_sent_before_a_cut_arrives_after_it(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        it.net.cut("client", "server")
        await it.send.send_all(b"my last")
        for half in it.ends[0].halves():
            await half.aclose()
        await trio.sleep(60)
        it.net.heal("client", "server")
        assert await it.receive.receive_some(100) == b"my last"
        assert await it.receive.receive_some(100) == b""


async def test_a_listener_that_is_closed_leaves_its_port_to_another_process(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        await it.listener.aclose()
        other = await it.net.open("server").listen(SERVER, PORT)
        it.server.end()
        await it.client.connect(SERVER, PORT)
        await other.accept()


async def test_an_idle_connection_outlives_any_cut(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as it:
        it.net.isolate("server")
        await trio.sleep(86_400)
        it.net.heal_both("client", "server")
        await it.send.send_all(b"still here")
        assert await it.receive.receive_some(100) == b"still here"


async def test_a_second_cut_starts_a_new_count_of_the_time_out(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        for _ in range(3):
            it.net.cut("client", "server")
            await it.send.send_all(b"x")
            await trio.sleep(900)
            it.net.heal("client", "server")
            assert await it.receive.receive_some(1) == b"x"


async def test_reset_breaks_both_sides_and_keeps_what_has_arrived(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        await it.send.send_all(b"arrived")
        await trio.sleep(1)
        await it.send.send_all(b"under way")
        assert it.net.reset("server", "client") == 1
        with pytest.raises(trio.BrokenResourceError):
            await it.send.send_all(b"x")
        assert await it.receive.receive_some(100) == b"arrived"
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await it.receive.receive_some(100)


async def test_a_forgotten_connection_is_half_open_until_the_other_sends(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        assert it.net.forget("client", "server") == 1
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await it.send.send_all(b"x")
        assert await silent(it.receive, 100)
        _, back = it.ends[1].halves()
        await back.send_all(b"anyone?")
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await it.receive.receive_some(1)


async def test_a_reset_is_lost_in_a_cut(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as it:
        it.net.cut("client", "server")
        it.ends[0].abort()
        await trio.sleep(10)
        it.net.heal("client", "server")
        assert await silent(it.receive, 100)
        _, back = it.ends[1].halves()
        await back.send_all(b"anyone?")
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await it.receive.receive_some(1)


async def test_closing_with_unread_bytes_resets(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as it:
        await it.send.send_all(b"unread")
        await trio.sleep(1)
        for half in it.ends[1].halves():
            await half.aclose()
        near_receive, _ = it.ends[0].halves()
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await near_receive.receive_some(1)


async def test_a_closed_receiving_half_still_fills_its_window(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan(NetworkOptions(window_bytes=1000)) as it:
        await it.receive.aclose()
        with trio.move_on_after(10) as scope:
            await it.send.send_all(b"x" * 2000)
        assert scope.cancelled_caught


async def test_a_powerless_machine_is_silent_and_its_successor_resets(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        it.net.power_off("server")
        near_receive, _ = it.ends[0].halves()
        assert await silent(near_receive, 100)
        await it.send.send_all(b"x")
        assert await silent(near_receive, 100)
        it.net.power_on("server")
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await near_receive.receive_some(1)
        with pytest.raises(OSError, match="Network is down"):
            await it.server.listen(SERVER, PORT)
        with pytest.raises(trio.ClosedResourceError):
            await it.listener.accept()
        again = await it.net.open("server").listen(SERVER, PORT)
        await it.client.connect(SERVER, PORT)
        await again.accept()
        assert it.net.counts == {"power_off": 1}


async def test_what_a_powerless_machine_had_not_got_through_is_lost(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        await it.send.send_all(b"on the wire")
        it.net.power_off("client")
        assert await it.receive.receive_some(100) == b"on the wire"
    async with lan() as it:
        it.net.cut("client", "server")
        await it.send.send_all(b"nobody repeats this")
        it.net.power_off("client")
        await trio.sleep(1)
        it.net.power_on("client")
        it.net.heal("client", "server")
        assert await silent(it.receive, 100)


async def test_a_killed_process_ends_its_connections_properly(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        await it.send.send_all(b"last words")
        waiting = await it.client.connect(SERVER, PORT)
        it.client.end()
        it.client.end()
        assert await it.receive.receive_some(100) == b"last words"
        assert await it.receive.receive_some(100) == b""
        with pytest.raises(trio.ClosedResourceError):
            await it.send.send_all(b"zombie")
        with pytest.raises(OSError, match="Network is down"):
            await it.client.connect(SERVER, PORT)
        with pytest.raises(OSError, match="Network is down"):
            await it.client.connect_unix("/x")
        waiting.abort()
        it.server.end()
        newer = it.net.open("client")
        with pytest.raises(ConnectionRefusedError):
            await newer.connect(SERVER, PORT)


async def test_what_is_to_happen_after_the_end_never_does(
    autojump_clock: trio.abc.Clock,
) -> None:
    agenda, done = Agenda(), list[str]()
    with pytest.raises(AssertionError, match="needs its run"):
        agenda.at(0.0, lambda: done.append("before"))
    async with trio.open_nursery() as nursery:
        await nursery.start(agenda.run)
        agenda.at(trio.current_time() + 1.0, lambda: done.append("in time"))
        await trio.sleep(2.0)
        nursery.cancel_scope.cancel()
    agenda.at(trio.current_time(), lambda: done.append("after"))
    assert done == ["in time"]
