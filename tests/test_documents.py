"""What the documents say is what the code does: links, commands, options, programs, files."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import attrs
import pytest
import trio
from free_ports import free_port

import actors
from actors.cli import COMMANDS, main
from actors.config import ClassicGroup, ClusterConfig, DLedgerGroup, loads
from actors.config.dledger import ControllerSettings
from actors.config.kinds import markdown
from actors.config.model import FeedConfig
from actors.group_status import GroupStatus, Scrub
from actors.runtime import RestartIntensityExceeded

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "actors/ARCHITECTURE.md",
    "actors/cluster/OPERATING.md",
    "actors/config/guarantees.md",
    "tests/bench/README.md",
)
OWN_FILES = ("given_up", "begun_anew", "queue_ends", "newest_epoch")
WORDS_MAX = 1500
"""A newcomer reads so much, in some six minutes."""


def texts() -> list[tuple[str, str]]:
    return [(name, (ROOT / name).read_text()) for name in DOCUMENTS]


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def typed() -> list[tuple[str, str]]:
    """Every `triolog ...` line of the documents, with the document it stands in."""
    lines = [
        (name, found)
        for name, text in texts()
        for found in re.findall(r"(?:^ {4,}|`)(triolog [^`\n]+)", text, re.M)
    ]
    return sorted({(name, line.partition("  #")[0].strip()) for name, line in lines})


LINKS = sorted(
    {
        (name, target)
        for name, text in texts()
        for target in re.findall(r"\]\(([^)]+)\)", text)
        if "://" not in target
    }
)


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= WORDS_MAX


def test_the_guarantees_are_the_codes() -> None:
    assert markdown() in (ROOT / "actors/config/guarantees.md").read_text()


@pytest.mark.parametrize(("name", "target"), LINKS)
def test_what_is_linked_exists(name: str, target: str) -> None:
    path, _, heading = target.partition("#")
    file = (ROOT / name).parent / path if path else ROOT / name
    assert file.exists()
    if heading:
        assert heading in map(anchor, re.findall(r"^#+ (.*)$", file.read_text(), re.M))


@pytest.mark.parametrize(
    "target",
    sorted(
        {
            each
            for _, text in texts()
            for each in re.findall(r"(?:`|^ {4}|; )make ([a-z]+)", text, re.M)
        }
    ),
)
def test_every_make_target_exists(target: str) -> None:
    assert f"\n{target}:" in (ROOT / "Makefile").read_text()


def test_every_key_is_one_of_a_cluster_file() -> None:
    """Or of `status --json`; a word of ours that looks like one is none."""
    classes = (
        *(ClusterConfig, ClassicGroup, DLedgerGroup, ControllerSettings),
        *(FeedConfig, GroupStatus, Scrub),
    )
    known = {field.name for each in classes for field in attrs.fields(each)}
    for name in ("README.md", "actors/cluster/OPERATING.md"):
        found = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)(?: = [^`]*)?`", (ROOT / name).read_text()))
        assert found - known - set(OWN_FILES) == set(), name


@pytest.mark.parametrize(("name", "line"), typed())
def test_every_command_is_one_with_these_options(name: str, line: str) -> None:
    words = line.split()[1:]
    if words[0].startswith("-") or words[0] == "...":
        return
    assert words[0] in COMMANDS
    room = words[:1]
    if words[0] == "client":
        room = [words[0], "FILE", *[word for word in words[2:3] if word.islower()]]
    elif words[0] in ("storage", "sim", "pipeline"):
        room = [words[0], *[word for word in words[1:2] if word.islower()]]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        assert main([*room, "--help"]) == 0
    for option in re.findall(r"--[a-z-]+", " ".join(words)):
        assert option in shown.getvalue(), f"{option} of {line}"


@pytest.mark.parametrize("text", blocks("toml"))
@pytest.mark.real_io
async def test_a_pasted_cluster_file_works(text: str, tmp_path: Path) -> None:
    port = free_port(2)
    for number, before in enumerate(re.findall(r"(?m)^port = (\d+)", text)):
        text = text.replace(f"port = {before}", f"port = {port + number}")
    text = re.sub(r'data_dir = "[^"]*"', f'data_dir = "{tmp_path}"', text)
    config = loads(text, "pasted.toml")
    async with contextlib.AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(actors.open_node(config, name)) for name in config.nodes
        ]
        with trio.fail_after(60):
            assert (await opened[0].log("orders").append([b"one"])).count == 1


@pytest.mark.real_io
def test_the_embedded_program_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = blocks("toml")[0].replace("10912", str(free_port()))
    (tmp_path / "cluster.toml").write_text(one)
    monkeypatch.chdir(tmp_path)
    (code,) = [block for block in blocks("python") if "open_node" in block]
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == "[b'one', b'two', b'three']\n"


def test_the_actors_alone_crash_as_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = [block for block in blocks("python") if "DynamicSpec" in block]
    assert len([line for line in code.splitlines() if line]) <= 25
    with pytest.raises(BaseExceptionGroup) as ended:
        exec(compile(code, "README.md", "exec"), {})
    assert ended.group_contains(RestartIntensityExceeded)
    out = capsys.readouterr().out
    for line in ("/team/a#1: 4", "/team/b#2: 3", "/team/more/c#1: 2", "b#2 [Worker] restarts=1"):
        assert line in out


def test_the_test_of_the_readme_passes(tmp_path: Path) -> None:
    """With pytest, in a folder of its own."""
    (code,) = [block for block in blocks("python") if "pytest_plugins" in block]
    plugin, _, test = code.partition("\n\n\n")
    (tmp_path / "conftest.py").write_text(
        "\n".join(line for line in plugin.splitlines() if line.startswith("pytest_plugins"))
    )
    (tmp_path / "test_one.py").write_text(f"import trio\n\n{test}")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntrio_mode = true\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_checkouts_settings_need_no_plugin_that_is_not_named() -> None:
    """Whoever tries the test in a checkout gets its settings, which may name a plugin's options."""
    example = "examples/test_with_virtual_clock.py"
    texts = [(ROOT / name).read_text() for name in ("README.md", example)]
    said, too = (set(re.findall(r"pytest-\w+", text)) for text in texts)
    assert said == too
    plugins = {
        f"-p{found.value}"
        for package in said
        for found in importlib.metadata.distribution(package).entry_points
        if found.group == "pytest11"
    }
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", *sorted(plugins), example]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_public_name_is_loaded_on_demand() -> None:
    for name in actors.__all__:
        assert getattr(actors, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = actors.nothing


def test_development_versions_meet_the_lower_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    pinned = {
        name.lower().replace("_", "-"): version
        for name, version in re.findall(
            r"^(\S+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M
        )
    }
    for requirement in (one for group in groups for one in group):
        found = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)(?:,<([\d.]+))?(?:;.*)?", requirement)
        assert found, requirement
        assert parts(found[2]) <= parts(pinned[found[1].lower()]) < parts(found[3] or "9999")


def parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
