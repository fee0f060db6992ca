"""The same tables, verdicts and alarms wherever Spark runs, without a change of code.

    python tests/pipeline/clusters.py                       # a simulated day
    python tests/pipeline/clusters.py --data var/demo --on connect

| On | What |
|---|---|
| local | spark-submit --master local[2]: what the others are held against |
| standalone | spark-submit to a master and two workers, which the pip install has |
| connect | python -m actors.pipeline as a client of a Spark Connect server; needs grpcio |

All listen on 127.0.0.1 only and are gone at the end, also after an interrupt, SIGTERM or SIGHUP. Of
gold all is compared but the sketches' bytes, which depend on the order in which rows were merged.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import pyarrow.parquet
import pyspark
from logs_kit import simulate

from actors.pipeline import verdicts
from actors.pipeline.alarms import watch
from actors.pipeline.java import cache_folder, java_home
from actors.pipeline.session import CONF

ROOT = Path(__file__).parents[2]
HOME = Path(pyspark.__file__).parent
START_S = 300
STEP_S = 1200
LOG_MAX = 4000
"""Letters of a log in an error."""
WORKERS = 2
KINDS = ("local", "standalone", "connect")
LIMITS = ("--failover-s", "0.05", "--lag-bytes", "300", "--lag-entries", "3", "--stall-s", "0.7")
"""Which the simulated day is above."""
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
OPTIONS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.executor.memory": "600m",
}
_NOT_COMPARED = frozenset({"sketch"})
_DIFFER = frozenset({"seconds"})
"""What no two runs have in common, of verdicts."""
STEPS = ("audit", "watch")
"""Audits begin with bronze, silver and gold."""

Result: TypeAlias = dict[str, list[str]]  # table, "verdict NAME" or "alarms" -> its rows, sorted


@attrs.frozen(kw_only=True)
class Server:
    """One that runs.

    Attributes:
        log: all that it says.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raises: RuntimeError if it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended by itself: {self.last_words()}")

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-LOG_MAX:]


@attrs.frozen
class Machine:
    """Starts programs of Spark's, in an environment without anything of this machine's user."""

    folder: Path

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {
            **kept,
            "JAVA_HOME": str(java_home(os.environ, cache_folder(os.environ))),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [python_path()])]),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(CONF),
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOG_DIR": str(self.folder / "log"),
            "SPARK_PID_DIR": str(self.folder / "pid"),
            "SPARK_NO_DAEMONIZE": "1",
            **more,
        }

    @contextlib.contextmanager
    def running(self, name: str, words: Sequence[str]) -> Iterator[Server]:
        """A server in a process group of its own, killed at the end."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                words, env=self.environment(), start_new_session=True, stdout=file, stderr=file
            )
        server = Server(name=name, process=process, log=log)
        try:
            yield server
            server.check()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def run(self, step: str, words: Sequence[str], **more: str) -> None:
        """A step to its end. Raises: RuntimeError if it fails; a broken promise is none."""
        process = subprocess.Popen(
            words,
            env=self.environment(**more),
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            out, err = process.communicate(timeout=STEP_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if not is_done(step, process.returncode, err):
            raise RuntimeError(f"{' '.join(words)}: {process.returncode}\n{out[-2000:]}{err}")


def is_done(step: str, code: int, err: str) -> bool:
    """Whether a step came to its end: exit code 1 is a broken promise of the audits, or a failure.

    A failure says so, in one line of the pipeline's or in Python's own.
    """
    failed = any(line.startswith(("pipeline: ", "Traceback ")) for line in err.splitlines())
    return code == 0 or (step == "audit" and code == 1 and not failed)


def python_path() -> str:
    return os.environ.get("PYTHONPATH", "")


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def wait_for(server: Server, is_there: Callable[[], bool], wait_s: float = START_S) -> None:
    """Raises: RuntimeError if the server ends, or it takes too long; with what it has said."""
    deadline = time.monotonic() + wait_s
    while not is_there():
        server.check()
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"{server.name} was not there within {wait_s:g} s: {server.last_words()}"
            )
        time.sleep(0.3)


def listens(port: int) -> bool:
    with socket.socket() as made:
        return made.connect_ex(("127.0.0.1", port)) == 0


def workers_of(port: int) -> int:
    """How many workers a master's page names."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/", timeout=5) as page:
            return int(json.load(page)["aliveworkers"])
    except OSError:
        return 0


@contextlib.contextmanager
def standalone(machine: Machine) -> Iterator[str]:
    """A master with two workers of one core; gives its address."""
    port, page = free_port(), free_port()
    program = [str(HOME / "bin/spark-class"), "org.apache.spark.deploy"]
    url = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        words = [program[0], f"{program[1]}.master.Master", "--host", "127.0.0.1"]
        words += ["--port", str(port), "--webui-port", str(page)]
        master = stack.enter_context(machine.running("master", words))
        wait_for(master, lambda: listens(port) and listens(page))
        for number in range(WORKERS):
            words = [program[0], f"{program[1]}.worker.Worker", "--host", "127.0.0.1"]
            words += ["--cores", "1", "--memory", "1g", "--webui-port", str(free_port())]
            words += ["--work-dir", str(machine.folder / f"work-{number}"), url]
            worker = stack.enter_context(machine.running(f"worker-{number}", words))
            wait_for(worker, lambda least=number + 1: workers_of(page) >= least)
        yield url


@contextlib.contextmanager
def connect(machine: Machine) -> Iterator[str]:
    """A Spark Connect server; gives its address."""
    port = free_port()
    more = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(machine.folder / "warehouse"),
    }
    words = [str(HOME / "sbin/start-connect-server.sh"), "--master", "local[2]"]
    with machine.running("connect", [*words, *_confs({**OPTIONS, **more})]) as server:
        wait_for(server, lambda: listens(port))
        yield f"sc://127.0.0.1:{port}"


def _confs(options: dict[str, str]) -> list[str]:
    return [word for name, value in options.items() for word in ("--conf", f"{name}={value}")]


def run_steps(machine: Machine, kind: str, data: Path) -> Result:
    """The steps on one kind of Spark, and what came of them."""
    out = machine.folder / f"out-{kind}"

    def words_of(step: str) -> list[str]:
        words = [step, str(data), "-o", str(out), "--profile", "cluster"]
        return [*words, "--seconds", "0", *LIMITS] if step == "watch" else words

    def submit(master: str) -> None:
        program = [str(HOME / "bin/spark-submit"), "--master", master, *_confs(OPTIONS)]
        for step in STEPS:
            machine.run(
                step, [*program, str(ROOT / "actors/pipeline/__main__.py"), *words_of(step)]
            )

    if kind == "local":
        submit("local[2]")
    elif kind == "standalone":
        with standalone(machine) as url:
            submit(url)
    else:
        program = [sys.executable, "-m", "actors.pipeline"]
        with connect(machine) as url:
            for step in STEPS:
                machine.run(step, [*program, *words_of(step)], SPARK_REMOTE=url)
    return result(out)


def result(out: Path) -> Result:
    """All that a run has left, in an order of its own."""
    found = dict(_gold(out))
    for verdict in json.loads((out / verdicts.FILE).read_text())["audits"]:
        found[f"verdict {verdict['name']}"] = [json.dumps(_stable(verdict), sort_keys=True)]
    alarms = out / watch.LAYER / watch.STREAM / "findings"
    texts = [path.read_text() for path in alarms.glob("*.jsonl")]
    found["alarms"] = sorted(line for text in texts for line in text.splitlines())
    return found


def _gold(out: Path) -> Iterator[tuple[str, list[str]]]:
    version = json.loads((out / "gold/current.json").read_text())["version"]
    for folder in sorted((out / f"gold/version={version:06d}").iterdir()):
        rows: list[str] = []
        for path in sorted(folder.glob("*.parquet")):
            for row in pyarrow.parquet.ParquetFile(path).read().to_pylist():
                kept = {name: value for name, value in row.items() if name not in _NOT_COMPARED}
                rows.append(json.dumps(kept, sort_keys=True, default=str))
        yield folder.name, sorted(rows)


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stable(each) for name, each in value.items() if name not in _DIFFER}
    return [_stable(each) for each in value] if isinstance(value, list) else value


def differences(one: Result, other: Result) -> list[str]:
    """One line for each table that is not the same."""
    found = []
    for name in sorted({*one, *other}):
        if one.get(name) != other.get(name):
            left, right = set(one.get(name, ())), set(other.get(name, ()))
            example = min(left ^ right, default="another order or number")
            found.append(f"{name}: {len(left - right)} and {len(right - left)} rows, as {example}")
    return found


def leave_when_told() -> None:
    """SIGTERM and SIGHUP end the program as an interrupt does: what was started is stopped."""

    def leave(number: int, _frame: object) -> None:
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def main() -> int:
    leave_when_told()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="a data directory (a simulated day)")
    parser.add_argument("--on", nargs="*", choices=KINDS[1:], default=list(KINDS[1:]))
    asked = parser.parse_args()
    if "connect" in asked.on and importlib.util.find_spec("grpc") is None:  # before minutes of work
        parser.error("connect needs more: pip install -e '.[pipeline,connect]', or --on standalone")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        machine = Machine(Path(name))
        data = asked.data
        if data is None:
            data = machine.folder / "data"
            simulate(data)
        expected = run_steps(machine, "local", data.absolute())
        for table, rows in expected.items():
            print(f"local: {table}: {len(rows):,} rows", flush=True)
        if asked.data is None and not expected["alarms"]:
            print("local: no alarms, of a day that has some: nothing to compare", flush=True)
            return 1
        failed = False
        for kind in asked.on:
            found = differences(expected, run_steps(machine, kind, data.absolute()))
            failed = failed or bool(found)
            print("\n".join(f"{kind}: {line}" for line in found or ["the same"]), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
