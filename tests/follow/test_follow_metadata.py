"""What a copy takes of a broker's metadata, and that it takes none of another one's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import trio
from follow_kit import ROOT, Stage, stage
from stock_master import ADDRESS, FILE, PORT, StockMaster
from test_follow_copy import final, started

from actors.env.protocols import Address
from actors.events.runtime import ActorCrashed
from actors.ha.core.states import Lost
from actors.metadata.config_folder import ConfigFolder
from actors.metadata.view import BOOT_KEY
from actors.remoting.requests import Answer, Request
from actors.storage.files.whole_files import read_bytes
from actors.trees.group_setup import CopyRules
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.dialect import encode_body
from wire.broker.routes import KVTable
from wire.errors import IncompleteData, RemoteProtocolError
from wire.files.message_record import decode_record

sys.path.append(str(Path(__file__).parents[1] / "metadata"))
from metadata_kit import BROKER_PORT, NODES, FakeMaster
from test_metadata_slave_sync import BOOT, OFFSETS, TOPICS, of_4x, topics

RULES = CopyRules(metadata=Address(NODES["n0"], BROKER_PORT))
CONFIG = RequestCode.GET_BROKER_CONFIG
VIEW = RequestCode.VIEW_MESSAGE_BY_ID
AT = f"{NODES['n0']}:{BROKER_PORT}"
DO = "name that one's listenPort, or begin another copy"
KNOWN = f"{ROOT}/follow/broker.json"


def broker_of(
    master: StockMaster, name: str = "broker-a", *, without: tuple[RequestCode, ...] = ()
) -> FakeMaster:
    """What a 4.x master answers that has this log. Args: without: what it does not serve."""

    def serve(request: Request) -> Answer | None:
        code = request.header.code
        if code in without:
            return Answer(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="not supported")
        if code == CONFIG:
            return Answer(body=f"brokerClusterName=c\nbrokerName={name}\nbrokerId=0\n".encode())
        if code == BOOT:
            table = {BOOT_KEY: "1", "commitLogMaxOffset": str(master.end)}
            table["commitLogMinOffset"] = str(master.min_bytes)
            return Answer(body=encode_body(KVTable(table=table)))
        if code != VIEW:
            return None
        assert request.header.ext_fields is not None
        offset = int(request.header.ext_fields["offset"])
        try:
            if offset < master.min_bytes:
                raise IncompleteData("deleted", 1)
            return Answer(body=master.log[offset : offset + decode_record(master.log, offset).size])
        except (IncompleteData, RemoteProtocolError):
            text = f"can not find message by the offset, {offset}"
            return Answer(code=ResponseCode.SYSTEM_ERROR, remark=text)

    broker = of_4x()
    broker.serve = serve
    return broker


async def compared(on: Stage, broker: FakeMaster) -> None:
    """All of the broker's metadata is in its files."""
    on.world.add_node("n0", NODES["n0"])
    await broker.start(on.world)
    await started(on, 500)
    await on.until(lambda status: status.metadata == "" and not status.unwritten)


def log_of(records: int, topic: str = "t", body_bytes: int = 300) -> StockMaster:
    master = StockMaster()
    master.append(records, topic=topic, body_bytes=body_bytes)
    return master


async def test_the_broker_whose_log_is_copied_is_remembered(autojump_clock: object) -> None:
    async with stage(rules=RULES) as on:
        await compared(on, broker_of(on.master))
        disk = on.world.node("copy").disk
        assert json.loads(read_bytes(disk, KNOWN, 100)) == {"name": "broker-a"}
        await trio.sleep(100.0)
        on.master.append(300)
        await on.until_all()
        status = await on.until(lambda status: status.metadata == "")
        assert not status.another


async def test_a_record_that_the_broker_has_deleted_is_no_other_brokers(
    autojump_clock: object,
) -> None:
    """It keeps little, and its file went before the copy had a record of the next one."""
    async with stage(rules=RULES) as on:
        await compared(on, broker := broker_of(on.master))
        on.master.min_bytes = on.master.end
        asked = broker.count(TOPICS)
        await trio.sleep(100.0)
        assert broker.count(TOPICS) > asked + 5
        status = await on.until(lambda status: status.metadata == "")
        assert not status.another


async def test_a_broker_that_says_no_offsets_crashes_nothing(autojump_clock: object) -> None:
    async with stage(rules=RULES) as on:
        broker = broker_of(on.master)
        serve = broker.serve

        def hostile(request: Request) -> Answer | None:
            if request.header.code != BOOT:
                return serve(request)
            return Answer(body=encode_body(KVTable(table={"commitLogMaxOffset": "9" * 5000})))

        broker.serve = hostile
        on.world.add_node("n0", NODES["n0"])
        await broker.start(on.world)
        await started(on, 500)
        await trio.sleep(60.0)
        assert not [each for each in on.world.events if isinstance(each.event, ActorCrashed)]


RECORD = "the record at offset {base} of 10.0.0.1:10912"
# The log of the broker that is asked, and what it is found to be; the copy's has 500 records.
OTHERS = [
    (
        log_of(499),
        "the broker of 10.0.0.1:10912, which has sent its log up to {end}",
        "whose log ends at {other}",
    ),
    (log_of(500, topic="u"), RECORD, "which has another"),
    (StockMaster(log=bytearray(100) + log_of(900).log), RECORD, "which has none"),
]


@pytest.mark.parametrize("number", range(len(OTHERS)))
async def test_another_broker_at_the_metadata_port_is_refused(
    autojump_clock: object, number: int
) -> None:
    other, expected, found = OTHERS[number]
    async with stage(rules=RULES) as on:
        on.world.add_node("n0", NODES["n0"])
        broker = broker_of(other, "broker-b")
        await broker.start(on.world)
        await started(on, 500)
        status = await on.until(lambda status: bool(status.another))
        end = on.master.end
        expected = expected.format(end=end, base=end - end % FILE)
        found = found.format(other=other.end)
        assert status.another == (
            f"--metadata: expected {expected}, found broker broker-b at {AT}, {found}: {DO}"
        )
        assert status.metadata == f"broker: {status.another}"
        assert status.final is None, "the log is copied as ever"
        asked = len(broker.asked)
        await trio.sleep(60.0)
        assert {code for _, code in broker.asked[asked:]} <= {RequestCode.GET_TIMER_CHECK_POINT}
        assert not {int(code) for code in (TOPICS, OFFSETS)} & {code for _, code in broker.asked}
        disk = on.world.node("copy").disk
        assert not disk.has_name(KNOWN)
        assert not disk.has_name(f"{ROOT}/config/topics.json")


async def test_a_broker_of_another_name_than_before_is_refused(autojump_clock: object) -> None:
    """Also one that has the same log, as a copy of its store has."""
    async with stage(rules=RULES) as on:
        await compared(on, broker_of(on.master))
        await on.world.stop_node("copy")
        await on.world.kill_node("n0")
        await broker_of(on.master, "broker-b").start(on.world)
        await on.start_copy()
        status = await on.until(lambda status: bool(status.another))
        assert status.another == (
            "--metadata: expected broker broker-a, whose metadata this copy has, found broker"
            f" broker-b at {AT}: {DO}"
        )
        await on.world.stop_node("copy")
        await on.world.kill_node("n0")
        await broker_of(on.master, without=(CONFIG,)).start(on.world)
        await on.start_copy()
        await on.until(lambda status: status.metadata == "")


async def test_a_broker_that_shows_no_records_is_known_by_where_its_log_ends(
    autojump_clock: object,
) -> None:
    async with stage(rules=RULES) as on:
        await compared(on, broker_of(on.master, without=(VIEW, CONFIG)))
        assert not on.world.node("copy").disk.has_name(KNOWN), "it says no name"
        await on.world.stop_node("copy")
        await on.world.kill_node("n0")
        longer = log_of(501)
        await (broker := broker_of(longer, without=(VIEW,))).start(on.world)
        await on.start_copy()
        text = f"broker: its log ends at {longer.end}, that of {ADDRESS}:{PORT} at {on.master.end}"
        await on.until(lambda status: status.metadata == text)
        await trio.sleep(60.0)
        assert not broker.count(TOPICS)
        on.master.append()
        await on.until(lambda status: status.metadata == "")


async def test_an_empty_log_is_that_of_a_broker_without_any(autojump_clock: object) -> None:
    async with stage(rules=RULES) as on:
        on.world.add_node("n0", NODES["n0"])
        await on.start_master()
        await (broker := broker_of(other := StockMaster())).start(on.world)
        await on.start_copy()
        await on.until(lambda status: status.metadata == "")
        assert broker.count(TOPICS)
        on.master.append(10)
        assert (await on.until(lambda status: bool(status.another))).another.startswith(
            "--metadata: expected the broker of 10.0.0.1:10912, which has sent its log up to"
        )
        assert other.end == 0


async def test_a_broker_that_gives_no_metadata_is_copied_and_said(autojump_clock: object) -> None:
    async with stage(rules=CopyRules(metadata=Address(ADDRESS, PORT - 1))) as on:
        await started(on, 500)
        on.assert_equal()
        status = await on.until(lambda status: "refused" in (status.metadata or ""))
        assert status.metadata is not None
        assert status.metadata.startswith("broker: ")
        assert status.final is None


async def test_the_metadata_of_another_broker_at_the_same_address_is_not_taken(
    autojump_clock: object,
) -> None:
    async with stage(rules=RULES) as on:
        on.world.add_node("n0", NODES["n0"])
        broker = broker_of(on.master)
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
        broker = broker_of(on.master)
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
