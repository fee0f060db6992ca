"""A member of a synced DLedger group whose own cluster file lets it count what is not on disk."""

from __future__ import annotations

import logging
from typing import Any

import attrs
import pytest
import trio
from service_kit import GROUP, ledger_alone

from actors.config import ClusterConfig
from actors.control.durability_watch import FIRST_LOOK_S, LOOK_S, REPEAT_S, is_watched
from actors.dledger.weaker import weaker_settings, weaker_text
from actors.events.dledger import MemberWeaker
from actors.sim.cluster import SimCluster

pytest_plugins = ["actors.sim.plugin"]
SAID = 'durability = "written"'


@pytest.fixture
def cluster_config() -> ClusterConfig:
    return ledger_alone()


async def started_with(cluster: SimCluster, node: str, **changes: Any) -> None:
    """Again, by a cluster file of its own."""
    await cluster.stop(node)
    own = cluster.config
    group = attrs.evolve(own.groups[GROUP], **changes)
    cluster.config = attrs.evolve(own, groups={GROUP: group})
    try:
        await cluster.start(node)
    finally:
        cluster.config = own


async def said_by(cluster: SimCluster, node: str) -> dict[str, Any]:
    said = (await cluster.node(node).status())["groups"][GROUP]
    return {**said["details"], "others": said["others"]}


async def test_a_weaker_member_is_reported_again_and_again_until_it_is_none(
    cluster: SimCluster, caplog: pytest.LogCaptureFixture
) -> None:
    await trio.sleep(FIRST_LOOK_S + 1)
    assert [(await said_by(cluster, each))["weaker"] for each in cluster.names] == [{}, {}, {}]
    with caplog.at_level(logging.WARNING, logger="triolog.dledger"):
        await started_with(cluster, "n1", durability="written")
        await trio.sleep(LOOK_S + 1)
        assert [(await said_by(cluster, each))["weaker"] for each in cluster.names] == [
            {"n1": SAID},
            {},
            {"n1": SAID},
        ]
        begin = f"n0: {GROUP}: {weaker_text('n1', SAID)}"
        assert warned(caplog, begin) == 1
        await trio.sleep(REPEAT_S + LOOK_S)
        assert warned(caplog, begin) == 2
        (line,) = (await said_by(cluster, "n2"))["others"]
        assert line.startswith(f"n1 counts, but its cluster file says {SAID}")
        await started_with(cluster, "n1")
        await trio.sleep(LOOK_S + 1)
        assert (await said_by(cluster, "n0"))["weaker"] == {}
        reported = [seen.event for seen in cluster.world.events if seen.node == "n0"]
        assert [each.settings for each in reported if isinstance(each, MemberWeaker)] == [SAID, ""]
        await trio.sleep(REPEAT_S + LOOK_S)
        assert warned(caplog, begin) == 2


def warned(caplog: pytest.LogCaptureFixture, begin: str) -> int:
    return sum(record.getMessage().startswith(begin) for record in caplog.records)


@pytest.mark.parametrize("changes", [{"durability": "written"}, {"compat": "upstream"}])
def test_a_group_that_promises_no_disks_is_not_watched(
    changes: dict[str, Any], cluster_config: ClusterConfig
) -> None:
    group = attrs.evolve(cluster_config.groups[GROUP], **changes)
    assert not is_watched(group)
    assert is_watched(cluster_config.groups[GROUP])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mode": '"dledger"'}, ""),
        ({"durability": '"written"', "store": '"memory"'}, SAID + ', store = "memory"'),
        ({"compat": '"upstream"'}, 'compat = "upstream"'),
    ],
)
def test_what_is_weaker(settings: dict[str, str], words: str) -> None:
    assert weaker_settings({"settings": {GROUP: settings}}, GROUP) == words
    assert weaker_settings({"groups": {}}, GROUP) == "", "an older version says nothing"
