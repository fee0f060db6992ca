"""How far the members of a DLedger group were at the end of a run, and as of when that is known."""

from __future__ import annotations

import attrs
import trio
from cluster_world import make, three_nodes
from ledger_samples import follower, leader, member, members

from actors.cluster.summary import group_summary
from actors.config.kinds import KINDS

NAMES = ("n0", "n1", "n2")


def test_the_summary_says_what_is_old_of_a_leader_that_has_gone() -> None:
    """It is asked first to stop, and led on after it was last heard."""
    gone = member("n0", leader(), "away")
    ahead = member("n1", follower(written_index=960, committed_index=950))
    found = group_summary(members(gone, ahead), "ledger", KINDS["dledger"].terms, ("n0", "n1"), 2.0)
    assert [(each.node, each.behind, each.gone) for each in found.members] == [
        ("n0", 50, True),
        ("n1", 0, False),
    ]
    assert found.lines()[2:] == [
        "    n0 leader: entries 0 to 900, synced to 890, committed to 880, behind by 50 entries"
        " when last heard",
        "    n1 follower: entries 0 to 960, synced to 890, committed to 950",
    ]
    still = member("n1", follower(), "away")
    alike = group_summary(members(gone, still), "ledger", KINDS["dledger"].terms, ("n0",), 0.0)
    assert alike.lines()[2].endswith("committed to 880 when last heard")


def test_as_of_when_it_is_known_is_said_once_and_of_who_was_silent() -> None:
    heard = {
        "n0": attrs.evolve(member("n0", leader()), heard_s=99.75),
        "n1": attrs.evolve(member("n1", follower()), heard_s=99.5),
        "n2": attrs.evolve(member("n2", follower(), "away"), heard_s=88.0),
    }
    found = group_summary(
        members(*heard.values()), "ledger", KINDS["dledger"].terms, NAMES, 2.0, 100.0
    )
    assert found.lines()[1:] == [
        "    n0 leads in term 3, as of 0.2 s before the end",
        "    n0 leader: entries 0 to 900, synced to 890, committed to 880",
        "    n1 follower: entries 0 to 885, synced to 890, committed to 880, behind by 15 entries",
        "    n2 follower: entries 0 to 885, synced to 890, committed to 880, behind by 15 entries"
        " when last heard, as of 12.0 s before the end",
    ]
    ages = {name: each["age_s"] for name, each in found.plain()["indexes"].items()}
    assert ages == {"n0": 0.25, "n1": 0.5, "n2": 12.0}


async def test_one_that_hangs_at_the_end_is_distinguished(autojump_clock: trio.abc.Clock) -> None:
    """It has not answered the last question, and nobody calls it gone so soon."""
    world = three_nodes()
    run = make(world, for_s=20.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.run, world.open)
        await trio.sleep(20)
        world.nodes["n1"].status_s = 60.0
    views = {node.node: node for node in run.view().nodes}
    ended_s = trio.current_time()
    assert [views[name].state for name in NAMES] == ["running"] * 3
    ages = [ended_s - (views[name].heard_s or 0) for name in NAMES]
    assert ages[1] > 2.0
    assert max(ages[0], ages[2]) < 1.0
