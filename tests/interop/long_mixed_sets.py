"""Java's and ours in one sync state set: what only the master had when it was killed is cut from
its log once it comes back as slave, and where the other's ends within a record, that is cut, too;
and each is killed, stopped, held and elected again and again. `make long` runs it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from interop_mixed_sets import TOPIC, MixedSet
from interop_nodes import message
from interop_processes import TEST_S, Processes
from interop_versions import Peer, beside

from actors.errors import OutcomeUnknown

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]

LOST = 1_000_000
"""The number of the first message of those that may be lost."""
JAVAS = [900_000] * 8
OURS = [450_000] * 12
"""Sizes of messages. Ours takes none above half a file of the log."""
EVENTS = ("kill master", "kill slave", "hold master", "stop ours", "elect", "elect twice")
EACH = 2
"""How often each comes."""


@beside("rocketmq", "5.3.3", whose=["java"])
def test_each_takes_over_from_the_other(
    peer: Peer, whose: str, tmp_path: Path, processes: Processes
) -> None:
    MixedSet.make(peer, tmp_path, processes, whose).take_over_in_turn()


@beside("rocketmq", "5.3.3", whose=["java", "ours"])
def test_what_only_a_dead_master_had_is_cut(
    peer: Peer, whose: str, tmp_path: Path, processes: Processes
) -> None:
    """The slave stands still while the master takes more than their sockets hold, and goes on once
    the master is dead: it is elected, and comes to all that was on its way.
    """
    both = MixedSet.make(
        peer,
        tmp_path,
        processes,
        whose,
        group={"slave_timeout_s": 6.0, "frame_bytes": 32_768},  # as Java: frames end within records
        broker={"slaveTimeout": 1_000},
    )
    both.java.start()
    both.wait(1, 1)
    both.ours.start()
    both.wait(1, 1, 2)
    both.send()
    both.wait_equal()

    assert both.ours.process is not None
    both.ours.process.pause()
    lost = both.driver.run("once", TOPIC, LOST, JAVAS)
    assert {each["status"] for each in lost} == {"FLUSH_SLAVE_TIMEOUT"}
    had = both.ends()
    both.java.kill()
    both.ours.process.resume()
    both.wait(2, 2)
    assert both.ends()[1] < had[0]
    both.append()
    both.java.start()
    both.wait(2, 1, 2)
    both.append()
    both.wait_equal()

    assert both.java.process is not None
    both.java.process.pause()
    large = [message(TOPIC, LOST + number, size) for number, size in enumerate(OURS)]
    with pytest.raises(OutcomeUnknown):
        both.ours.append(large)
    had = both.ends()
    both.ours.kill()
    both.java.process.resume()
    both.wait(1, 1)
    both.send()
    assert both.ends()[0] < had[1]
    both.ours.start()
    both.wait(1, 1, 2)
    both.send()
    both.wait_equal()
    assert both.consumed() >= set(range(both.sent))


@beside("rocketmq", "5.3.3", whose=["java", "jraft", "ours", "mixed"])
def test_each_goes_and_comes_back_in_any_order(
    peer: Peer, whose: str, tmp_path: Path, processes: Processes
) -> None:
    """Not beside 5.5.0: a slave of it keeps an epoch in which nothing was written and refuses the
    next one (autoswitch-ha.md T1), so the files of epochs differ then.
    """
    both = MixedSet.make(
        peer,
        tmp_path,
        processes,
        whose,
        group={"controller_heart_beat_timeout_s": 5.0},
        broker={"controllerHeartBeatTimeoutMills": 5_000, "slaveTimeout": 60_000},
    )
    both.java.start()
    both.wait(1, 1)
    both.ours.start()
    both.wait(1, 1, 2)
    both.send()
    both.wait_equal()
    rng = random.Random(f"{peer.name} {whose}")
    events, master = list(EVENTS) * EACH, 1
    rng.shuffle(events)
    for event in events:
        _see(both, event, master, writes=rng.random() < 0.7)
        master = both.wait_both()
        if rng.random() < 0.8:
            both.write(master)
        both.wait_equal()
    if master != 1:
        both.elect(1)
    both.wait(1, 1, 2)
    both.send()
    both.wait_equal()
    assert both.consumed() == set(range(both.sent))


def _see(both: MixedSet, event: str, master: int, *, writes: bool) -> None:
    """Args: writes: whether records are written while one is away."""
    nodes, other = {1: both.java, 2: both.ours}, 3 - master
    leads = master
    if event in ("elect", "elect twice"):
        both.elect(other)
        if event == "elect twice":
            both.wait(other, 1, 2)
            both.elect(master)
        return
    gone = {"stop ours": 2, "kill slave": other}.get(event, master)
    process = nodes[gone].process
    assert process is not None
    {"stop ours": process.stop, "hold master": process.pause}.get(event, process.kill)()
    if gone == master:
        leads = other
        both.wait(leads, leads)
    if writes:
        both.write(leads)
    if event == "hold master":
        process.resume()
    else:
        nodes[gone].start()
