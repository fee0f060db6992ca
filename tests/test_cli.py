"""The one command: what it prints of itself, whom it hands its words to, and what it imports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from actors.cli import COMMANDS, main
from actors.cluster.arguments import COMMANDS as OF_CLUSTER
from actors.cluster.command_line import run_command_line
from actors.config.command_line import folded
from actors.own_process import as_triolog, as_typed, naming
from actors.version import VERSION

ROOT = Path(__file__).parents[1]
FILE = """\
version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
[groups.orders]
master = "n0"
slaves = ["n1"]
port = 10912
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    found = tmp_path / "c.toml"
    found.write_text(FILE)
    return str(found)


def test_help_has_every_command_and_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24
    assert re.findall(r"^  ([a-z-]+) ", "\n".join(lines), re.M) == list(COMMANDS)
    assert set(OF_CLUSTER) <= set(COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"triolog {VERSION}\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], f"nothing: one of {', '.join(COMMANDS)} (see --help)"),
        (["stauts", "c.toml"], "stauts (did you mean status?) (see --help)"),
        (["xyz"], "xyz (see --help)"),
        (["c.toml", "status"], "c.toml: `triolog run c.toml`, or another command before it"),
    ],
)
def test_no_command_is_one_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith(f"triolog: expected a command, found {line}")
    assert found.err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_usage_says_what_was_typed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: triolog {command} ")
    assert "python -m" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_usage_of_the_module_says_that(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_command_line(["--help"])
    text = capsys.readouterr().out
    assert text.startswith("usage: python -m actors.cluster ")


def test_a_command_takes_only_what_means_something_to_it(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", file, "--processes"]) == 2
    assert capsys.readouterr().err == (
        "triolog: unrecognized arguments: --processes (see --help)\n"
    )
    assert main(["promote", file]) == 2
    assert "the following arguments are required: GROUP" in capsys.readouterr().err
    assert main(["transfer-leader", file, "orders", "n1"]) == 2
    line = capsys.readouterr().err
    assert line == (
        "triolog: transfer-leader: expected a group whose members elect their leader, found orders,"
        f" a classic group: `triolog promote {file} orders` changes its master\n"
    )


def test_check_is_what_the_module_prints(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", file]) == run_command_line([file, "check"]) == 0
    text = capsys.readouterr().out
    half = len(text) // 2
    assert text[:half] == text[half:]
    assert "an append returns when" in text


def test_a_status_imports_neither_spark_nor_the_simulator(file: str) -> None:
    looks = (
        "import sys; from actors.cli import main; code = main(['status', sys.argv[1]]);"
        " print([each for each in sys.modules if each.startswith(('pyspark', 'actors.sim',"
        " 'actors.pipeline', 'matplotlib'))], code)"
    )
    words = [sys.executable, "-c", looks, file]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] 1"


def test_help_needs_nothing() -> None:
    looks = (
        "import sys; from actors.cli import main; main(['--help']);"
        " print([each for each in ('trio', 'rich', 'pyspark') if each in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", looks], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_missing_extra_is_one_line(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['pyspark'] = None; from actors.cli import main;"
    words = "sys.exit(main(['pipeline', 'report', 'x', '-o', 'y.html']))"
    done = subprocess.run(
        [sys.executable, "-c", f"{hide} {words}"], cwd=ROOT, capture_output=True, text=True
    )
    line = "pipeline: PySpark is not installed: pip install 'triolog[pipeline]'\n"
    assert (done.returncode, done.stderr) == (2, line)


TEXT = (
    "`promote orders` makes; `status` says; `repair` mends; after `promote --force` by all;"
    " `storage check /a b` says"
)


def test_commands_in_texts_can_be_pasted() -> None:
    assert as_typed(TEXT) == TEXT  # for a program that embeds nodes
    with naming("my c.toml"):
        assert as_typed(TEXT) == (
            "`python -m actors.cluster 'my c.toml' promote orders` makes;"
            " `python -m actors.cluster 'my c.toml' status` says; `repair` mends;"
            " after `promote --force` by all; `python -m actors.storage check /a b` says"
        )
        with as_triolog():
            assert as_typed(TEXT) == (
                "`triolog promote 'my c.toml' orders` makes; `triolog status 'my c.toml'` says;"
                " `repair` mends; after `promote --force` by all; `triolog storage check /a b` says"
            )
            assert as_typed(as_typed(TEXT)) == as_typed(TEXT)


def test_a_terminal_breaks_no_word_and_no_command() -> None:
    text = "head\n  orders: no master, appends fail; `triolog promote my-cluster.toml orders`, once"
    assert folded(text, 0) == text
    assert folded(text, 40).splitlines() == [
        "head",
        "  orders: no master, appends fail;",
        "      `triolog promote my-cluster.toml orders`,",
        "      once",
    ]
