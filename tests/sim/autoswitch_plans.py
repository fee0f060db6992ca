"""Short runs of auto-switch groups, for tests."""

from __future__ import annotations

from typing import Any

import attrs

from actors.sim.actions.script import parse_fault
from actors.sim.autoswitch.plan import AutoSwitchPlan
from actors.sim.disk import DiskOptions
from actors.sim.network import NetworkOptions
from actors.sim.workload import WorkloadOptions


def plan(
    *lines: str,
    seed: str = "script",
    replicas: int = 2,
    nodes: int | None = None,
    until_s: float = 10.0,
    sync_s: float = 0.001,
    pause_s: float = 0.2,
    fresh: float = 0.0,
    **settings: Any,
) -> AutoSwitchPlan:
    """Return a plan with this script for so many replicas; the last node is the controller.

    Args:
        nodes: as many as replicas if not given; then one replica's node is the controller's, too.
        sync_s: how long a sync takes.
        pause_s: how long a client pauses.
        fresh: the share of fresh reads.
    """
    return attrs.evolve(
        AutoSwitchPlan.draw("script"),
        seed=seed,
        nodes=replicas if nodes is None else nodes,
        replicas=replicas,
        controllers=1,
        settings={
            "min_in_sync_replicas": 1,
            "segment_bytes": 16 << 10,
            "controller_heart_beat_timeout_s": 3.0,
            "ha_max_time_slave_not_catchup_s": 3.0,
            "reconnect_interval_s": 0.5,
            **settings,
        },
        skews_ms={},
        network=NetworkOptions(),
        disk=DiskOptions(sync_mean_s=sync_s),
        policy="random",
        tell_yields=0.0,
        load=WorkloadOptions(
            pause_mean_s=pause_s,
            body_mean_bytes=500,
            batch_max=4,
            readers=3,
            read_pause_mean_s=0.2,
            fresh_share=fresh,
        ),
        script=tuple(map(parse_fault, lines)),
        duration_s=until_s,
    )


def switches(seed: str = "a") -> AutoSwitchPlan:
    """Return a plan in which each of three replicas is cut off for a while, and then loses power,
    so that masters change and logs part.
    """
    return plan(
        "at 2.0 isolate n0 for 5.0",
        "at 8.0 isolate n1 for 5.0",
        "at 14.0 isolate n2 for 5.0",
        "at 20.0 power_loss n0 for 0.5",
        "at 22.0 power_loss n1 for 0.5",
        "at 24.0 power_loss n2 for 0.5",
        "at 27.0 cut n0 n1 for 2.0",
        "at 29.5 kill n0 for 0.2",
        "at 31.0 kill n1 for 0.2",
        "at 32.5 kill n2 for 0.2",
        "at 34.0 new_disk n0 for 0.1",
        "at 34.0 new_disk n1 for 0.1",
        seed=f"switches {seed}",
        replicas=3,
        nodes=4,
        until_s=35.0,
        sync_s=0.03,
        fresh=0.5,
    )


def answers(seed: str = "a") -> AutoSwitchPlan:
    """Return a plan in which members leave the set and come back, while the controller's answers
    are lost; who has come back is cut off again before its master knows what became of that.
    """
    lines: list[str] = []
    for number, (one, other) in enumerate((("n0", "n1"), ("n1", "n2"), ("n0", "n2"))):
        at = 2.0 + 8 * number
        lines += (
            f"at {at} cut {one} {other} for 0.8",
            f"at {at + 0.02} reset {one} {other} for 0.1",
            f"at {at + 0.6} lose_answer n0 for 3.5 in alter",
            f"at {at + 1.8} cut {one} {other} for 4.5",
        )
    return plan(
        *lines,
        "at 26.0 kill n0 for 0.2",
        "at 27.0 kill n1 for 0.2",
        seed=f"answers {seed}",
        replicas=3,
        nodes=4,
        until_s=29.0,
        ha_send_heartbeat_interval_s=1.0,
        controller_heart_beat_timeout_s=10.0,
    )


def replaced(seed: str = "a") -> AutoSwitchPlan:
    """Return a plan with two learners, in which disks are replaced and machines lose power, slowly
    synced.
    """
    return plan(
        *(
            f"at {at} slow_sync {node} for 8.0 extra 0.3"
            for at in (2.0, 12.0)
            for node in ("n0", "n1", "n2")
        ),
        "at 3.0 power_loss n0 for 0.3",
        "at 5.0 power_loss n1 for 0.3",
        "at 7.0 power_loss n2 for 0.3",
        "at 11.0 new_disk n0 for 0.1",
        "at 15.0 new_disk n1 for 0.1",
        "at 19.0 stop n2 for 0.5",
        "at 22.0 kill n3 for 0.5",
        seed=f"replaced {seed}",
        replicas=4,
        nodes=4,
        until_s=24.0,
        sync_s=0.01,
        pause_s=0.1,
        learners=["n1", "n2"],
        min_in_sync_replicas=2,
    )


def alone(seed: str = "a") -> AutoSwitchPlan:
    """Return a plan in which one replica goes on alone, hears of no controller for a while, and
    ends as soon as others are back, who lack what it has answered.
    """
    return plan(
        "at 2.0 kill n1 for 11.0",
        "at 3.0 kill n2 for 10.0",
        "at 7.0 cut n0 n3 for 5.0",
        *(f"at 12.8 slow_sync {node} for 4.0 extra 0.5" for node in ("n1", "n2")),
        "at 13.05 kill n0 for 3.0",
        seed=f"alone {seed}",
        replicas=3,
        nodes=4,
        until_s=18.0,
    )


def by_hand(seed: str = "a") -> AutoSwitchPlan:
    """Return a plan in which an operator has replicas elected: any, such as lack something, as a
    role changes, and while there is no controller.
    """
    return plan(
        *(
            line
            for at, node in ((2.0, "n0"), (6.0, "n1"), (10.0, "n2"))
            for line in (
                f"at {at} cut {node} n0 for 2.0" if node != "n0" else f"at {at} cut n0 n1 for 2.0",
                f"at {at} cut n1 n2 for 2.0",
                f"at {at + 1.2} elect {node} for 0.1 in outside",
                f"at {at + 2.5} elect {node} for 0.1 in changing",
                f"at {at + 3.0} elect {node} for 0.1",
            )
        ),
        "at 14.0 elect n0 for 2.0 in headless",
        seed=f"by_hand {seed}",
        replicas=3,
        nodes=4,
        until_s=17.0,
    )


def rotten(seed: str = "a") -> AutoSwitchPlan:
    """Return a plan in which replicas are killed while some of what they had synced has rotted."""
    return plan(
        *(
            line
            for at, node in ((3.0, "n0"), (6.0, "n1"), (9.0, "n2"), (12.0, "n0"), (15.0, "n1"))
            for line in (f"at {at} bit_rot {node} for 2.0", f"at {at + 0.3} kill {node} for 0.2")
        ),
        seed=f"rotten {seed}",
        replicas=3,
        nodes=4,
        until_s=18.0,
    )


def learning(seed: str = "a") -> AutoSwitchPlan:
    """Return a plan with two learners of four replicas, one of which may come first."""
    return plan(
        *(f"at {at} kill n2 for 0.2" for at in (2.0, 4.0, 6.0)),
        seed=f"learning {seed}",
        replicas=4,
        nodes=5,
        until_s=7.0,
        pause_s=0.05,
        learners=["n0", "n1"],
    )


def unsynced(seed: str = "a") -> AutoSwitchPlan:
    """Return a plan in which copies are what was written, on slow disks: each replica
    loses its power and is back soon, and then all do.
    """
    return plan(
        *(f"at 1.0 slow_sync {node} for 17.0 extra 1.5" for node in ("n0", "n1", "n2")),
        "at 4.0 power_loss n0 for 0.1",
        "at 8.0 power_loss n1 for 0.1",
        "at 12.0 power_loss n2 for 0.1",
        "at 16.0 power_loss n0 n1 n2 for 0.1",
        seed=f"unsynced {seed}",
        replicas=3,
        nodes=4,
        until_s=18.0,
        durability="written",
        min_in_sync_replicas=2,
    )


HARD = {
    each.__name__: each
    for each in (alone, switches, answers, replaced, by_hand, learning, rotten, unsynced)
}
