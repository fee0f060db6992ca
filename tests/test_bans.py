"""House bans: whatever would make a run depend on more than its seed. One planted sample for each.

The rules look at the syntax tree of one file. Those about sets follow names that are annotated or
assigned as sets in the same function, and attributes that are so anywhere in the file.
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for top in ("actors", "wire")
    for path in (ROOT / top).rglob("*.py")
)

Finding = tuple[int, str]
Rule = Callable[[ast.Module], Iterator[Finding]]


@functools.lru_cache(maxsize=1)
def parsed(source: str) -> ast.Module:
    """The tree of a file. All rules look at one file before the next."""
    return ast.parse(source)


@functools.lru_cache(maxsize=1)
def all_nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a file, as `ast.walk` gives them."""
    return tuple(ast.walk(tree))


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every dotted name that is imported: modules, and members as module.member."""
    for node in all_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an attribute chain, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def names(*banned: str, but: tuple[str, ...] = ()) -> Rule:
    """Bans importing or naming these dotted names, and everything below them."""

    def hit(name: str) -> bool:
        if any(name == good or name.startswith(f"{good}.") for good in but):
            return False
        return any(name == bad or name.startswith(f"{bad}.") for bad in banned)

    def rule(tree: ast.Module) -> Iterator[Finding]:
        for line, name in imports(tree):
            if hit(name):
                yield line, name
        for node in all_nodes(tree):
            if isinstance(node, ast.Attribute) and hit(dotted(node)):
                yield node.lineno, dotted(node)

    return rule


def random_functions(tree: ast.Module) -> Iterator[Finding]:
    for line, name in imports(tree):
        if name.startswith("random.") and name != "random.Random":
            yield line, name
    for node in all_nodes(tree):
        name = dotted(node) if isinstance(node, ast.Attribute) else ""
        if name.startswith("random.") and name.split(".")[1] != "Random":
            yield node.lineno, name  # type: ignore[attr-defined]


def async_generators(tree: ast.Module) -> Iterator[Finding]:
    for node in all_nodes(tree):
        if isinstance(node, ast.AsyncFunctionDef):
            managed = any("asynccontextmanager" in ast.dump(d) for d in node.decorator_list)
            if not managed and any(isinstance(n, ast.Yield) for n in own_nodes(node)):
                yield node.lineno, f"async generator {node.name}"
        elif isinstance(node, ast.GeneratorExp) and any(g.is_async for g in node.generators):
            yield node.lineno, "async generator expression"


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function or module without those of functions inside it."""
    todo = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, FUNCTIONS):
            todo.extend(ast.iter_child_nodes(node))


SET_TYPES = ("set", "frozenset", "AbstractSet", "MutableSet")
ORDER_FREE = ("sorted", "set", "frozenset", "any", "all", "sum", "min", "max", "len")
ORDERED = ("list", "tuple", "enumerate", "iter", "map", "filter", "zip", "dict", "deque")


def is_set_type(annotation: ast.AST | None) -> bool:
    if isinstance(annotation, ast.Subscript):
        if dotted(annotation.value) == "ClassVar":
            return is_set_type(annotation.slice)
        annotation = annotation.value
    return annotation is not None and dotted(annotation).rsplit(".", 1)[-1] in SET_TYPES


def makes_set(value: ast.AST | None) -> bool:
    if isinstance(value, (ast.Set, ast.SetComp)):
        return True
    if not isinstance(value, ast.Call):
        return False
    factory = next((k.value for k in value.keywords if k.arg == "factory"), value.func)
    return dotted(factory) in ("set", "frozenset")


def set_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Names ("x") and attributes (".x") that hold sets."""
    found = set()
    for node in nodes:
        targets: list[ast.expr] = []
        if isinstance(node, ast.AnnAssign) and is_set_type(node.annotation):
            targets = [node.target]
        elif isinstance(node, ast.Assign) and makes_set(node.value):
            targets = node.targets
        elif isinstance(node, ast.arg) and is_set_type(node.annotation):
            found.add(node.arg)
        for target in targets:
            if isinstance(target, ast.Name):
                found.add(target.id)
            elif isinstance(target, ast.Attribute):
                found.add(f".{target.attr}")
    return found


def is_set(node: ast.AST, known: set[str]) -> bool:
    if makes_set(node):
        return True
    if isinstance(node, ast.Name):
        return node.id in known
    if isinstance(node, ast.Attribute):
        return f".{node.attr}" in known or node.attr == "child_tasks"
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitOr, ast.BitAnd, ast.Sub)):
        return is_set(node.left, known) or is_set(node.right, known)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("union", "intersection", "difference", "symmetric_difference")
    )


def set_iteration(tree: ast.Module) -> Iterator[Finding]:
    everything = all_nodes(tree)
    fields = {
        f".{name}" if not name.startswith(".") else name
        for node in everything
        if isinstance(node, ast.ClassDef)
        for name in set_names(list(node.body))
    }
    fields |= {name for name in set_names(everything) if name.startswith(".")}
    scopes = [tree, *(node for node in everything if isinstance(node, FUNCTIONS))]
    for scope in scopes:
        nodes = list(own_nodes(scope))
        known = fields | set_names(nodes)
        if isinstance(scope, FUNCTIONS):
            known |= set_names(list(ast.walk(scope.args)))
        yield from iterations(nodes, known)


def iterations(nodes: list[ast.AST], known: set[str]) -> Iterator[Finding]:
    harmless: set[ast.AST] = {node for node in nodes if isinstance(node, ast.SetComp)}
    for node in nodes:
        if isinstance(node, ast.Call) and dotted(node.func) in ORDER_FREE:
            harmless.update(node.args)
    for node in nodes:
        if isinstance(node, (ast.For, ast.AsyncFor)):
            sources = [node.iter]
        elif isinstance(node, (ast.ListComp, ast.DictComp, ast.GeneratorExp)):
            sources = [] if node in harmless else [part.iter for part in node.generators]
        elif isinstance(node, ast.Call):
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            ordered = dotted(node.func) in ORDERED or method == "join"
            sources = node.args if ordered else []
            if method == "pop" and not node.args and isinstance(node.func, ast.Attribute):
                sources = [node.func.value]
        elif isinstance(node, ast.Starred):
            sources = [node.value]
        else:
            sources = []
        for source in sources:
            if is_set(source, known):
                yield source.lineno, f"the order of {ast.unparse(source)}"


def order_by_identity(tree: ast.Module) -> Iterator[Finding]:
    for node in all_nodes(tree):
        for keyword in node.keywords if isinstance(node, ast.Call) else []:
            used = {dotted(part) for part in ast.walk(keyword.value)}
            if keyword.arg == "key" and used & {"id", "hash"}:
                yield node.lineno, ast.unparse(keyword.value)  # type: ignore[attr-defined]


def catch_all(tree: ast.Module) -> Iterator[Finding]:
    """Tidying up when anything goes wrong is for `finally` and `ExitStack`."""
    for node in all_nodes(tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = {dotted(part) for part in ast.walk(node.type)} if node.type is not None else set()
        if node.type is None or "BaseException" in caught:
            yield node.lineno, "except BaseException"


def plain_files(tree: ast.Module) -> Iterator[Finding]:
    for node in all_nodes(tree):
        if isinstance(node, ast.Call) and dotted(node.func) in ("open", "io.open", "os.open"):
            yield node.lineno, ast.unparse(node.func)


def private_trio(tree: ast.Module) -> Iterator[Finding]:
    used = [(line, name) for line, name in imports(tree)]
    used += [(n.lineno, dotted(n)) for n in all_nodes(tree) if isinstance(n, ast.Attribute)]
    for line, name in used:
        parts = name.split(".")
        if parts[0] == "trio" and any(part.startswith("_") for part in parts[1:]):
            yield line, name


OUTSIDE_A_NODE = (
    "actors/client/*",
    "actors/cluster/*",
    "actors/*/__main__.py",
    "actors/*/command_line.py",
    "actors/pipeline/*",
)
"""Commands around a node: they may touch the machine, nothing of theirs is ever simulated."""

# Rule, what is wrong with it, the marked files in which it may be broken.
BANS: dict[str, tuple[Rule, tuple[str, ...]]] = {
    "wall clock": (names("time"), ("actors/env/real.py", "actors/pipeline/clock.py")),
    "datetime.now": (
        names("datetime.now", "datetime.today", "datetime.utcnow", "date.today",
              "datetime.datetime.now", "datetime.datetime.today", "datetime.datetime.utcnow",
              "datetime.date.today"),
        (),
    ),
    "random functions": (random_functions, ("actors/env/real.py",)),
    "entropy": (names("os.urandom", "os.getrandom", "secrets", "uuid"), ("actors/*/*_secrets.py",)),
    "threads": (
        names("threading", "_thread", "concurrent", "multiprocessing", "trio.to_thread",
              "trio.from_thread"),
        # Names' lookups; the terminal's writer; a pipe's reader; the feeder's own synced record;
        # two queries of Spark.
        ("actors/env/local_disk.py", "actors/env/sync_workers.py", "actors/env/tcp.py",
         "actors/cluster/painter.py", "actors/client/lines.py", "actors/cluster/feed_record.py",
         "actors/pipeline/side_by_side.py"),
    ),
    "trio files": (names("trio.Path", "trio.open_file", "trio.wrap_file"), ()),
    "plain files": (
        plain_files,
        ("actors/env/local_*.py", "actors/env/file_kinds.py", "actors/config/*", *OUTSIDE_A_NODE),
    ),
    "sockets": (
        names("socket", "trio.socket", "trio.open_tcp_stream", "trio.open_unix_socket",
              "trio.open_tcp_listeners", "trio.serve_tcp", "trio.SocketStream",
              "trio.SocketListener"),
        ("actors/env/tcp.py",),
    ),
    "asyncio": (names("asyncio"), ()),
    "async generators": (async_generators, ()),
    "order of a set": (set_iteration, ()),
    "order by identity": (order_by_identity, ()),
    "except everything": (catch_all, ()),
    "private trio": (private_trio, ("actors/sim/scheduler.py",)),
}  # fmt: skip


def findings(ban: str, source: str) -> list[str]:
    rule, _ = BANS[ban]
    return [f"line {line}: {what}" for line, what in rule(parsed(source))]


@pytest.mark.parametrize("path", SOURCES)
def test_no_ban_is_broken(path: str) -> None:
    source = (ROOT / path).read_text()
    broken = [
        f"{path}: {ban}: {finding}"
        for ban, (_, marked) in BANS.items()
        if not any(fnmatch(path, pattern) for pattern in marked)
        for finding in findings(ban, source)
    ]
    assert broken == []


PLANTED = {
    "wall clock": ["import time", "from time import monotonic", "import time as t"],
    "datetime.now": [
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime\nx = datetime.now()",
        "from datetime import date\nx = date.today()",
    ],
    "random functions": [
        "import random\nrandom.random()",
        "import random\nx = random.SystemRandom()",
        "from random import shuffle",
    ],
    "entropy": ["import os\nos.urandom(3)", "import secrets", "from uuid import uuid4"],
    "threads": [
        "import threading",
        "from concurrent.futures import Future",
        "import trio\nawait_ = trio.to_thread.run_sync(f)",
    ],
    "trio files": ["import trio\ntrio.Path('x')", "from trio import open_file"],
    "plain files": ["open('x')", "import os\nos.open('x', 0)"],
    "sockets": [
        "import socket",
        "import trio\ntrio.socket.socket()",
        "import trio\nx = trio.open_tcp_stream('h', 1)",
    ],
    "asyncio": ["import asyncio"],
    "async generators": [
        "async def f():\n    yield 1",
        "def f(x):\n    return (i async for i in x)",
    ],
    "order of a set": [
        "for x in {1, 2}: pass",
        "def f(names: set[str]):\n    return [n for n in names]",
        "x = set()\ny = list(x)",
        "x: frozenset[int] = g()\ny = [*x]",
        "class A:\n    def f(self):\n        self.x = set()\n"
        "    def g(self):\n        self.x.pop()",
        "@define\nclass A:\n    x: set[int] = field(factory=set)\n"
        "    def g(self):\n        for y in self.x: pass",
        "for task in nursery.child_tasks: pass",
        "x = {1}\n','.join(x - y)",
        "for x in a.union(b): pass",
    ],
    "order by identity": ["sorted(x, key=id)", "x.sort(key=lambda y: (1, hash(y)))"],
    "except everything": [
        "try: pass\nexcept: pass",
        "try: pass\nexcept (ValueError, BaseException): pass",
        "try: pass\nexcept BaseException: raise ValueError",
        "try: pass\nexcept BaseException:\n    file.close()\n    raise",
        "async def f():\n    try: pass\n"
        "    except BaseException:\n        await g()\n        raise",
    ],
    "private trio": ["import trio._core", "from trio._core import _run", "import trio\ntrio._x"],
}


@pytest.mark.parametrize("ban", BANS)
def test_every_ban_finds_its_planted_samples(ban: str) -> None:
    for sample in PLANTED[ban]:
        assert findings(ban, sample), sample


ALLOWED = {
    "datetime.now": "from datetime import datetime\ndatetime.fromtimestamp(1)",
    "random functions": "import random\nrng = random.Random(1)\nrng.shuffle(x)",
    "async generators": "@asynccontextmanager\nasync def f():\n    yield 1",
    "order of a set": "x = {1}\nfor y in sorted(x): pass\nany(z for z in x)\n{a for a in x}\n"
    "d = {}\nfor y in d: pass\n{}.pop('k')\nlen(x)",
    "except everything": "try: pass\nexcept Exception: pass\nfinally: file.close()",
    "wall clock": "import datetime",
    "private trio": "import trio\ntrio.lowlevel.current_task()\nself._trio",
}


@pytest.mark.parametrize("ban", ALLOWED)
def test_what_is_allowed_is_not_found(ban: str) -> None:
    assert findings(ban, ALLOWED[ban]) == []


def test_marked_files_need_their_mark() -> None:
    """A mark that nothing needs any more is removed. Patterns of whole rooms are left out."""
    for ban, (_, marked) in BANS.items():
        for path in marked:
            if path in SOURCES:
                assert findings(ban, (ROOT / path).read_text()), f"{ban}: {path}"


def test_builtin_names_are_what_the_rules_think() -> None:
    for name in (*ORDER_FREE, "id", "hash", "open"):
        assert hasattr(builtins, name)
