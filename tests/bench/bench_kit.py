"""What the measurements share: logs made to measure, our nodes, C programs, medians and ratios.

One measurement is made in rounds. In each round every contender has its turn, one after the other,
so that a machine whose speed drifts treats them alike. Medians of the rounds are printed as a table
with ratios, each with the least and the greatest behind it, and each line once more as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "interop"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "kills"))

import attrs
import trio
from interop_nodes import GROUP, write_cluster
from interop_processes import Process, Processes

from actors.env.local_disk import LocalDisk
from actors.storage.commitlog.group_commit import AppendEncoder
from actors.storage.log.commit_log import CommitLog
from actors.version import VERSION

HERE = Path(__file__).resolve().parent
ROUNDS = 5
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}
SEGMENT_BYTES = 1 << 30  # our default and upstream's
HA_PORT = 23_912
NODES = tuple(f"n{number}" for number in range(5))
WARM_BYTES_MAX = 4 << 30
GROUP_BYTES = 4 << 20
"""Of records, encoded and written at once when a log is made to measure."""
STOP_TIMEOUT_S = 60.0


def bytes_of(text: str) -> int:
    """ "2GB", "256KiB", "16K" or a plain number."""
    unit = text.upper().removesuffix("B").lstrip("0123456789.")
    if unit not in UNITS:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a size such as 2GB, 256KiB or 16384")
    number = text.upper().removesuffix("B").removesuffix(unit)
    return int(float(number) * UNITS[unit])


def list_of(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Comma-separated values, for argparse."""
    return lambda text: [kind(word) for word in text.split(",")]


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """A parser with what every measurement takes."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the files go"
    )
    parser.add_argument("--host", default="127.0.25", help="first three numbers of the addresses")
    return parser


# ---- figures ----


@attrs.define
class Figures:
    """The figures of one table, by row and contender; each a list with one entry per round."""

    title: str
    columns: Sequence[str]
    rows: dict[str, list[dict[str, float]]] = attrs.field(factory=dict)

    def add(self, row: str, **figures: float) -> None:
        self.rows.setdefault(row, []).append(figures)
        shown = "  ".join(f"{name} {figure:.4g}" for name, figure in figures.items())
        print(f"    {self.title} | {row}: {shown}", file=sys.stderr, flush=True)

    def found(self, row: str, column: str) -> list[float]:
        """In the order of the rounds."""
        return [one[column] for one in self.rows.get(row, []) if column in one]

    def median(self, row: str, column: str) -> float | None:
        found = self.found(row, column)
        return statistics.median(found) if found else None

    def spread(self, row: str, column: str) -> tuple[float, float] | None:
        """The least and the greatest; None: there are not two."""
        found = self.found(row, column)
        return (min(found), max(found)) if len(found) > 1 else None

    def ratio(self, row: str, other: str, column: str) -> float | None:
        """The median over the rounds of row / other, each round by itself."""
        pairs = zip(self.rows.get(row, []), self.rows.get(other, []), strict=False)
        found = [a[column] / b[column] for a, b in pairs if column in a and b.get(column)]
        return statistics.median(found) if found else None

    def cell(self, row: str, column: str) -> str:
        median, spread = self.median(row, column), self.spread(row, column)
        if median is None:
            return ""
        shown = "" if spread is None else f" ({spread[0]:.4g}-{spread[1]:.4g})"
        return f"{median:.4g}{shown}"

    def show(
        self,
        ratios: Sequence[tuple[str, str, str, str]] = (),
        floors: Sequence[tuple[str, str, str]] = (),
    ) -> None:
        """Print medians, then what was wanted of them.

        Args:
            ratios: (row, other row, column, what is wanted; "": nothing is).
            floors: (row, column, what is wanted).
        """
        cells = {row: [self.cell(row, name) for name in self.columns] for row in self.rows}
        widths = [
            max([12, len(name), *(len(each[at]) for each in cells.values())]) + 2
            for at, name in enumerate(self.columns)
        ]
        width = max([len(row) for row in self.rows] + [20])

        def line(head: str, words: Sequence[str]) -> str:
            columns = zip(words, widths, strict=True)
            return f"{head:{width}}" + "".join(f"{word:>{each}}" for word, each in columns)

        print(f"\n{self.title}\n{line('', self.columns)}")
        for row, runs in self.rows.items():
            print(line(row, cells[row]))
            medians = {name: self.median(row, name) for name in self.columns}
            told = {"table": self.title, "row": row, "rounds": len(runs), **medians}
            spreads = {name: self.spread(row, name) for name in self.columns}
            known = {name: spread for name, spread in spreads.items() if spread is not None}
            print("JSON " + json.dumps({**told, "spread": known}))
        for row, other, column, wanted in ratios:
            self._judge(f"{row} / {other}", [row, other, column], wanted)
        for row, column, wanted in floors:
            self._judge(row, [row, column], wanted)
        sys.stdout.flush()

    def _judge(self, what: str, of: list[str], wanted: str) -> None:
        """A line with a ratio (row, other, column) or a median (row, column); none without it."""
        found = self.ratio(*of) if len(of) == 3 else self.median(*of)
        if found is None:
            return
        goal = f"   (wanted: {wanted})" if wanted else ""
        print(f"{what}, {of[-1]}: {found:.2f}{goal}")
        told = {"table": self.title, "ratio" if len(of) == 3 else "figure": of}
        print("JSON " + json.dumps({**told, "median": round(found, 3), "wanted": wanted or None}))


def show_versions() -> None:
    found = {
        "triolog": VERSION,
        "python": platform.python_version(),
        "trio": trio.__version__,
        "build": f"{platform.python_compiler()}, {sys.executable}",
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }
    print("JSON " + json.dumps({"versions": found}), flush=True)


def percentiles_ms(latencies_s: Sequence[float]) -> dict[str, float]:
    """p50 and p99; neither, if there is no latency."""
    if not latencies_s:
        return {}
    ordered = sorted(latencies_s)
    return {
        "p50_ms": ordered[len(ordered) // 2] * 1e3,
        "p99_ms": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1e3,
    }


# ---- what is measured ----


@contextlib.contextmanager
def workplace(parent: Path) -> Iterator[tuple[Path, Processes]]:
    """A folder that vanishes with all in it, and processes that end before."""
    processes = Processes()
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=parent))
    try:
        yield folder, processes
    finally:
        processes.end()
        shutil.rmtree(folder)


def compiled(name: str, folder: Path) -> Path:
    """The C program `name`.c of this folder."""
    program = folder / name
    command = ["cc", "-O2", "-Wall", "-Wextra", "-pthread", "-o", program, HERE / f"{name}.c"]
    subprocess.run(command, check=True)
    return program


def settle(copies_bytes: int = 0) -> None:
    """Give every turn the same start: what earlier ones left in the page cache is written out.

    Args:
        copies_bytes: what the turn will write. So much memory is touched and freed, because on a
            virtual machine memory that its host took back costs ten times as much at first.
    """
    os.sync()
    size = min(copies_bytes, WARM_BYTES_MAX)
    if size:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


@contextlib.contextmanager
def standing_still(process: Process, copies_bytes: int) -> Iterator[None]:
    """In the block others start, who need `process`; it is stopped meanwhile, and goes on when the
    machine is settled. So neither their start nor what it does to the machine is measured.
    """
    process.pause()
    try:
        yield
        settle(copies_bytes)
    finally:
        process.resume()


def make_log(commitlog: Path, size_bytes: int, record_bytes: int, topic: str = GROUP) -> int:
    """Write a commit log of bodies of `record_bytes`; returns where it ends."""
    log = CommitLog.load(LocalDisk(), str(commitlog), SEGMENT_BYTES)
    encoder = AppendEncoder(
        default_topic=topic,
        host=("127.0.0.1", HA_PORT),
        segment_bytes=SEGMENT_BYTES,
        body_bytes_max=4 << 20,
        next_offsets={},
    )
    records = (b"x" * record_bytes,) * max(1, GROUP_BYTES // (record_bytes + 100))
    while log.written_bytes < size_bytes:
        batch = encoder.begin(log.written_bytes)
        encoder.add(batch, records, time.time_ns() // 1_000_000)
        for number, part in enumerate(batch.parts):
            if number:
                log.roll()
            log.append(part)
    log.close(remove_spare=True)
    os.sync()
    return log.written_bytes


def cluster_file(
    folder: Path,
    host: str,
    slaves: int,
    group: Mapping[str, object] | None = None,
    *,
    number: int = 0,
) -> Path:
    """A cluster of n0, the master, and so many slaves, with every size as it is by default.

    Args:
        number: clusters that run at the same time have different ones, and so other addresses.
    """
    names = NODES[: slaves + 1]
    settings = {
        "master": '"n0"',
        "slaves": "[" + ", ".join(f'"{name}"' for name in names[1:]) + "]",
        "port": HA_PORT,
        "segment_bytes": SEGMENT_BYTES,
        "consume_queue_bytes": 6_000_000,
        "index_slots_count": 5_000_000,
        "index_units_count": 20_000_000,
        **(group or {}),
    }
    first = number * len(NODES) + 1
    nodes = {name: f"{host}.{first + i}" for i, name in enumerate(names)}
    return write_cluster(folder, nodes, settings)


@attrs.define
class Node:
    """One of our nodes in a process of its own (`bench_node.py`), which does as it is told."""

    name: str
    cluster: Path
    process: Process

    @classmethod
    def start(cls, processes: Processes, cluster: Path, name: str, *words: str) -> Node:
        """Returns when the node is ready."""
        return cls._run(processes, cluster, name, ["bench_node.py", cluster, name, *words])

    @classmethod
    def launch(
        cls, processes: Processes, cluster: Path, name: str, words: Sequence[str | Path]
    ) -> Node:
        """A program of this folder and its words. Returns at once; its first answer: it is ready.

        To be called in a thread that lives as long as the process shall: it is killed with it.
        """
        command = [sys.executable, HERE / words[0], *words[1:]]
        pipe = subprocess.PIPE
        folder = cluster.parent / f"{name}-output"
        return cls(name, cluster, processes.start(name, command, folder, stdin=pipe, stdout=pipe))

    @classmethod
    def _run(
        cls, processes: Processes, cluster: Path, name: str, words: Sequence[str | Path]
    ) -> Node:
        node = cls.launch(processes, cluster, name, words)
        node.answer()
        return node

    @classmethod
    def client_of(cls, processes: Processes, node: Node) -> Node:
        """Not a node but its client, which obeys in the same way (`bench_client.py`)."""
        folder = node.store.parents[1]
        return cls._run(processes, node.cluster, "client", ["bench_client.py", folder])

    @property
    def store(self) -> Path:
        return self.cluster.parent / "data" / self.name / "groups" / GROUP

    def ask(self, do: str, **what: object) -> Any:
        self.begin(do, **what)
        return self.answer()

    def begin(self, do: str, **what: object) -> None:
        stdin = self.process.popen.stdin
        assert stdin is not None
        stdin.write(json.dumps({"do": do, **what}).encode() + b"\n")
        stdin.flush()

    def answer(self) -> Any:
        stdout = self.process.popen.stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            raise self.process.failed("ended")
        return json.loads(line)

    def kill(self) -> None:
        self.process.kill()

    def stop(self) -> None:
        """An ordered stop: it ends with its standard input."""
        popen = self.process.popen
        assert popen.stdin is not None
        popen.stdin.close()
        popen.wait(STOP_TIMEOUT_S)

    def memory_mb(self) -> dict[str, float]:
        """What the process holds now. `anon` is its own; the rest are pages of files."""
        text = Path(f"/proc/{self.process.popen.pid}/smaps_rollup").read_text()
        found = dict(line.split(":") for line in text.splitlines()[1:])
        names = {"rss": "Rss", "pss": "Pss", "anon": "Pss_Anon"}
        return {f"{name}_MB": int(found[key].split()[0]) / 1e3 for name, key in names.items()}


def master_with_log(
    folder: Path, processes: Processes, host: str, size_bytes: int, record_bytes: int
) -> tuple[Path, int]:
    """The store of a master n0 that holds a log made to measure, and the log's end."""
    fresh = Node.start(processes, cluster_file(folder, host, 1), "n0")
    fresh.kill()
    shutil.rmtree(fresh.store)
    return fresh.store, make_log(fresh.store / "commitlog", size_bytes, record_bytes)
