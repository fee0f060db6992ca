"""`dump`: every record as one JSON line, or those that are asked for."""

from __future__ import annotations

import base64
import json
import pathlib
from typing import Any

import pytest
from storage_kit import GOLDEN, record
from store_kit import running
from tools_kit import LAYOUT, S, checked, node_disk, store_of, write_at

from actors.env.local_disk import LocalDisk
from actors.errors import ConfigError
from actors.storage.files.stepping import finish
from actors.storage.tools.commitlog.dump import Dumped, Wanted, dump_store
from actors.storage.tools.target import find_target

FIELDS = {
    "offset", "size_bytes", "version", "topic", "queue_id", "queue_offset", "store_timestamp_ms",
    "store_host", "born_timestamp_ms", "born_host", "tags", "keys", "properties", "flag",
    "sys_flag", "reconsume_times", "prepared_transaction_offset", "body", "body_encoding",
}  # fmt: skip


def dumped(
    disk: Any, path: str | None = None, limit: int | None = None, **wanted: Any
) -> tuple[list[dict[str, Any]], Dumped]:
    out: list[bytes] = []
    store = store_of(disk) if path is None else find_target(disk, path).stores[0]
    done = finish(dump_store(disk, store, Wanted(**wanted), out.append, limit=limit))
    lines = b"".join(out).splitlines()
    assert len(lines) == done.records
    return [json.loads(line) for line in lines], done


async def test_all_records_in_order(autojump_clock: Any) -> None:
    disk = await node_disk()
    found, done = dumped(disk)
    assert len(found) == 150
    assert done.problems == []
    assert all(each.keys() == FIELDS for each in found)
    assert [each["body"] for each in found[7:9]] == ["", "8 " * 10]
    assert [each["body_encoding"] for each in found[7:9]] == ["utf-8", "utf-8"]
    assert [each["keys"] for each in found[7:10]] == [["k7", "k2"], ["k8", "k2"], []]
    offsets = [each["offset"] for each in found]
    assert offsets == sorted(offsets)
    assert offsets[-1] + found[-1]["size_bytes"] == checked(disk).end_bytes


async def test_those_that_are_asked_for(autojump_clock: Any) -> None:
    disk = await node_disk()
    everything, _ = dumped(disk)
    for wanted, takes in (
        ({"topic": "t"}, lambda each: each["topic"] == "t"),
        ({"queue_id": 2}, lambda each: each["queue_id"] == 2),
        ({"key": "k4"}, lambda each: "k4" in each["keys"]),
        ({"start": S + 1}, lambda each: each["offset"] > S),
        ({"start": S}, lambda each: each["offset"] >= S),
        ({"topic": "u", "queue_id": 1}, lambda each: (each["topic"], each["queue_id"]) == ("u", 1)),
        ({"topic": "nobody's"}, lambda each: False),
    ):
        assert dumped(disk, **wanted)[0] == [each for each in everything if takes(each)], wanted
    assert dumped(disk, count_max=7)[0] == everything[:7]
    assert dumped(disk, start=S, count_max=3)[0] == dumped(disk, start=S)[0][:3]
    assert dumped(disk, limit=S)[0] == [each for each in everything if each["offset"] < S]
    for start in (1 << 40, 10 * S):
        with pytest.raises(ConfigError, match="--from: expected an offset from 0 to"):
            dumped(disk, start=start)


async def test_a_body_that_is_no_text(autojump_clock: Any) -> None:
    disk = await node_disk(0)
    async with running(disk) as kit:
        await kit.append(b"\xff\x00", "\u00e4 \u2028".encode())
    (one, two), _ = dumped(disk)
    assert (one["body_encoding"], base64.b64decode(one["body"])) == ("base64", b"\xff\x00")
    assert (two["body_encoding"], two["body"]) == ("utf-8", "\u00e4 \u2028")


async def test_a_terminal_obeys_nothing_in_a_line(autojump_clock: Any) -> None:
    disk = await node_disk(0)
    wild = "\x1b[2J\x9b31m\u202egnorw\x7f"
    async with running(disk) as kit:
        await kit.append(wild.encode())
    out: list[bytes] = []
    finish(dump_store(disk, store_of(disk), Wanted(), out.append))
    assert b"".join(out).decode().removesuffix("\n").isprintable()
    assert json.loads(out[0])["body"] == wild


async def test_damage_is_reported_and_what_follows_is_read(autojump_clock: Any) -> None:
    disk = await node_disk()
    everything, _ = dumped(disk)
    write_at(disk, f"{LAYOUT.commit_log}/{S:020d}", 28, b"\xff")
    found, done = dumped(disk)
    assert found == [each for each in everything if not S <= each["offset"] < 2 * S]
    assert len(done.problems) == 1
    assert f"offset {S}: physical offset" in done.problems[0]


async def test_a_running_nodes_unfinished_record_is_not_looked_at(autojump_clock: Any) -> None:
    disk = await node_disk(30)
    end = checked(disk).end_bytes
    write_at(disk, f"{LAYOUT.commit_log}/{end - end % S:020d}", end % S, record(end, b"x")[:-30])
    assert dumped(disk)[1].problems != []
    found, done = dumped(disk, limit=end)
    assert (len(found), done.problems) == (30, [])


async def test_files_that_expire_are_reported(autojump_clock: Any) -> None:
    disk = await node_disk()
    out: list[bytes] = []
    work = dump_store(disk, store_of(disk), Wanted(), out.append)
    next(work)
    disk.unlink(f"{LAYOUT.commit_log}/{S:020d}")
    done = finish(work)
    assert (done.expired, done.problems) == (1, [])


@pytest.mark.real_io
@pytest.mark.parametrize(("version", "count"), [("5.3.3", 35), ("4.9.7", 36)])
def test_a_store_of_a_real_broker(version: str, count: int) -> None:
    path: pathlib.Path = GOLDEN / version / "master"
    found, done = dumped(LocalDisk(), str(path))
    assert (len(found), done.problems) == (count, [])
    assert {each["topic"] for each in found} >= {"GoldenA", "GoldenB"}
    assert dumped(LocalDisk(), str(path), key="key1")[0][0]["tags"] == "tag1"
