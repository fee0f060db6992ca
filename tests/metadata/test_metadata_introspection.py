"""What operators are told who ask a broker how it is."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest
import trio
from operator_kit import Operator, operated

from actors.broker.introspection import RATE_S, _Rate
from actors.events.runtime import ActorCrashed
from actors.sim.disk import SimDisk
from wire.broker.codes import RequestCode, ResponseCode
from wire.remoting.frame import Frame

RUNTIME = RequestCode.GET_BROKER_RUNTIME_INFO
HA = RequestCode.GET_BROKER_HA_STATUS
CONFIG = RequestCode.GET_BROKER_CONFIG


def said(frame: Frame) -> Any:
    assert frame.header.code == 0, frame.header.remark
    return json.loads(frame.body)


async def config_of(operator: Operator, name: str) -> dict[str, str]:
    frame = await operator.ask(CONFIG, at=name)
    assert frame.header.ext_fields is not None
    assert json.loads(frame.header.ext_fields["version"])["counter"] == 0
    return dict(line.split("=", 1) for line in frame.body.decode().splitlines())


@pytest.mark.checklist(72, of="broker")
async def test_a_master_shows_its_slaves_and_a_slave_its_connection(
    autojump_clock: object,
) -> None:
    async with operated("n0", "n1") as (_, _nodes, operator):
        await trio.sleep(2.0)
        master, slave = said(await operator.ask(HA)), said(await operator.ask(HA, at="n1"))
        (row,) = master["haConnectionInfo"]
        assert row["addr"].startswith("127.0.0.2")
        assert row["inSync"] is True
        assert (row["diff"], row["slaveAckOffset"]) == (0, master["masterCommitLogMaxOffset"])
        assert master["master"] is True
        assert master["inSyncSlaveNums"] == 1
        assert slave["master"] is False
        assert slave["haConnectionInfo"] == []
        client = slave["haClientRuntimeInfo"]
        assert client["masterAddr"] == "127.0.0.1:10912"
        assert client["maxOffset"] == master["masterCommitLogMaxOffset"]
        assert client["lastReadTimestamp"] > 0


async def test_a_master_alone_says_what_upstream_says(autojump_clock: object) -> None:
    """As recorded of 5.3.3, but for the end of its log."""
    async with operated("n0") as (_, _nodes, operator):
        zeros = ("lastReadTimestamp", "lastWriteTimestamp", "masterFlushOffset", "maxOffset")
        found = said(await operator.ask(HA))
        end = found.pop("masterCommitLogMaxOffset")
        assert end >= 0
        assert found == {
            "haClientRuntimeInfo": {**dict.fromkeys(zeros, 0), "transferredByteInSecond": 0},
            "haConnectionInfo": [],
            "inSyncSlaveNums": 0,
            "master": True,
        }


@pytest.mark.checklist(67, of="broker")
async def test_runtime_info_has_both_spellings_and_the_log_s_ends(autojump_clock: object) -> None:
    async with operated("n0") as (_, nodes, operator):
        await trio.sleep(90.0)
        table = said(await operator.ask(RUNTIME))["table"]
        assert all(isinstance(value, str) for value in table.values())
        for name in ("putTps", "getTransferredTps", "getTransferedTps"):
            assert [float(part) for part in table[name].split()] == [0.0, 0.0, 0.0]
        assert table["brokerVersionDesc"] == "V5_3_3"
        assert table["brokerVersion"] == "479"
        assert table["bootTimestamp"] == str(nodes.views["n0"].started_ms)
        assert table["runtime"] == "[ 0 days, 0 hours, 1 minutes, 30 seconds ]"
        assert int(table["commitLogMaxOffset"]) >= int(table["commitLogMinOffset"]) == 0
        assert 0.0 <= float(table["commitLogDiskRatio"]) <= 1.0
        midnights = nodes.setups["n0"].midnights
        midnights.today, midnights.yesterday = 7, 3
        table = said(await operator.ask(RUNTIME))["table"]
        assert table["msgPutTotalTodayMorning"] == "7"
        assert table["msgPutTotalYesterdayMorning"] == "3"


def test_a_rate_is_that_between_two_questions() -> None:
    rate = _Rate()
    assert rate.of(10, 100.0) == 0.0
    assert rate.of(30, 100.0 + RATE_S / 2) == 0.0
    assert rate.of(30, 102.0) == 10.0
    assert rate.of(35, 102.5) == 10.0
    assert rate.of(30, 112.0) == 0.0


async def test_settings_stand_under_upstreams_names(autojump_clock: object) -> None:
    async with operated("n0", "n1") as (_, _nodes, operator):
        found = await config_of(operator, "n0")
        assert (found["brokerRole"], found["listenPort"]) == ("SYNC_MASTER", "10921")
        assert (found["haListenPort"], found["brokerName"]) == ("10912", "orders")
        assert (found["mappedFileSizeCommitLog"], found["flushDiskType"]) == ("4096", "SYNC_FLUSH")
        assert (await config_of(operator, "n1"))["brokerRole"] == "SLAVE"


@pytest.mark.checklist(71, of="broker")
async def test_what_is_not_there_is_refused_at_once(autojump_clock: object) -> None:
    async with operated("n0") as (_, _nodes, operator):
        for code in (RequestCode.CLEAN_UNUSED_TOPIC, RequestCode.GET_BROKER_CONSUME_STATS):
            frame = await operator.ask(code)
            assert frame.header.code == 3


async def test_a_disk_that_does_not_answer_fails_the_question_alone(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(disk: SimDisk, path: str) -> float:
        raise OSError(errno.EIO, "of the test")

    async with operated("n0") as (world, _nodes, operator):
        with monkeypatch.context() as patched:
            patched.setattr(SimDisk, "usage", usage)
            frame = await operator.ask(RUNTIME)
        assert frame.header.code == ResponseCode.SYSTEM_ERROR
        assert "of the test" in (frame.header.remark or "")
        assert said(await operator.ask(HA))["master"] is True
        assert not [each for each in world.events if isinstance(each.event, ActorCrashed)]
