"""Records `tests/golden/pipeline/killed`: the event logs of a real run with two SIGKILLs.

    python tests/pipeline/record_golden.py FOLDER

Three processes with a classic group and a DLedger group. n0, the master of `orders` and preferred
leader of `ledger`, is killed, then n1, the next master; each time a slave is promoted and the
killed node comes back, then all stop in order. What happens when depends on the machine, so another
recording has other events; the tests rely on none of them.
"""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from free_ports import free_port  # noqa: E402

from actors.client.__main__ import main as client  # noqa: E402
from actors.cluster.__main__ import main as cluster  # noqa: E402

NODES = ("n0", "n1", "n2")
LINES = 10
TRIES_MAX = 60
PAUSE_S = 2.0
SETTLE_S = 15.0


def write_cluster(folder: Path) -> str:
    """The cluster file's path."""
    port = free_port(2)
    text = 'version = 1\nname = "golden"\ndata_dir = "var"\n[nodes]\n'
    text += "".join(f'{node} = "127.0.0.{i + 1}"\n' for i, node in enumerate(NODES))
    text += '[groups.orders]\nmode = "classic"\nmaster = "n0"\nslaves = ["n1", "n2"]\n'
    text += f"copies = 2\nport = {port}\nsegment_bytes = 65_536\n"
    text += '[groups.ledger]\nmode = "dledger"\nmembers = ["n0", "n1", "n2"]\n'
    text += f'port = {port + 1}\npreferred_leaders = ["n0"]\n'
    text += "data_file_bytes = 65_536\nindex_file_bytes = 65_536\n"
    (folder / "c.toml").write_text(text)
    return str(folder / "c.toml")


def start(file: str, node: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "actors.cluster", file, "--node", node, "--plain"]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL)


def until(what: str, *words: str, command: object = client) -> None:
    """Run a command of ours until it succeeds."""
    print(f"record: {what}", flush=True)
    for _ in range(TRIES_MAX):
        if command(list(words)) == 0:  # type: ignore[operator]
            return
        time.sleep(PAUSE_S)
    raise SystemExit(f"record: gave up: {what}")


def append(file: str, times: int = 3) -> None:
    """Some lines to both groups, in several appends."""
    lines = Path(file).with_name("lines")
    lines.write_text("".join(f"line {number}\n" for number in range(LINES)))
    for _ in range(times):
        for group in ("orders", "ledger"):
            until(f"append to {group}", file, "append", "--group", group, str(lines))


def kill_and_return(
    file: str, running: dict[str, subprocess.Popen[bytes]], node: str, successor: str
) -> None:
    """SIGKILL; the group goes on with another master; the node comes back and follows."""
    print(f"record: SIGKILL to {node}", flush=True)
    running[node].send_signal(signal.SIGKILL)
    running[node].wait()
    until(f"promote {successor}", file, "promote", "orders", successor, command=cluster)
    append(file)
    running[node] = start(file, node)
    until(f"{node} is back", f"{file}:{node}", "status", "--json")
    time.sleep(SETTLE_S)
    append(file)


def collect(data: Path, folder: Path) -> None:
    """One file a node, its lines as they were, but for the folder's name."""
    for node in NODES:
        files = sorted((data / node / "events").rglob("*.gz"))
        lines = b"".join(gzip.decompress(file.read_bytes()) for file in files)
        lines = lines.replace(os.fsencode(folder), b"/golden")
        (folder / f"{node}.jsonl.gz").write_bytes(gzip.compress(lines, mtime=0))
        print(f"record: {node}: {lines.count(os.linesep.encode())} events", flush=True)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = write_cluster(folder)
    running = {node: start(file, node) for node in NODES}
    try:
        append(file)
        time.sleep(SETTLE_S)
        append(file)
        kill_and_return(file, running, "n0", "n1")
        kill_and_return(file, running, "n1", "n2")
        time.sleep(SETTLE_S)
    finally:
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for process in running.values():
            process.wait()
    collect(folder / "var", folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
