"""SIGKILLs of a streaming job at random moments while files arrive; then it finishes in peace.

    python tests/pipeline/bronze_kills.py --kills 6 --seed 1
    python tests/pipeline/bronze_kills.py --of watch --kills 6 --seed 1

The job, its Java and all, is one process group. Each life is killed at a random moment after it has
begun a batch, so that starting Java, which takes longest, is not all that is ever killed. What is
found at the end is held against what was written, by (node, boot, seq), and read without Spark.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
import pyarrow.parquet
from alarms_kit import publish
from lines_kit import Boot

from actors.events.dledger import RoleChanged
from actors.events.node import NodeStarted
from actors.pipeline import bronze
from actors.pipeline.alarms import watch
from actors.pipeline.alarms.limits import Limits
from actors.pipeline.locations import Location
from actors.pipeline.session import Profile, open_session

NODES = ("n0", "n1", "n2")
EVENTS_PER_FILE = 200
FILES_PER_LIFE = 24
FILES_PER_BATCH = 3
BYTES_PER_BATCH = 10_000
"""Some three files."""
LOOK_S = 0.1
BEGIN_S = 400
"""For a life's first batch. Java alone takes five seconds, and a minute on a busy machine."""
MOMENT_S = 2.0
"""A life is killed so long after its first batch began, at most."""
JOBS = ("bronze", "watch")
_CHECKPOINT = {
    "bronze": Path(bronze.LAYER, bronze.CHECKPOINT),
    "watch": Path(watch.LAYER, watch.STREAM, "checkpoint"),
}


@attrs.define
class Feed:
    """Nodes whose files arrive one by one. Each becomes the leader of each term: an alarm.

    Attributes:
        keys: (node, boot, seq) of all events.
        terms: said so far, by node.
    """

    data: Path
    keys: list[tuple[str, int, int]] = attrs.field(factory=list)
    terms: Counter[str] = attrs.field(factory=Counter)
    boots: dict[str, Boot] = attrs.field(factory=lambda: {name: Boot(name) for name in NODES})
    files: int = 0

    def one(self) -> None:
        """The next node's next file, renamed into its place as a node does it."""
        boot = self.boots[NODES[self.files % len(NODES)]]
        self.files += 1
        if boot.seq == 1:
            boot.say(0, "", NodeStarted(cluster="c", version="1", groups=("g",)))
        for _ in range(EVENTS_PER_FILE):
            term = self.terms[boot.node] = self.terms[boot.node] + 1
            event = RoleChanged(session=term, role="LEADER", term=term, leader=boot.node)
            boot.say(term / 100, "g/x", event)
        self.keys += [(boot.node, boot.boot, json.loads(line)["seq"]) for line in boot.lines]
        publish(self.data, boot)


@attrs.frozen(kw_only=True)
class Life:
    """One life of the job, up to its kill.

    Attributes:
        after_s: since its first batch began.
        begun, done: batches of the checkpoint; a batch between them is done again.
        files: that had arrived.
    """

    after_s: float
    begun: int
    done: int
    files: int


@attrs.frozen(kw_only=True)
class Outcome:
    """What was to be found, and what was found.

    Attributes:
        expected: one for each key.
        found: how often each was found.
    """

    lives: tuple[Life, ...]
    expected: Counter[object]
    found: Counter[object]

    @property
    def missing(self) -> int:
        return (self.expected - self.found).total()

    @property
    def surplus(self) -> int:
        return (self.found - self.expected).total()


def run(folder: Path, job: str, kills: int, rng: random.Random) -> Outcome:
    """Feed, start, kill, and so on; then let one life finish."""
    feed, out, stop = Feed(folder / "data"), folder / "out", folder / "stop"
    checkpoint = out / _CHECKPOINT[job]
    for _ in NODES:
        feed.one()
    lives = [_life(folder, job, feed, checkpoint, rng) for _ in range(kills)]
    stop.touch()
    with _started(folder, job) as process:
        if process.wait(BEGIN_S):
            raise RuntimeError(f"the last life failed: {(folder / 'job.log').read_text()}")
    expected, found = _bronze(feed, out) if job == "bronze" else _alarms(feed, out)
    return Outcome(lives=tuple(lives), expected=expected, found=found)


@contextlib.contextmanager
def _started(folder: Path, job: str) -> Iterator[subprocess.Popen[bytes]]:
    """The job in a process group of its own, which is gone at the end, however that comes."""
    words = [sys.executable, __file__, "--job", job, "--folder", str(folder)]
    with (folder / "job.log").open("ab") as log:
        process = subprocess.Popen(words, start_new_session=True, stdout=log, stderr=log)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _life(folder: Path, job: str, feed: Feed, checkpoint: Path, rng: random.Random) -> Life:
    after_s = rng.uniform(0, MOMENT_S)
    before, files = _batches(checkpoint / "offsets"), feed.files
    with _started(folder, job) as process:
        deadline = time.monotonic() + BEGIN_S
        while _batches(checkpoint / "offsets") == before:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no batch began: {(folder / 'job.log').read_text()}")
            _feed_and_wait(feed, files)
        deadline = time.monotonic() + after_s
        while (left_s := deadline - time.monotonic()) > 0:
            _feed_and_wait(feed, files, left_s)
    return Life(
        after_s=after_s,
        begun=_batches(checkpoint / "offsets"),
        done=_batches(checkpoint / "commits"),
        files=feed.files,
    )


def _feed_and_wait(feed: Feed, before: int, left_s: float = LOOK_S) -> None:
    if feed.files < before + FILES_PER_LIFE:
        feed.one()
    time.sleep(min(LOOK_S, left_s))


def _batches(folder: Path) -> int:
    return sum(path.name.isdigit() for path in folder.iterdir()) if folder.is_dir() else 0


def _bronze(feed: Feed, out: Path) -> tuple[Counter[object], Counter[object]]:
    """Every folder as it is, without asking Spark which files in it count."""
    found: Counter[object] = Counter()
    for path in (out / bronze.LAYER / "events").rglob("*.parquet"):
        table = pyarrow.parquet.ParquetFile(path).read(columns=["node", "boot", "seq"])
        found.update(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return Counter(feed.keys), found


def _alarms(feed: Feed, out: Path) -> tuple[Counter[object], Counter[object]]:
    """Of each term, one alarm for each leader that is not the first."""
    ranks = (range(1, feed.terms[node] + 1) for node in NODES)
    leaders = Counter(term for rank in ranks for term in rank)
    expected = Counter({term: count - 1 for term, count in leaders.items() if count > 1})
    folder = out / watch.LAYER / watch.STREAM / "findings"
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return Counter(expected), Counter(json.loads(line)["value"] for line in lines)


def work(folder: Path, job: str) -> None:
    """A life of the job: all that is there, again and again, until `stop` is there."""
    data, out = Location(str(folder / "data")), Location(str(folder / "out"))
    spark = open_session(Profile.TEST, scratch=folder / "scratch")
    is_last = False
    while not is_last:
        is_last = (folder / "stop").exists()
        if job == "bronze":
            bronze.ingest(spark, data, out, lambda _: None, BYTES_PER_BATCH)
        else:
            with watch.taken(data, out):
                watch.watch(spark, data, out, Limits(), lambda _: None, 0, FILES_PER_BATCH)
    spark.stop()


def lines(outcome: Outcome) -> Iterator[str]:
    """What happened, for people."""
    for number, life in enumerate(outcome.lives, 1):
        again = life.begun - life.done
        yield (
            f"kill {number}: {life.after_s:.2f} s after its first batch, {life.files} files had "
            f"arrived; {life.begun} batches begun, {again} to be done again"
        )
    yield (
        f"expected {outcome.expected.total():,}, found {outcome.found.total():,}: "
        f"{outcome.missing:,} missing, {outcome.surplus:,} too many"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of", choices=JOBS, default="bronze")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--job", choices=JOBS, help="be the job; for this script itself")
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    if asked.job:
        work(asked.folder, asked.job)
        return 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        outcome = run(Path(folder), asked.of, asked.kills, random.Random(asked.seed))
    for line in lines(outcome):
        print(line)
    return 1 if outcome.missing or outcome.surplus else 0


if __name__ == "__main__":
    sys.exit(main())
