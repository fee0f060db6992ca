"""The three-node example with killed nodes, then every audit over what it left: `make audit`.

Run: python tests/audit.py [--seconds 60 --kills 4 --rate 2000 --folder var/audit]

Three processes with both groups and the feed, as in examples/3node.toml, run for some seconds.
Meanwhile a node is killed (SIGKILL) again and again, and its supervisor starts it anew: first who
leads the ledger at that moment, then a slave of the classic group, then the master, and so on.
After an ordered stop Spark judges the event logs and the logs' bytes and draws the report. Printed
are the verdicts and where the report is; the exit code is 1 if a promise was broken, or if the run
was not what it has to be. FOLDER is empty, or an earlier run's, which is removed first; the report
and its tables stay in it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "3node.toml"
NODES = ("n0", "n1", "n2")
VICTIMS = ("leader", "n1", "n0", "n2")
"""In turn: "leader" is who leads the ledger at that moment."""
KILLS_MIN = 2
START_MAX_S = 120.0
"""Also of a node that is started again."""
STOP_MAX_S = 90.0
PIPELINE_MAX_S = 3600.0
LOOK_S = 0.2
MADE = ("cluster.toml", "cluster.log", "data", "report.html", "report.tables")
"""What a run leaves in its folder."""


class NotAsPlanned(Exception):
    """The run is not one that says anything."""


def main() -> int:
    asked = arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    folder = asked.folder.resolve()
    file = cluster_file(folder, asked.port, asked.rate)
    try:
        with cluster(file, folder / "cluster.log") as run:
            killed, seconds = kill_in_turn(run, file, asked.seconds, asked.kills)
        print(f"audit: {seconds:.0f} s, killed: {', '.join(killed)}", flush=True)
        return 0 if asked.run_only else judge(folder, len(killed))
    except NotAsPlanned as error:
        print(f"audit: {error}; the cluster's words are in {folder}/cluster.log", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("audit: interrupted", file=sys.stderr)
        return 130


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="that the cluster runs")
    parser.add_argument("--kills", type=int, default=4, help=f"at least {KILLS_MIN}")
    parser.add_argument("--rate", type=int, default=2000, help="records/s for each group; 0: all")
    parser.add_argument("--folder", type=Path, default=ROOT / "var" / "audit")
    parser.add_argument("--port", type=int, help="of the first group, the next is the second's")
    parser.add_argument("--run-only", action="store_true", help="no Spark")
    asked = parser.parse_args()
    if asked.kills < KILLS_MIN:
        parser.error(f"--kills: at least {KILLS_MIN}")
    if not asked.seconds > 0:
        parser.error("--seconds: more than 0")
    if asked.rate < 0:
        parser.error("--rate: 0 or more")
    if not cleared(asked.folder):
        parser.error(f"--folder: {asked.folder} has files in it, and not those of an earlier run")
    return asked


def cleared(folder: Path) -> bool:
    """Make the folder, without what an earlier run left in it. False, and nothing is touched: it
    has files, and no run's.
    """
    if folder.is_dir() and any(folder.iterdir()):
        if not all((folder / name).is_file() for name in ("cluster.toml", "cluster.log")):
            return False
        for place in (folder / name for name in MADE):
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    return True


def cluster_file(folder: Path, port: int | None, rate: int) -> Path:
    """The example, with its data in `folder`.

    Args:
        rate: records/s that each group is fed; 0: as fast as it takes them.
    """
    text = EXAMPLE.read_text()
    text = re.sub(r'(?m)^data_dir = "[^"]*"', 'data_dir = "data"', text)
    text = re.sub(r"(?m)^rate_per_s = \d+", f"rate_per_s = {rate}", text)
    text = re.sub(r'(?m)^file = "[^"]*"', f'file = "{ROOT / "README.md"}"', text)
    if port is not None:
        text = text.replace("port = 10912", f"port = {port}")
        text = text.replace("port = 20911", f"port = {port + 1}")
    file = folder / "cluster.toml"
    file.write_text(text)
    return file


@contextmanager
def cluster(file: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs until the block ends, then stops in order. Raises: NotAsPlanned if it does not."""
    command = [sys.executable, "-m", "actors.cluster", str(file), "--processes", "--plain"]
    with log.open("wb") as out:
        run = subprocess.Popen(
            command, cwd=ROOT, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment()
        )
        try:
            yield run
            stop(run)
        finally:
            end(run)


def stop(run: subprocess.Popen[bytes]) -> None:
    """In order. Raises: NotAsPlanned if it takes too long, or does not succeed."""
    run.send_signal(signal.SIGTERM)
    try:
        code = run.wait(STOP_MAX_S)
    except subprocess.TimeoutExpired as error:
        raise NotAsPlanned(f"the cluster did not stop within {STOP_MAX_S:g} s") from error
    if code != 0:
        raise NotAsPlanned(f"the cluster ended with exit code {code}")


def end(run: subprocess.Popen[bytes]) -> None:
    """Kill what is left: the parent first, for it would start the others again."""
    if run.poll() is None:
        left = [run.pid, *children_of(run.pid)]
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.wait()


def environment() -> dict[str, str]:
    known = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{known}" if known else str(ROOT)}


def kill_in_turn(
    run: subprocess.Popen[bytes], file: Path, seconds: float, kills: int
) -> tuple[list[str], float]:
    """Kill a node at even distances, each once the one before is back.

    Returns: who they were, and how many seconds it took: `seconds`, or more.
    """
    data = file.parent / "data"
    wait_for(run, "all nodes run", lambda: all((data / n / "api.sock").exists() for n in NODES))
    begin = time.monotonic()
    killed = []
    for number in range(kills):
        pause(run, begin + seconds * (number + 1) / (kills + 1))
        victim = VICTIMS[number % len(VICTIMS)]
        node = victim if victim != "leader" else leader_of(file) or NODES[0]
        pid = pid_of(run.pid, node)
        if not pid:
            raise NotAsPlanned(f"{node} does not run")
        os.kill(pid, signal.SIGKILL)
        killed.append(node)
        print(f"audit: {time.monotonic() - begin:5.1f} s: killed {node}", flush=True)
        wait_for(run, f"{node} is back", partial(back, run, file, node, pid))
    pause(run, begin + seconds)
    return killed, time.monotonic() - begin


def back(run: subprocess.Popen[bytes], file: Path, node: str, before: int) -> bool:
    """Another process of that node answers."""
    return pid_of(run.pid, node) not in (0, before) and statuses(file).get(node) is not None


def leader_of(file: Path) -> str:
    """Who leads the ledger by what most nodes say; "" if nobody does."""
    known = [
        said["status"]["groups"]["ledger"]["leader"] for said in statuses(file).values() if said
    ]
    return max(known, key=known.count, default="")


def statuses(file: Path) -> dict[str, Any]:
    """What each node says of itself; None of one that does not answer. Empty: nothing was said."""
    try:
        asked = subprocess.run(
            [sys.executable, "-m", "actors.cluster", str(file), "status", "--json"],
            cwd=ROOT,
            capture_output=True,
            timeout=START_MAX_S,
            env=environment(),
        )
        nodes: dict[str, Any] = json.loads(asked.stdout)["nodes"]
    except (ValueError, subprocess.TimeoutExpired):
        return {}
    return nodes


def children_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def pid_of(parent: int, node: str) -> int:
    """0: it does not run."""
    for child in children_of(parent):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--node" in words and words[words.index(b"--node") + 1] == node.encode():
            return child
    return 0


def wait_for(run: subprocess.Popen[bytes], what: str, there: Callable[[], bool]) -> None:
    """Raises: NotAsPlanned if it takes too long, or the cluster ends."""
    until = time.monotonic() + START_MAX_S
    while not there():
        if run.poll() is not None:
            raise NotAsPlanned("the cluster ended by itself")
        if time.monotonic() > until:
            raise NotAsPlanned(f"waited {START_MAX_S:g} s in vain: {what}")
        time.sleep(LOOK_S)


def pause(run: subprocess.Popen[bytes], until: float) -> None:
    """Until a moment of the monotonic clock. Raises: NotAsPlanned if the cluster ends."""
    while time.monotonic() < until:
        if run.poll() is not None:
            raise NotAsPlanned("the cluster ended by itself")
        time.sleep(LOOK_S)


def judge(folder: Path, kills: int) -> int:
    """The report over the run's data; its exit code is ours. Raises: NotAsPlanned if it is not
    about a run with so many kills, or has not judged all of it.
    """
    page = folder / "report.html"
    command = [sys.executable, "-m", "actors.pipeline", "report", str(folder / "data")]
    try:
        done = subprocess.run(
            [*command, "-o", str(page), "--json"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            timeout=PIPELINE_MAX_S,
            env=environment(),
        )
    except subprocess.TimeoutExpired as error:
        raise NotAsPlanned(f"no report within {PIPELINE_MAX_S:g} s") from error
    if done.returncode not in (0, 1) or not done.stdout:
        return done.returncode or 1
    found = json.loads(done.stdout)
    tell(found)
    print(f"report: {page}")
    said, audits = found["summary"], found["verdicts"]["audits"]
    if said["killed"] != kills:
        raise NotAsPlanned(f"{kills} nodes were killed, and {said['killed']} by their logs")
    missing = [each["name"] for each in audits if is_missing(each)]
    if missing or not audits:
        raise NotAsPlanned(f"nothing was judged by: {', '.join(missing) or 'any audit'}")
    return done.returncode


def is_missing(audit: dict[str, Any]) -> bool:
    """Both groups and the feed leave something to judge for each promise there is."""
    return audit["severity"] == "error" and audit["verdict"] == "not_applicable"


def tell(found: dict[str, Any]) -> None:
    """A line for each verdict, and one for the run."""
    for each in found["verdicts"]["audits"]:
        looked = each["checked"]
        boots, logs = len(looked["ranges"]), len(looked["logs"])
        of = f"{boots} boots" if boots else f"{logs} logs"
        print(
            f"{each['verdict']:14} {each['name']}: {each['findings']:,} findings in "
            f"{looked['rows']:,} rows of {of} ({each['severity']})"
        )
    said = found["summary"]
    print(f"{said['events']:,} events of {said['boots']} boots, {said['killed']} of them killed")


if __name__ == "__main__":
    sys.exit(main())
