"""From errors to lines and exit codes."""

from __future__ import annotations

import errno
from pathlib import Path

import attrs
import pytest

from actors.cluster.explain import EXIT_DAMAGED, EXIT_FAILED, EXIT_NO_ROOM, EXIT_USAGE, explain
from actors.config import load
from actors.env.protocols import LockedByOther, LockedByUs
from actors.errors import ConfigError, CorruptLog, NoRoomToStart, StorageError

CONFIG = attrs.evolve(load(Path(__file__).parents[2] / "tests" / "three_nodes.toml"), path="f.toml")


def test_mistakes_inside_groups_and_causes() -> None:
    crash = RuntimeError("gave up")
    crash.__cause__ = ExceptionGroup("inner", [ConfigError(("a", "b")), OSError("x")])
    found = explain(ExceptionGroup("outer", [ExceptionGroup("", [crash])]), CONFIG)
    assert found.lines == ("triolog: a", "triolog: b")
    assert found.exit_code == 2


def test_one_mistake_is_said_once() -> None:
    group = ExceptionGroup("", [ConfigError("a"), ConfigError("a"), ConfigError("b\nc")])
    assert explain(group).lines == ("triolog: a", "triolog: b c")


def test_many_mistakes_are_counted() -> None:
    found = explain(ConfigError(tuple(str(number) for number in range(25))))
    assert len(found.lines) == 21
    assert found.lines[-1] == "triolog: and 5 more"


def test_port_in_use() -> None:
    error = OSError(errno.EADDRINUSE, "Address already in use: 127.0.0.1:10912")
    found = explain(ExceptionGroup("", [error]), CONFIG)
    assert found.exit_code == 2
    assert found.lines == (
        "triolog: f.toml: key groups.orders.port: expected a free port, "
        "found 127.0.0.1:10912 in use",
    )
    api = attrs.evolve(CONFIG, api_port=9000)
    error = OSError(errno.EADDRINUSE, "Address already in use: 127.0.0.2:9000")
    assert "key api_port: expected a free port" in explain(error, api).lines[0]


def test_address_of_another_machine() -> None:
    error = OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address: 127.0.0.1:10912")
    assert explain(error, CONFIG).lines == (
        'triolog: f.toml: key nodes.n0: expected an address of this machine, found "127.0.0.1"',
    )


def test_other_errors_of_the_system_are_failures() -> None:
    for error in (
        OSError(errno.EADDRINUSE, "Address already in use: 10.0.0.1:80"),
        OSError(errno.ENOSPC, "No space left on device: 127.0.0.1:10912"),
    ):
        assert explain(error, CONFIG).exit_code == 1


def test_locks() -> None:
    locked = LockedByOther(errno.EAGAIN, "locked", "/d/n0/lock")
    for pid, who in (
        (0, "a process that cannot be seen from here, of another container or machine"),
        (4711, "process 4711"),
    ):
        locked.pid = pid
        assert explain(locked, CONFIG).lines == (
            "triolog: f.toml: key data_dir: expected a free data directory, "
            f"found a lock of {who} (/d/n0/lock); `status` asks what runs there",
        )
    assert "a lock of this process" in explain(LockedByUs(errno.EAGAIN, "locked"), CONFIG).lines[0]


def test_failures_are_named_with_their_causes() -> None:
    outer = RuntimeError("gave up")
    outer.__cause__ = CorruptLog("damage at 4096")
    found = explain(ExceptionGroup("", [outer, ValueError()]))
    assert found.exit_code == 1
    assert found.lines == (
        "triolog: RuntimeError: gave up",
        "triolog: damage at 4096",
        "triolog: ValueError",
    )


def test_an_error_of_the_system_that_ours_repeats_is_reported_once() -> None:
    cause = OSError(errno.EIO, "Input/output error", "/d/0")
    ours = StorageError(f"/d: the append failed: {cause}")
    ours.__cause__ = cause
    found = explain(ExceptionGroup("", [ours]))
    assert found.lines == ("triolog: /d: the append failed: [Errno 5] Input/output error: '/d/0'",)
    ours.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert explain(ours).lines[1] == "triolog: OSError: [Errno 28] No space left on device"


def test_endless_chain_of_causes() -> None:
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert explain(first).exit_code == 1


def test_an_error_caused_by_the_group_it_is_in() -> None:
    damage = CorruptLog("damage at 4096")
    damage.__cause__ = ExceptionGroup("start", [ExceptionGroup("store", [damage])])
    for error in (damage, ExceptionGroup("node", [damage])):
        found = explain(error)
        assert (found.lines, found.exit_code) == (("triolog: damage at 4096",), 1)


def test_node_s_own_words_give_way_to_the_file_s_key() -> None:
    error = ConfigError("groups.orders.port: cannot listen on 127.0.0.1:10912: in use")
    error.__cause__ = OSError(errno.EADDRINUSE, "Address already in use: 127.0.0.1:10912")
    [line] = explain(ExceptionGroup("", [error]), CONFIG).lines
    assert line.startswith("triolog: f.toml: key groups.orders.port: expected a free port")
    start = ConfigError("groups.orders.port: cannot listen on 127.0.0.1:10912: in use")
    start.__cause__ = ExceptionGroup("", [ExceptionGroup("", [error]), ConfigError("other")])
    assert explain(start, CONFIG).lines == (line, "triolog: other")
    start.__cause__ = ExceptionGroup("", [ValueError()])
    assert explain(start, CONFIG).lines == (f"triolog: {start}",)
    error = ConfigError("/d/n1: is in use by process 4711")
    error.__cause__ = locked = LockedByOther(errno.EAGAIN, "locked", "/d/n1/lock")
    locked.pid = 4711
    [line] = explain(error, CONFIG).lines
    assert "found a lock of process 4711 (/d/n1/lock)" in line


def test_directory_of_a_node_is_the_key_data_dir() -> None:
    place = f"{CONFIG.data_dir}/n1: expected format 1, found 99"
    assert explain(ConfigError(place), CONFIG).lines == (f"triolog: f.toml: key data_dir: {place}",)
    error = ConfigError("words")
    error.__cause__ = OSError(errno.EIO, "Input/output error")
    assert explain(error, CONFIG).lines == ("triolog: words",)


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([OSError(errno.ENOSPC, "No space left on device")], EXIT_NO_ROOM),
        ([OSError(errno.EDQUOT, "Disk quota exceeded")], EXIT_NO_ROOM),
        ([OSError(errno.ENOSPC, "No space"), OSError(errno.EIO, "bad")], EXIT_FAILED),
        ([OSError(errno.ENOSPC, "No space"), CorruptLog("bad record")], EXIT_DAMAGED),
        ([OSError(errno.ENOSPC, "No space"), ConfigError("f.toml: key x")], EXIT_USAGE),
        ([RuntimeError("a bug")], EXIT_FAILED),
    ],
)
def test_what_a_node_s_process_shows_its_parent(errors: list[Exception], code: int) -> None:
    assert explain(ExceptionGroup("", errors)).child_code == code


def test_a_start_without_room_is_one_line() -> None:
    start = NoRoomToStart("/d/n0: no room: [Errno 28] No space left on device: '/d/n0/x'")
    start.__cause__ = OSError(errno.ENOSPC, "No space left on device", "/d/n0/x")
    found = explain(start)
    assert (found.lines, found.child_code) == ((f"triolog: {start}",), EXIT_NO_ROOM)
