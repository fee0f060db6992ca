"""What a copy takes of a broker's metadata, and that it takes none of another one's."""

from __future__ import annotations

import sys
from pathlib import Path

import trio
from follow_kit import ROOT, stage
from stock_master import ADDRESS, PORT, StockMaster
from test_follow_copy import final, started

from actors.env.protocols import Address
from actors.ha.core.states import Lost
from actors.metadata.config_folder import ConfigFolder
from actors.trees.group_setup import CopyRules

sys.path.append(str(Path(__file__).parents[1] / "metadata"))
from metadata_kit import BROKER_PORT, NODES
from test_metadata_slave_sync import TOPICS, of_4x, topics

RULES = CopyRules(metadata=Address(NODES["n0"], BROKER_PORT))


async def test_a_broker_that_gives_no_metadata_is_copied_and_said(autojump_clock: object) -> None:
    async with stage(rules=CopyRules(metadata=Address(ADDRESS, PORT - 1))) as on:
        await started(on, 500)
        on.assert_equal()
        status = await on.until(lambda status: "refused" in (status.metadata or ""))
        assert status.metadata is not None
        assert status.metadata.startswith("topics: ")
        assert status.final is None


async def test_the_metadata_of_another_broker_at_the_same_address_is_not_taken(
    autojump_clock: object,
) -> None:
    async with stage(rules=RULES) as on:
        on.world.add_node("n0", NODES["n0"])
        broker = of_4x()
        await broker.start(on.world)
        await started(on)
        await on.until(lambda status: status.metadata == "")
        await on.world.stop_node("copy")
        await on.world.kill_node("broker")
        asked = len(broker.asked)
        on.master = StockMaster()
        on.master.append(70, topic="u")
        await on.start_master()
        await on.start_copy()
        assert (await final(on)).final is Lost.FOREIGN_LOG
        await trio.sleep(30.0)
        assert len(broker.asked) == asked


async def test_a_copy_says_what_of_the_metadata_is_not_in_its_files(
    autojump_clock: object,
) -> None:
    async with stage(rules=RULES) as on:
        on.world.add_node("n0", NODES["n0"])
        broker = of_4x()
        await broker.start(on.world)
        await started(on)
        folder = f"{ROOT}/config"
        disk = on.world.node("copy").disk
        await on.until(lambda status: status.metadata == "" and not status.unwritten)
        assert {"topics.json", "consumerOffset.json"} <= set(disk.listdir(folder))
        disk.faults.use_up_inodes(60.0)
        broker.said[TOPICS] = topics(3, "a", "b", "c")
        status = await on.until(lambda status: bool(status.metadata))
        assert status.unwritten
        assert status.metadata is not None
        assert status.metadata.startswith("topics.json: no room")
        await on.until(lambda status: status.metadata == "" and not status.unwritten)
        found = ConfigFolder(disk, folder, "copy").read().topics
        assert set(found.topic_config_table) == {"a", "b", "c"}
