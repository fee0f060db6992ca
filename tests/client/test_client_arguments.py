"""The client's command line: words to values, and one line for every mistake."""

from __future__ import annotations

import pytest

from actors.client.arguments import Append, Arguments, Bench, Read, Status, Tail, parse
from actors.errors import ConfigError

DEFAULTS = {
    "append": Append(group=None, file="-", again=False, wait_s=None, json=False),
    "read": Read(group=None, start=0, count=None, fresh=False, wait_s=None, json=False),
    "tail": Tail(group=None, start=None, wait_s=None, json=False),
    "status": Status(json=False),
    "bench": Bench(
        group=None,
        windows=(1, 16, 128, 1024),
        size_bytes=256,
        batch_count=1,
        seconds=3.0,
        wait_s=None,
        json=False,
    ),
}


@pytest.mark.parametrize("command", DEFAULTS)
def test_defaults(command: str) -> None:
    assert parse(["c.toml", command]) == Arguments("c.toml", DEFAULTS[command])


def test_every_option() -> None:
    assert parse(["t", "append", "FILE", "--again", "--group", "g", "--json"]).command == Append(
        group="g", file="FILE", again=True, wait_s=None, json=True
    )
    assert parse(["t", "append", "--wait", "0"]).command == Append(
        group=None, file="-", again=False, wait_s=0.0, json=False
    )
    words = ["t", "read", "--start", "1_000", "--count", "7", "--fresh", "--json", "--group", "g"]
    assert parse(words).command == Read(
        group="g", start=1000, count=7, fresh=True, wait_s=None, json=True
    )
    words = ["t", "tail", "--start", "0", "--json", "--group", "g", "--wait", "1.5s"]
    assert parse(words).command == Tail(group="g", start=0, wait_s=1.5, json=True)
    assert parse(["t", "status", "--json"]).command == Status(json=True)
    words = ["t", "bench", "--window", "1/16,3", "--size", "0", "--batch", "9", "--seconds", "1.5s"]
    assert parse([*words, "--json", "--group", "g"]).command == Bench(
        group="g",
        windows=(1, 16, 3),
        size_bytes=0,
        batch_count=9,
        seconds=1.5,
        wait_s=None,
        json=True,
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "required: TARGET"),
        (["t"], "required: COMMAND"),
        (["t", "frob"], "invalid choice: 'frob'"),
        (["append", "--group", "led"], "expected TARGET before append: CLUSTER.toml[:NODE], "),
        (["status"], "expected TARGET before status: "),
        (["t", "status", "--group", "g"], "unrecognized arguments: --group g"),
        (["t", "read", "--sta", "3"], "unrecognized arguments: --sta 3"),
        (["t", "read", "--start", "-1"], "--start: expected"),
        (["t", "read", "--start", "9" * 30], "--start: expected a number of 0 to 92233"),
        (["t", "read", "--start", "\u0663"], "--start: expected a number"),
        (["t", "read", "--count", "few"], "--count: expected a number"),
        (["t", "tail", "--start", "end"], "--start: expected a number"),
        (["t", "bench", "--window", "0"], "--window: expected a number of 1 to 16384, found '0'"),
        (["t", "bench", "--window", "1,,2"], "--window: expected a number of 1 to 16384"),
        (["t", "bench", "--size", "5000000"], "--size: expected a number of 0 to 4194304"),
        (["t", "bench", "--batch", "0"], "--batch: expected a number of 1"),
        (["t", "bench", "--seconds", "0"], "--seconds: expected seconds above 0, found '0'"),
        (["t", "bench", "--seconds", "nan"], "--seconds: expected seconds above 0"),
        (["t", "bench", "--seconds", "inf"], "--seconds: expected seconds above 0"),
        (["t", "tail", "--wait", "-1"], "--wait: expected seconds, 0 or more, found '-1'"),
        (["t", "tail", "--wait", "nan"], "--wait: expected seconds, 0 or more"),
        (["t", "bench", "--seconds", "long"], "--seconds: expected seconds above 0"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(words)
    (problem,) = raised.value.problems
    assert text in problem
    assert "\n" not in problem


@pytest.mark.parametrize("command", ["", *DEFAULTS])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["t", command, "--help"] if command else ["--help"]
    with pytest.raises(SystemExit) as raised:
        parse(words)
    assert raised.value.code == 0
    assert f"usage: python -m actors.client {'TARGET' if command else ''}" in (
        capsys.readouterr().out.replace("[-h] ", "")
    )


def test_help_says_what_append_again_does_not_send(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["t", "append", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "stored twice; if a time is over without enough copies, the command ends" in said
