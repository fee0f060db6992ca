"""Reading files, defaults, and what the classes derive."""

from __future__ import annotations

import inspect
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors import config
from actors.config import bounds, load, loads, members, model, validate
from actors.errors import ConfigError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests" / "three_nodes.toml"
MAKE_RUN = ROOT / "examples" / "3node.toml"
FIVE = ROOT / "examples" / "dledger5.toml"
AMONG_BROKERS = ROOT / "examples" / "among_brokers.toml"


def test_example() -> None:
    found = load(MAKE_RUN)
    orders, ledger = found.groups["orders"], found.groups["ledger"]
    assert found.data_dir == str(ROOT / "var" / "demo")
    assert dict(found.nodes) == {"n0": "127.0.0.1", "n1": "127.0.0.2", "n2": "127.0.0.3"}
    assert (orders.name, orders.master, orders.members) == ("orders", "n0", ("n0", "n1", "n2"))
    assert (orders.copies, orders.durability, orders.port) == (2, "synced", 10912)
    assert orders.segment_bytes == 64 << 20
    assert found.demo.feed == config.FeedConfig(file=str(ROOT / "README.md"), rate_per_s=2000)
    assert found.path == str(MAKE_RUN)
    assert found.node_dir("n1") == str(ROOT / "var" / "demo" / "n1")
    assert found.group_dir("n1", "orders") == str(ROOT / "var/demo/n1/groups/orders")
    assert found.groups_of("n2") == (orders, ledger)
    assert (ledger.mode, ledger.members, ledger.port) == ("dledger", ("n0", "n1", "n2"), 20911)
    assert (ledger.durability, ledger.opens_term_with) == ("synced", "empty")


def test_the_example_with_five_members() -> None:
    found = load(FIVE)
    (ledger,) = found.groups.values()
    assert isinstance(ledger, config.DLedgerGroup)
    assert (ledger.members, ledger.quorum) == (("n0", "n1", "n2", "n3", "n4"), 3)
    assert ledger.members == tuple(found.nodes) == found.python_nodes
    assert len(set(found.nodes.values())) == 5
    assert (ledger.durability, ledger.opens_term_with) == ("synced", "empty")
    other = load(MAKE_RUN)
    assert found.data_dir != other.data_dir  # both run at once
    assert ledger.port not in {group.port for group in other.groups.values()}


def test_among_brokers() -> None:
    """The broker's settings in its comment name the group that it is."""
    found = load(AMONG_BROKERS)
    (group,) = found.groups.values()
    assert isinstance(group, config.DLedgerGroup)
    assert found.python_nodes == ("n0",)
    assert (group.java_nodes, group.standing) == (("n1", "n2"), ("n1", "n2"))
    text = AMONG_BROKERS.read_text()
    brokers = dict(re.findall(r"^#   (\w+)=(\S+)$", text, re.MULTILINE))
    peers = ";".join(f"{name}-{host}:{group.port}" for name, host in found.nodes.items())
    assert (brokers["dLegerGroup"], brokers["dLegerPeers"]) == (group.name, peers)
    assert brokers["dLegerSelfId"] in group.java_nodes
    assert brokers["enableDLegerCommitLog"] == "true"
    assert group.data_file_bytes == 1 << 30


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a" / "c.toml"
    file.parent.mkdir()
    file.write_text(EXAMPLE.read_text())
    monkeypatch.chdir(tmp_path)
    assert load("a/c.toml").data_dir == str(tmp_path / "var" / "demo")
    file.write_text(EXAMPLE.read_text().replace('"../var/demo"', '"/srv/x"'))
    assert load("a/c.toml").data_dir == "/srv/x"


def listen_at(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda path: None, "expected a cluster file, found no such file"),
        (lambda path: path.mkdir(), "expected a cluster file, found is a directory"),
        (listen_at, "expected a cluster file, found a node's socket: only the client takes it"),
        (lambda path: path.write_bytes(b"\xff"), "expected UTF-8, found other bytes at 0"),
        (
            lambda path: path.write_bytes(b"#" * (bounds.CONFIG_BYTES_MAX + 1)),
            "expected at most 1048576 bytes, found more",
        ),
    ],
)
def test_file_that_cannot_be_read(tmp_path: Path, make: object, found: str) -> None:
    file = tmp_path / "c.toml"
    make(file)  # type: ignore[operator]
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert caught.value.problems == (f"{file}: {found}",)


def test_a_file_of_the_greatest_size(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    text = EXAMPLE.read_text()
    file.write_text(text.ljust(bounds.CONFIG_BYTES_MAX, "#"))
    assert load(file).name == "demo"


@pytest.mark.parametrize("name", ["a\0b", "a\nb"])
def test_file_name_that_is_none(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(name)
    [line] = caught.value.problems
    assert line.isprintable()
    assert "no such file" in line


def test_defaults_follow_the_slaves_and_the_segment() -> None:
    alone = model.ClassicGroup(name="g", master="n0")
    assert (alone.copies, alone.max_message_bytes) == (1, 4 << 20)
    pair = model.ClassicGroup(name="g", master="n0", slaves=("n1",), segment_bytes=1 << 20)
    assert (pair.copies, pair.max_message_bytes) == (2, 1 << 19)
    assert pair.slaves == (members.SlaveNode("n1"),)


def test_java_members() -> None:
    text = EXAMPLE.read_text()
    java_slave = loads(text.replace('"n2"]', '{ node = "n2", kind = "java" }]'), "f")
    orders = java_slave.groups["orders"]
    assert orders.java_nodes == ("n2",)
    assert orders.counting_nodes == ("n0", "n1")
    assert attrs.evolve(orders, durability="written").counting_nodes == ("n0", "n1", "n2")
    assert java_slave.python_nodes == ("n0", "n1")
    # A Java master decides by itself: our default of `copies` cannot be wrong there.
    java_master = text.replace('master = "n0"', 'master = { node = "n0", kind = "java" }')
    found = loads(java_master.replace("copies = 2", ""), "f")
    assert found.groups["orders"].master == "n0"
    assert found.python_nodes == ("n1", "n2")


def test_addresses_are_canonical() -> None:
    text = EXAMPLE.read_text().replace("127.0.0.1", "::3").replace("127.0.0.2", "::2")
    assert loads(text.replace("127.0.0.3", "0:0::0001"), "f").nodes["n2"] == "::1"


def test_a_mark_of_the_encoding_is_no_key(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.read_bytes())
    assert load(file).name == load(EXAMPLE).name


@pytest.mark.real_io
def test_a_folder_that_the_locale_has_no_characters_for_is_one_line(tmp_path: Path) -> None:
    """Its nodes could not name it in their events."""
    folder = tmp_path / "t\N{LATIN SMALL LETTER U WITH DIAERESIS}"
    folder.mkdir()
    file = folder / "c.toml"
    file.write_text(re.sub("data_dir = .*", 'data_dir = "var"', EXAMPLE.read_text()))
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "actors.cli", "check", str(file)],
        env=env,
        cwd=Path(__file__).parents[2],
        capture_output=True,
    )
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert b"key data_dir: expected a name in ASCII while the locale's encoding is ascii" in line
    assert b"(or set LC_ALL=C.UTF-8)" in line
    assert (
        subprocess.run(
            [sys.executable, "-m", "actors.cli", "check", str(file)],
            env={**env, "LC_ALL": "C.UTF-8"},
            cwd=Path(__file__).parents[2],
            capture_output=True,
        ).returncode
        == 0
    )


def test_an_integer_is_a_number() -> None:
    found = loads(EXAMPLE.read_text().replace("copies = 2", "slave_timeout_s = 2"), "f")
    assert repr(found.groups["orders"].slave_timeout_s) == "2.0"


def test_everything_is_frozen() -> None:
    found = load(EXAMPLE)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        found.name = "x"  # type: ignore[misc]
    with pytest.raises(TypeError):
        found.nodes["n9"] = "127.0.0.9"  # type: ignore[index]


def test_a_program_is_held_to_the_same_limits() -> None:
    with pytest.raises(bounds.Mismatch, match="expected an integer from 1 to 65535, found 0"):
        model.ClassicGroup(name="g", master="n0", port=0)
    with pytest.raises(bounds.Mismatch, match="found True"):
        model.ClassicGroup(name="g", master="n0", port=True)
    group = model.ClassicGroup(name="g", master="n9")
    made = model.ClusterConfig(name="c", data_dir="/d", nodes={"n0": "::1"}, groups={"g": group})
    with pytest.raises(ConfigError, match=r"<config>: key groups.g.master: expected one of"):
        validate(made)
    validate(attrs.evolve(made, nodes={"n9": "::1"}))


CONFIG_CLASSES = [
    model.AutoSwitchGroup,
    model.ClassicGroup,
    model.ClusterConfig,
    model.EventsConfig,
    model.FeedConfig,
    model.DemoConfig,
    members.SlaveNode,
    members.MasterNode,
]


@pytest.mark.parametrize("cls", CONFIG_CLASSES, ids=lambda cls: cls.__name__)
def test_every_key_is_documented(cls: type) -> None:
    texts = "\n".join(inspect.getdoc(each) or "" for each in cls.__mro__[:-1])
    described = set(re.findall(r"^ {4,8}(\w+): ", texts, re.MULTILINE))
    fields = {field.name for field in attrs.fields(cls)}
    assert fields <= described | {"feed"}
    assert described <= fields


@pytest.mark.parametrize("cls", CONFIG_CLASSES, ids=lambda cls: cls.__name__)
def test_every_number_has_limits(cls: type) -> None:
    attrs.resolve_types(cls)
    for field in attrs.fields(cls):
        if field.type in (int, float):
            assert isinstance(field.validator, bounds.Within), field.name


def test_the_frame_limit_is_the_wire_s() -> None:
    from wire.ha.classic import FRAME_BODY_MAX

    assert bounds.FRAME.high == FRAME_BODY_MAX


LINES = EXAMPLE.read_text().splitlines()
VALUES = st.one_of(
    st.integers().map(str),
    st.floats().map(lambda value: str(value).replace("e", "e")),
    st.booleans().map(lambda value: str(value).lower()),
    st.text(max_size=8).map(lambda text: f'"{text}"'),
    st.sampled_from(
        ["[]", "{}", "[1]", '["n0"]', "[[]]", '[{ node = "n1" }]', "1979-05-27", "07:32:00", "''"]
    ),
)
KEYS = st.sampled_from(
    sorted({field.alias for cls in CONFIG_CLASSES for field in attrs.fields(cls)} | {"n0", "x"})
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """The example with lines dropped, repeated, moved, given other values, or cut to pieces."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 4))):
        where = draw(st.integers(0, len(lines) - 1))
        match draw(st.integers(0, 4)):
            case 0:
                lines.pop(where)
            case 1:
                lines.insert(where, f"{draw(KEYS)} = {draw(VALUES)}")
            case 2:
                lines[where] = lines[where].split("=")[0] + "= " + draw(VALUES)
            case 3:
                lines[where] = draw(st.text(max_size=12))
            case _:
                lines.insert(where, draw(st.sampled_from(["[nodes]", "[groups.b]", "[events]"])))
    return "\n".join(lines)


# The machine may be busy.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_any_text_gives_a_configuration_or_lines(text: str) -> None:
    problems: tuple[str, ...] = ()
    try:
        found = loads(text, "f.toml")
    except ConfigError as error:
        found, problems = None, error.problems
    if found is None:
        assert problems
        for line in problems:
            assert line.startswith("f.toml: ")
            assert line.isprintable()
            assert len(line) < 400
    else:
        validate(found)
        assert os.path.isabs(found.data_dir)
        assert {node for group in found.groups.values() for node in group.members} <= set(
            found.nodes
        )
