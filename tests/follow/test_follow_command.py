"""The command line of `triolog follow`, and what it prints."""

from __future__ import annotations

import json

import attrs
import pytest

from actors.env.protocols import Address
from actors.env.real import real_env
from actors.errors import ConfigError
from actors.follow import command_line
from actors.follow.arguments import COPIES_MAX, DESCRIPTION, EPILOG, parse
from actors.follow.command_line import Run, Screen
from actors.follow.copy import FINAL, CopyStatus
from actors.follow.lines import ADVICE, final_text, json_of, late_text, line_of, state_of
from actors.ha.core.states import Lost

STATUS = CopyStatus(
    begin=0,
    end=5 << 20,
    synced=5 << 20,
    verified=5 << 20,
    reported=5 << 20,
    master_end=5 << 20,
    connected=True,
    bytes_per_s=1 << 20,
    last_store_ms=1_000_000,
    error="",
    final=None,
    no_room="",
)
NOW_MS = 1_000_000 + 90_061_000


def test_all_that_may_be_said() -> None:
    words = (
        "a:1 [::1]:2 --into x --into /y --metadata a:3 --metadata b:4 --once --wait 5s --passive"
        " --bytes-per-s 1_000_000 --json"
        " --segment-bytes 65536 --consume-queue-bytes 2000 --index-slots 10 --index-units 40"
        " --max-message-bytes 99 --store-version 5.3.3"
    )
    found = parse([*words.split(), "--message-delay-level", "2s 3d"])
    assert [str(master) for master, _ in found.copies] == ["a:1", "[::1]:2"]
    assert found.copies[0][1].endswith("/x")
    assert found.copies[1] == (Address("::1", 2), "/y")
    assert found.metadata == (Address("a", 3), Address("b", 4))
    assert (found.once, found.wait_s, found.passive, found.json) == (True, 5.0, True, True)
    assert found.bytes_per_s == 1_000_000
    assert attrs.astuple(found.shape) == (65536, 2000, 10, 40, "5.3.3", 99, "2s 3d")


def test_each_folder_may_follow_its_master() -> None:
    found = parse(["a:1", "--into", "/x", "b:2", "--into", "/x-y"])
    assert found.copies == ((Address("a", 1), "/x"), (Address("b", 2), "/x-y"))
    for text in ("[2001:db8::1]:3", "2001:db8::1:3"):
        assert parse([text, "--into", "/x"]).copies == ((Address("2001:db8::1", 3), "/x"),)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("", "the following arguments are required"),
        ("a:1", "the following arguments are required: --into"),
        ("a --into x", "HOST:HA_PORT: expected a broker's host and its haListenPort, found 'a'"),
        ("a: --into x", "found 'a:'"),
        (":1 --into x", "found ':1'"),
        ("a:65536 --into x", "found 'a:65536'"),
        ("2001:db8::1 --into x", "found '2001:db8::1'"),
        ("[2001:db8::1 --into x", "found '[2001:db8::1'"),
        ("[a]:1 --into x", "found '[a]:1'"),
        ("b:a:1 --into x", "found 'b:a:1'"),
        ("a:1 b:2 --into x", "--into: expected one for each of 2 masters, found 1"),
        ("a:1 b:2 --into x --into x", "--into: expected a folder for each master, found"),
        ("a:1 b:2 --into /x/y --into /x", "expected separate folders, found /x/y within /x"),
        ("a:1 b:2 --into x --into x/../x/y/z", "--into: expected separate folders, found"),
        ("a:1 b:2 --into x --into y --metadata a:3", "--metadata: expected one for each of 2"),
        ("a:1 --into x --metadata a:2", "--metadata: expected a broker's host and its listenPort"),
        ("a:1 --into x --wait 0", "expected seconds above 0, found '0'"),
        ("a:1 --into x --wait nan", "expected seconds above 0, found 'nan'"),
        ("a:1 --into x --bytes-per-s 10", "expected an integer from 262144 to"),
        ("a:1 --into x --segment-bytes 5000", "a multiple of 4096, found '5000'"),
        ("a:1 --into x --store-version 5", "expected a RocketMQ version of three numbers"),
        ("a:1 --into x --message-delay-level 1w", "expected 1 to 64 delays of s, m, h or d"),
        ("a:1 --into x --nothing", "unrecognized arguments: --nothing"),
    ],
)
def test_each_mistake_is_one_line(words: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(words.split())
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_there_are_not_too_many_at_once() -> None:
    words = [f"a:{number}" for number in range(1, COPIES_MAX + 2)]
    for number in range(COPIES_MAX + 1):
        words += ["--into", f"d{number}"]
    with pytest.raises(ConfigError, match="expected at most 16, found 17"):
        parse(words)


def test_its_help_fits_a_terminal() -> None:
    text = f"{DESCRIPTION}\n{EPILOG}" % {"prog": "python -m actors.follow"}
    assert max(map(len, text.splitlines())) <= 80


CATCHES_UP = attrs.evolve(STATUS, master_end=None)
AWAY = attrs.evolve(STATUS, connected=False, error="the connection broke")


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (None, "starts"),
        (STATUS, "follows, at 5242880 (5 MiB held), 1 MiB/s, lag 0"),
        (
            attrs.evolve(STATUS, master_end=5242890),
            "follows, at 5242880 (5 MiB held), 1 MiB/s, lag 10",
        ),
        (CATCHES_UP, "catches up, at 5242880 (5 MiB held), 1 MiB/s, 1 d 1:01:01 behind"),
        (
            attrs.evolve(CATCHES_UP, last_store_ms=0),
            "catches up, at 5242880 (5 MiB held), 1 MiB/s",
        ),
        (attrs.evolve(STATUS, reported=None), "compares, at 5242880 (5 MiB held), 1 MiB/s, lag 0"),
        (
            attrs.evolve(STATUS, metadata="topics: no answer"),
            "follows, at 5242880 (5 MiB held), 1 MiB/s, lag 0; metadata: topics: no answer",
        ),
        (attrs.evolve(STATUS, metadata=""), "follows, at 5242880 (5 MiB held), 1 MiB/s, lag 0"),
        (AWAY, "not connected: the connection broke, at 5242880 (5 MiB held)"),
        (attrs.evolve(AWAY, error=""), "connects, at 5242880 (5 MiB held)"),
        (
            attrs.evolve(AWAY, no_room="no room: full"),
            "waits: no room: full, at 5242880 (5 MiB held)",
        ),
    ],
)
def test_a_line_says_how_a_copy_stands(status: CopyStatus | None, line: str) -> None:
    assert line_of(status, NOW_MS) == line
    found = json.loads(json_of(status, Address("a", 1), "/x", NOW_MS))
    assert (found["state"], found["master"], found["folder"]) == (state_of(status), "a:1", "/x")


async def test_a_live_line_goes_on_below_where_the_terminal_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And all of its rows are taken away again."""
    monkeypatch.setattr(Screen, "_draws", True)
    monkeypatch.setattr(command_line, "width_of", lambda descriptor: 40)
    follow, env = parse(["a:1", "--into", "/x"]), real_env()
    run, screen = Run(follow, Address("a", 1), "/x", None, env, Screen(follow)), Screen(follow)
    why = "the connection broke: " + "x" * 50 + " at the other end"
    screen.show(run, attrs.evolve(AWAY, error=why), NOW_MS)
    rows = capsys.readouterr().out.split("\n")
    assert max(map(len, rows)) <= 39
    assert rows[0] == "not connected: the connection broke:"
    assert "".join(row.strip() for row in rows[1:3]) == "x" * 50
    assert " ".join(row.strip() for row in rows).endswith("other end, at 5242880 (5 MiB held)")
    screen.clear()
    assert capsys.readouterr().out == f"\r\x1b[{len(rows) - 1}A\x1b[J"


def test_what_was_not_checked_yet_is_lag() -> None:
    assert attrs.evolve(STATUS, verified=100).lag == (5 << 20) - 100
    assert attrs.evolve(STATUS, verified=None, begin=50).lag == (5 << 20) - 50
    assert attrs.evolve(STATUS, synced=70).good == 70


def test_a_copy_that_falls_far_behind_catches_up_again() -> None:
    assert not attrs.evolve(STATUS, end=STATUS.end + (9 << 20)).follows


def test_each_end_for_good_says_what_to_do() -> None:
    for lost in (*FINAL, Lost.OFFSET_MISMATCH, Lost.DAMAGED):
        assert ADVICE[lost]
        status = attrs.evolve(AWAY, final=lost)
        assert final_text(status).startswith("the connection broke; nothing was overwritten: ")


def test_a_late_copy_says_where_it_begins() -> None:
    assert "begins at offset 100: " in late_text(attrs.evolve(STATUS, begin=100))
