"""The judge is judged: it must see a difference and leave no process behind. Needs no Java."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from interop_logs import (
    LogFiles,
    common_difference,
    consume_queues,
    first_difference,
    index_difference,
    queue_difference,
    record_offsets,
)
from interop_processes import LAUNCHER, PeerFailed, Processes, free_ports, port_answers, wait_for
from interop_remoting import GET_BROKER_CLUSTER_INFO, REGISTER_BROKER, MasterOfSlave, Server, call
from interop_versions import (
    MATRIX,
    NEWEST,
    OLDEST_DLEDGER,
    Peer,
    beside,
    chosen,
    parametrize,
    peers_of,
    what_is_missing,
)

pytestmark = pytest.mark.real_io

FILE_BYTES = 64


def record(size: int, fill: int) -> bytes:
    return size.to_bytes(4, "big") + bytes.fromhex("DAA320A7") + bytes([fill]) * (size - 8)


def blank(size: int) -> bytes:
    return size.to_bytes(4, "big") + bytes.fromhex("CBD43194") + bytes(size - 8)


def write_log(folder: Path, *files: bytes, first: int = 0) -> Path:
    folder.mkdir()
    for i, data in enumerate(files):
        name = f"{first + i * FILE_BYTES:020d}"
        (folder / name).write_bytes(data.ljust(FILE_BYTES, b"\0"))
    return folder


def write_queue(store: Path, *units: tuple[int, int, int]) -> Path:
    folder = store / "consumequeue" / "topic" / "0"
    folder.mkdir(parents=True)
    data = b"".join(
        a.to_bytes(8, "big") + b.to_bytes(4, "big") + c.to_bytes(8, "big") for a, b, c in units
    )
    (folder / f"{0:020d}").write_bytes(data + bytes(40))
    return store


def test_the_end_of_a_log_is_found(tmp_path: Path) -> None:
    full = record(20, 1) + record(20, 2) + blank(24)
    log = LogFiles.read(write_log(tmp_path / "a", full, record(30, 3), b""))
    assert (log.min_bytes, log.end_bytes) == (0, 94)
    assert record_offsets(tmp_path / "a") == [0, 20, 64]
    filled = LogFiles.read(write_log(tmp_path / "b", full, b"", first=128))
    assert (filled.min_bytes, filled.end_bytes) == (128, 192)
    assert LogFiles.read(tmp_path / "none").end_bytes == 0


def test_equal_logs_are_equal_and_a_flipped_byte_is_found(tmp_path: Path) -> None:
    full = record(20, 1) + record(20, 2) + blank(24)
    flipped = bytearray(full)
    flipped[63] ^= 1  # the last byte of the filler: it belongs to the log too
    one = write_log(tmp_path / "one", full, record(30, 3))
    same = write_log(tmp_path / "same", full, record(30, 3), b"")
    other = write_log(tmp_path / "other", bytes(flipped), record(30, 3))
    assert first_difference(one, same) is None
    assert first_difference(one, other) == f"{one} {other} differ: byte 63"


def test_logs_of_other_length_are_different_but_may_share_a_range(tmp_path: Path) -> None:
    full = record(20, 1) + record(20, 2) + blank(24)
    one = write_log(tmp_path / "one", full, record(30, 3))
    short = write_log(tmp_path / "short", full)
    late = write_log(tmp_path / "late", record(30, 3), first=FILE_BYTES)
    assert first_difference(one, short) is not None
    assert first_difference(one, late) is not None
    assert common_difference(one, short) is None
    assert common_difference(one, late) is None
    assert common_difference(short, late) is not None


def test_queues_are_compared_unit_by_unit(tmp_path: Path) -> None:
    one = write_queue(tmp_path / "one", (0, 20, 7), (20, 20, 8))
    same = write_queue(tmp_path / "same", (0, 20, 7), (20, 20, 8))
    tagged = write_queue(tmp_path / "tagged", (0, 20, 7), (20, 20, 9))
    short = write_queue(tmp_path / "short", (0, 20, 7))
    late = write_queue(tmp_path / "late", (0, 0x7FFFFFFF, 0), (20, 20, 8))
    assert consume_queues(one) == {("topic", 0): {0: (0, 20, 7), 1: (20, 20, 8)}}
    assert queue_difference(one, same, 0, 40) is None
    assert queue_difference(one, tagged, 0, 40) is not None
    assert queue_difference(one, short, 0, 40) is not None
    assert queue_difference(one, short, 0, 20) is None
    assert queue_difference(one, late, 0, 40) is not None
    assert queue_difference(one, late, 20, 40) is None
    assert queue_difference(one, same, 40, 80) is not None, "nothing to compare is no proof"


def test_index_files_are_compared_by_content(tmp_path: Path) -> None:
    def write_index(name: str, *files: bytes) -> Path:
        folder = tmp_path / name / "index"
        folder.mkdir(parents=True)
        for i, data in enumerate(files):
            (folder / f"{name}-{i}").write_bytes(data)
        return folder.parent

    one, same = write_index("one", b"abc", b"def"), write_index("same", b"abc", b"def")
    other, short = write_index("other", b"abc", b"dEf"), write_index("short", b"abc")
    assert index_difference(one, same) is None
    assert index_difference(one, other) == f"index file 1 of {one} and {other} differ: byte 1"
    assert index_difference(one, short) is not None
    assert index_difference(tmp_path, tmp_path) is not None, "no index is no proof"


def test_a_process_dies_with_its_parent_even_by_kill() -> None:
    program = "import time; print('up', flush=True); time.sleep(600)"
    parent = f"""
import os, subprocess, sys
command = [sys.executable, {str(LAUNCHER)!r}, str(os.getpid()), sys.executable, "-c", {program!r}]
child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""
    command = [sys.executable, "-c", parent]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as popen:
        assert popen.stdout is not None
        pid = int(popen.stdout.readline())
        assert is_running(pid)
        popen.kill()
    wait_for(lambda: not is_running(pid), f"the end of {pid}", timeout_s=20)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_processes_are_ended_and_explain_themselves(tmp_path: Path) -> None:
    processes = Processes()
    script = "import sys, time; print('ready', flush=True); time.sleep(600)"
    process = processes.start("sleeper", [sys.executable, "-c", script], tmp_path / "sleeper")
    out = tmp_path / "sleeper" / "out"
    wait_for(lambda: "ready" in out.read_text(), "its output", timeout_s=20, alive=[process])
    with pytest.raises(PeerFailed, match="did not see a wonder within") as caught:
        wait_for(lambda: None, "a wonder", timeout_s=0.01, alive=[process])
    assert "ready" in str(caught.value)
    process.popen.send_signal(signal.SIGTERM)
    with pytest.raises(PeerFailed, match=r"sleeper .* ended, so the test did not see a wonder"):
        wait_for(lambda: None, "a wonder", timeout_s=20, alive=[process])
    other = processes.start("other", [sys.executable, "-c", script], tmp_path / "other")
    processes.end()
    assert not other.running
    assert processes.started == []


def test_a_port_in_use_is_not_free() -> None:
    server = Server.listen(free_ports(), lambda header: ({}, b""))
    port = server.port
    assert port_answers("127.0.0.1", port)
    server.close()
    assert not port_answers("127.0.0.1", port)


def test_a_slave_learns_its_master() -> None:
    listen_port = free_ports(-2)
    master = MasterOfSlave("127.0.0.2:10912", free_ports(), listen_port)
    master.open()
    try:
        assert call(master.namesrv_port, GET_BROKER_CLUSTER_INFO) == {}
        fields = {"brokerName": "orders"}
        answer, _ = master.answer_as_namesrv({"code": REGISTER_BROKER, "extFields": fields})
        assert answer["extFields"]["haServerAddr"] == "127.0.0.2:10912"
        assert answer["extFields"]["masterAddr"] == f"127.0.0.1:{listen_port}"
        assert master.registrations == ["orders"]
        tables = call(listen_port - 2, 21)
        assert tables is not None
        assert tables["topicConfigTable"] == {}
        assert call(listen_port, 9999) is None
    finally:
        master.close()
    assert call(listen_port, 21) is None


@pytest.mark.parametrize("jars_are_there", [False, True])
def test_what_is_missing_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jars_are_there: bool
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PEER_VERSION", raising=False)
    if jars_are_there:
        for peer in (OLDEST_DLEDGER, *(each for peers in MATRIX.values() for each in peers)):
            peer.folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("PATH", "")
    assert "java" in (what_is_missing() or "")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(0o755)
    os.chmod(java, 0o755)
    monkeypatch.setenv("PATH", str(java.parent))
    missing = what_is_missing()
    assert missing is None if jars_are_there else "mvn" in (missing or "")


@pytest.mark.parametrize(
    ("name", "family", "main"),
    [
        ("5.5.0", "rocketmq", "org.apache.rocketmq.broker.BrokerStartup"),
        ("4.9.7", "older brokers", "org.apache.rocketmq.broker.BrokerStartup"),
        ("3.2.6", "older brokers", "com.alibaba.rocketmq.broker.BrokerStartup"),
        ("dledger-0.3.3.4", "dledger", ""),
        ("dledger-0.4.0", "other dialects", ""),
    ],
)
def test_a_version_is_of_a_family(name: str, family: str, main: str) -> None:
    peer = Peer(name)
    assert peer.family == family
    assert peer.is_dledger or peer.main == main


def test_versions_of_the_matrix_are_of_their_families() -> None:
    for family, peers in MATRIX.items():
        assert {peer.family for peer in peers} == {family}
    assert Peer("dledger-0.3.1.2").folder == Peer("5.3.3").folder, "RocketMQ brings it"
    assert Peer("dledger-0.3.3.4").folder.name == "dledger-0.3.3.4"


def test_what_runs_is_the_matrix_or_what_peer_version_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark, one = beside("rocketmq").mark, beside("rocketmq", NEWEST.version).mark
    monkeypatch.delenv("PEER_VERSION", raising=False)
    assert chosen() == ()
    assert peers_of(mark) == list(MATRIX["rocketmq"])
    assert peers_of(one) == [NEWEST]
    monkeypatch.setenv("PEER_VERSION", "5.4.0, dledger-0.3.2")
    assert peers_of(mark) == peers_of(one) == [Peer("5.4.0")]
    assert peers_of(beside("dledger").mark) == [Peer("dledger-0.3.2")]
    assert peers_of(beside("older brokers").mark) == []


def test_a_version_that_cannot_be_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_VERSION", "5.4.0,newest")
    with pytest.raises(pytest.UsageError, match="'newest' is neither"):
        chosen()


@pytest.mark.parametrize(
    ("named", "rows"),
    [
        ("", [("dledger-0.3.3.4", 1), ("dledger-0.3.1.2", 2)]),
        ("dledger-0.3.2", [("dledger-0.3.2", 1), ("dledger-0.3.2", 2)]),
        ("5.5.0", []),
    ],
)
def test_values_are_divided_among_the_versions(
    named: str, rows: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEER_VERSION", named)
    made: list[list[tuple[Peer, int]]] = []

    class Function:
        @staticmethod
        def parametrize(names: object, values: list[tuple[Peer, int]], **more: object) -> None:
            made.append(values)

    parametrize(Function(), beside("dledger", ours=(1, 2)).mark)  # type: ignore[arg-type]
    assert [(peer.name, value) for peer, value in made[0]] == rows
