"""`seed`: a node starts from it and only catches up; killed anywhere, there is all or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backup_kit import DEST, NEW, backup, seeded, seeding
from storage_kit import record
from store_kit import running, sim_disk
from tools_kit import (
    GROUP,
    NODE_DIR,
    checked,
    deaths,
    node_disk,
    read_all,
    starts,
    store_of,
    write_at,
)

from actors.config import ClusterConfig
from actors.errors import ConfigError, CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.files.stepping import finish
from actors.storage.files.whole_files import write_synced
from actors.storage.node.identity import open_directory, read_identity, seeding_path
from actors.storage.tools import seed
from actors.storage.tools.commitlog.check import CheckOptions, check_classic
from actors.storage.tools.manifest import read_manifest


async def test_a_node_starts_from_it_and_goes_on(autojump_clock: Any) -> None:
    disk = await node_disk()
    end = checked(disk).end_bytes
    backup(disk)
    seeded(disk)
    found = checked(disk, NEW)
    assert found.is_good, found.findings
    assert found.end_bytes == found.mark_bytes == end
    assert "nothing is derived from the log yet" in found.findings.notes[0]
    directory = open_directory(disk, NEW, cluster="demo", node="n1", groups=["orders"], settings={})
    assert directory.boot == 1
    async with running(disk, is_master=False, root=f"{NEW}/groups/orders") as kit:
        more = record(end, b"from the master", queue_offset=25)
        await kit.open_session(1)
        await kit.receive(1, end, more)
        await kit.dispatched(end + len(more))
    directory.close()
    assert checked(disk, NEW).records == 151
    assert checked(disk, NEW).units == 151


@pytest.mark.parametrize("power_loss", [False, True])
async def test_a_seed_may_be_killed_at_every_step(power_loss: bool, autojump_clock: Any) -> None:
    """No node starts there, or all of it is there."""
    template = await node_disk(60)
    backup(template)
    end, count = checked(template).end_bytes, 0
    for number, disk in deaths(template, seeded, power_loss=power_loss):
        count += 1
        was_whole = disk.exists(f"{NEW}/identity.json")
        if was_whole:
            assert starts(disk, f"{NEW}/groups/orders", GROUP) == end, number
            assert read_identity(disk, NEW) is not None
            continue
        if disk.exists(f"{NEW}/groups"):
            with pytest.raises(ConfigError, match="found a seed that was cut short"):
                opened(disk)
        seeded(disk)
        assert checked(disk, NEW).is_good, number
        assert starts(disk, f"{NEW}/groups/orders", GROUP) == end, number
        assert disk.listdir(NEW) in (
            ["groups", "identity.json"],
            ["groups", "identity.json", "lock"],
        )
    assert count > 10
    assert was_whole, "what had ended was lost"


async def test_what_is_there_is_never_touched(autojump_clock: Any) -> None:
    disk = await node_disk(10)
    backup(disk)
    with pytest.raises(ConfigError, match="expected an empty folder, found groups, identity"):
        seed.check_free(disk, seeding(disk, node_dir=NODE_DIR))
    disk.mkdir(NEW)
    disk.open(seeding_path(NEW), "x").close()
    for name in ("mine", "groups/mine"):
        disk.mkdir(f"{NEW}/{name}/data")
        disk.open(f"{NEW}/{name}/data/file", "x").close()
        with pytest.raises(ConfigError, match=f"a seed cut short, found {name}$"):
            seed.check_free(disk, seeding(disk))
        disk.rmtree(f"{NEW}/{name}")
    disk.unlink(seeding_path(NEW))
    for name in ("commitlog", "consumequeue"):  # empty folders are as good as none
        disk.mkdir(f"{NEW}/groups/orders/{name}")
    seeded(disk)
    assert read_identity(disk, NEW) is not None


async def test_what_the_identity_of_a_seed_says(autojump_clock: Any) -> None:
    """Epochs of bytes that were copied go along; what the old node reported does not."""
    disk = await node_disk(10)
    end = checked(disk).end_bytes
    raw = json.loads(read_all(disk, f"{NODE_DIR}/identity.json"))
    epochs = [{"number": n, "token": n + 1, "master": "n0", "start_bytes": n * end} for n in (0, 1)]
    raw["boot"] = 7
    raw["records"] = {
        "orders": {
            "promotion_number": 3,
            "promotion_master": "n2",
            "history": epochs,
            "high_water_bytes": end,
        }
    }
    write_at(disk, f"{NODE_DIR}/identity.json", 0, json.dumps(raw).encode().ljust(2000))
    backup(disk)
    seeded(disk)
    found = json.loads(read_all(disk, f"{NEW}/identity.json"))
    assert (found["cluster"], found["node"], found["boot"]) == ("demo", "n1", 0)
    assert found["records"]["orders"] == {
        "promotion_number": 3,
        "promotion_master": "n2",
        "history": epochs[:1],
        "high_water_bytes": 0,
    }
    finish(seed.seed_node(disk, seeding(disk, "n0", "/other/n0")))
    assert json.loads(read_all(disk, "/other/n0/identity.json"))["boot"] == 7


def opened(disk: Any) -> None:
    open_directory(disk, NEW, cluster="demo", node="n1", groups=["orders"], settings={}).close()


def cluster(**changes: Any) -> ClusterConfig:
    fields: dict[str, Any] = {
        "name": "demo",
        "data_dir": "/data",
        "nodes": {"n0": "127.0.0.1", "n1": "127.0.0.2", "n2": "127.0.0.3"},
        "groups": {"orders": GROUP},
        "path": "c.toml",
    }
    return ClusterConfig(**(fields | changes))


async def test_a_cluster_file_has_to_have_a_place_for_it(autojump_clock: Any) -> None:
    disk = await node_disk(10)
    backup(disk)
    seed.check_fit(seeding(disk), cluster())
    for plan, config, words in (
        (seeding(disk, "n0"), cluster(), r"groups.orders.master: expected another node"),
        (seeding(disk, "n2"), cluster(), r"groups.orders.slaves: expected n2 among them"),
        (seeding(disk), cluster(groups={}), r"groups.orders: expected the group of the backup"),
        (seeding(disk), cluster(name="other"), r"key name: expected demo, the backup's cluster"),
    ):
        with pytest.raises(ConfigError, match=words):
            seed.check_fit(plan, config)


async def test_an_empty_log(autojump_clock: Any) -> None:
    disk = await node_disk(0, disk=sim_disk(3))
    (group,) = backup(disk).copies
    assert group.files == ()
    seeded(disk)
    assert starts(disk, f"{NEW}/groups/orders", GROUP) == 0


# ---- a broker's metadata ----

CONFIG = f"{NODE_DIR}/groups/orders/config"
METADATA = {
    "consumerOffset.json": b'{"offsetTable":{"t@g":{"0":3}}}',
    "topics.json": b'{"dataVersion":{"counter":2}}',
    "topics.json.bak": b'{"dataVersion":{"counter":1}}',
}
SETTINGS = b'{"brokerPermission":{"value":"4","instead_of":"6","at_ms":1}}'
UNFINISHED = {"topics.json.tmp": b"{", "delayOffset.json.damaged": b"\0"}


def found_in_backup(disk: SimDisk) -> list[str]:
    """What is damaged in it."""
    store, manifest = store_of(disk, DEST), read_manifest(disk, DEST)
    assert manifest is not None
    options = CheckOptions(is_backup=True, copied=manifest.copy_of(store))
    return list(finish(check_classic(disk, store, options)).findings.damage)


async def with_metadata(count: int = 60) -> SimDisk:
    disk = await node_disk(count)
    disk.mkdir(f"{CONFIG}/rocksdb")
    for name, data in (METADATA | UNFINISHED).items():
        write_synced(disk, f"{CONFIG}/{name}", data)
    write_synced(disk, f"{NODE_DIR}/groups/orders/settings.json", SETTINGS)
    return disk


async def test_metadata_comes_back(autojump_clock: Any) -> None:
    disk = await with_metadata()
    backup(disk)
    assert found_in_backup(disk) == []
    seeded(disk)
    folder = f"{NEW}/groups/orders/config"
    assert {name: read_all(disk, f"{folder}/{name}") for name in disk.listdir(folder)} == METADATA
    assert read_all(disk, f"{NEW}/groups/orders/settings.json") == SETTINGS


@pytest.mark.parametrize("power_loss", [False, True])
async def test_metadata_is_there_or_nothing_is(power_loss: bool, autojump_clock: Any) -> None:
    template = await with_metadata(10)
    backup(template)
    folder, whole = f"{NEW}/groups/orders/config", 0
    for number, disk in deaths(template, seeded, power_loss=power_loss):
        if not disk.exists(f"{NEW}/identity.json"):
            seeded(disk)
        assert disk.listdir(folder) == sorted(METADATA), number
        assert read_all(disk, f"{NEW}/groups/orders/settings.json") == SETTINGS
        whole += 1
    assert whole > 10


async def test_an_interrupted_backup_goes_on_with_newer_metadata(autojump_clock: Any) -> None:
    template = await with_metadata(10)
    for number, disk in deaths(template, backup, power_loss=True):
        write_synced(disk, f"{CONFIG}/topics.json", b'{"dataVersion":{"counter":3}}')
        disk.unlink(f"{CONFIG}/topics.json.bak")
        disk.unlink(f"{NODE_DIR}/groups/orders/settings.json")
        if not disk.exists(f"{DEST}/backup.json"):
            backup(disk)
            assert found_in_backup(disk) == [], number
            assert disk.listdir(f"{DEST}/groups/orders/config") == [
                "consumerOffset.json", "topics.json",
            ]  # fmt: skip
            assert not disk.exists(f"{DEST}/groups/orders/settings.json")


@pytest.mark.parametrize("file", ["config/topics.json", "settings.json"])
async def test_damaged_metadata_in_a_backup_is_found(autojump_clock: Any, file: str) -> None:
    disk = await with_metadata(10)
    backup(disk)
    path = f"{DEST}/groups/orders/{file}"
    write_at(disk, path, 3, b"?")
    (line,) = found_in_backup(disk)
    assert line.startswith(f"{path}: expected CRC-32")
    with pytest.raises(CorruptLog, match=r"\.json: expected CRC-32"):
        seeded(disk)
    disk.unlink(path)
    (line,) = found_in_backup(disk)
    assert line == f"{path}: the file is missing"
    with pytest.raises(CorruptLog, match="the file is missing"):
        seeded(disk)


async def test_a_backup_of_an_earlier_version_has_no_metadata(autojump_clock: Any) -> None:
    disk = await node_disk(10)
    backup(disk)
    manifest = json.loads(read_all(disk, f"{DEST}/backup.json"))
    for group in manifest["groups"]:
        del group["config"], group["settings"]
    write_synced(disk, f"{DEST}/backup.json", json.dumps(manifest).encode())
    assert found_in_backup(disk) == []
    seeded(disk)
    assert not disk.exists(f"{NEW}/groups/orders/config")


async def test_a_manifest_leads_out_of_no_folder(autojump_clock: Any) -> None:
    disk = await with_metadata(10)
    backup(disk)
    path = f"{DEST}/backup.json"
    write_synced(disk, path, read_all(disk, path).replace(b'"topics.json"', b'"../topics.json"'))
    with pytest.raises(CorruptLog, match="names a file outside"):
        seeded(disk)
