"""The command line: what it gives, and the one line that each mistake gets."""

from __future__ import annotations

import pytest

from actors.cluster.arguments import Arguments, parse
from actors.errors import ConfigError


def test_file_alone_runs_everything() -> None:
    assert parse(["c.toml"]) == Arguments(file="c.toml")


def test_all_options() -> None:
    words = "--node n1 c.toml run --node n2 --node n1 --processes --for 30s --feed - --json --plain"
    assert parse(words.split()) == Arguments(
        file="c.toml",
        command="run",
        nodes=("n1", "n2"),
        processes=True,
        for_s=30.0,
        feed="-",
        json=True,
        plain=True,
    )


@pytest.mark.parametrize("command", ["check", "status", "stop"])
def test_commands(command: str) -> None:
    assert parse(["c.toml", command, "--json"]).command == command


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30.0), ("500ms", 0.5), ("2m", 120.0), ("1.5h", 5400.0), ("1d", 86400.0), ("7", 7.0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse(["c.toml", "--for", text]).for_s == seconds


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("", "the following arguments are required: FILE (see --help)"),
        ("c.toml --nod n1", "unrecognized arguments: --nod n1 (see --help)"),
        ("c.toml stat", "argument command: invalid choice: 'stat'"),
        ("c.toml run --for soon", "expected a duration such as 30s or 5m, found 'soon'"),
        ("c.toml run --for 0s", "expected a duration such as 30s or 5m, found '0s'"),
        ("c.toml run --for -5s", "expected one argument"),
        ("c.toml run --for 367d", "expected a duration such as 30s or 5m, found '367d'"),
        ("c.toml check --processes", "--processes has no meaning for check (see --help)"),
        ("c.toml check --node n1", "--node has no meaning for check (see --help)"),
        ("c.toml status --for 3s", "--for has no meaning for status (see --help)"),
        ("c.toml check --trees", "--trees has no meaning for check (see --help)"),
        ("c.toml --trees", "--trees has no meaning for run (see --help)"),
        ("c.toml stop --feed x", "--feed has no meaning for stop (see --help)"),
        ("c.toml --broker-conf b check", "argument command: invalid choice: 'c.toml'"),
        ("c.toml check --toml", "--toml: expected --broker-conf beside it, found none"),
        ("--broker-conf b status --toml", "--toml has no meaning for status (see --help)"),
        ("c.toml stop --plain", "--plain has no meaning for stop (see --help)"),
    ],
)
def test_mistakes_are_one_line(words: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(words.split())
    [found] = caught.value.problems
    assert line in found
    assert "\n" not in found


@pytest.mark.parametrize(
    ("words", "files", "command"),
    [
        ("--broker-conf b.conf", ("b.conf",), "run"),
        ("--broker-conf=b.conf check", ("b.conf",), "check"),
        ("--broker-conf a --broker-conf b status --json", ("a", "b"), "status"),
        ("check --broker-conf a --toml --broker-conf b", ("a", "b"), "check"),
        ("--broker-conf", (None,), "run"),
        ("--broker-conf status", (None,), "status"),
        ("status --broker-conf", (None,), "status"),
        ("--broker-conf --json stop", (None,), "stop"),
    ],
)
def test_properties_stand_for_the_file(
    words: str, files: tuple[str | None, ...], command: str
) -> None:
    found = parse(words.split())
    assert (found.file, found.broker_confs, found.command) == ("", files, command)
    assert found.toml == ("--toml" in words)


def test_properties_stand_for_the_file_of_a_command() -> None:
    found = parse(["--broker-conf", "a", "--broker-conf", "b", "broker-a"], "promote")
    assert (found.broker_confs, found.group) == (("a", "b"), "broker-a")
    assert parse(["--broker-conf"], "status").broker_confs == (None,)
    assert parse(["--broker-conf", "status"], "status").broker_confs == ("status",)
    assert parse(["--broker-conf", "a", "promote", "broker-a", "broker-a-1"]) == Arguments(
        file="", broker_confs=("a",), command="promote", group="broker-a", member="broker-a-1"
    )


def test_status_takes_nodes() -> None:
    assert parse(["c.toml", "status", "--node", "n1"]).nodes == ("n1",)
    assert parse(["c.toml", "status", "--trees"]).trees


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "Exit codes: 0 done, 1 ran and failed, 2 wrong usage" in text
    assert "--child-of" not in text
