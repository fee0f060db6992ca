"""Upstream's traps: known bugs and complaints of RocketMQ's classic HA (T) and of DLedger (B, V),
each as a script that runs.

`python tests/traps.py` prints the table trap -> script -> outcome with `compat = "upstream"` and
without. `python tests/traps.py T3` plays a script and prints it; `--write` writes what the scripts
print now into them, for a look at the difference. The scripts are in `tests/scripts/upstream/`;
`scripts/test_scripts.py` plays them all, and refuses a trap without a script or a reason. Beside
them, under our rules only, are a crash for each row of the guarantees table, in `guarantees/`, and
the decisions of DLedger's pure classes, in `dledger/`; and the traps of auto-switch HA, on the pure
classes that decide there, in `autoswitch/`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"
FOLDER = SCRIPTS / "upstream"
GUARANTEES = SCRIPTS / "guarantees"
DLEDGER = SCRIPTS / "dledger"
AUTOSWITCH = SCRIPTS / "autoswitch"
OURS = ("ours", "ours")
sys.path.append(str(SCRIPTS))

import autoswitch_stage  # noqa: E402
import dledger_bugs  # noqa: E402
import dledger_stage  # noqa: E402
import script_runner  # noqa: E402
from script_format import SETTINGS, Script, parse, render  # noqa: E402

_CLASSIC: dict[int, str] = {
    1: "a master at another offset: the slave retries for ever",
    2: "a slave behind the master's first file never gets on",
    3: "a slave ahead of its master is believed",
    4: "a slave acknowledges what it could not store",
    5: "one time for reading and writing on the slave",
    6: "acknowledged before a sync on either side",
    7: "the furthest report is never forgotten",
    8: "anybody who writes 8 bytes is a slave",
    9: "different file sizes on the two sides",
    10: "frames that a slave cannot take",
    11: "waits are looked at one after the other, the deadline first",
    12: "two connections of one slave are two copies",
    13: "SYNC_MASTER of 5.x waits for nobody by default",
    14: "a new slave gets the last file only",
    15: "a configured master address is lost at the start",
    16: "another master's address leaves the old connection alone",
    17: "advertised addresses and an ignored port",
    18: "synchronous time-outs that are none",
    19: "an asynchronous master's writer is not woken",
    20: "port probes leak",
    21: "a restarted master overwrites newer consumer offsets",
    22: "a slave made master counts on from queues that are behind",
    23: "topics are deleted and added again with every synchronisation",
    24: "deleted topics stay on the slave",
    25: "a cut record at the slave's end is an error in its log",
    26: "a failed sync is reported as success",
    27: "readers see what is not replicated",
    28: "the client spins",
    29: "a little latency costs most of the throughput",
    30: "a master that lost everything is filled up with other bytes",
    31: "values out of range are passed over",
    32: "the list of connections is read without its lock",
    33: "a frame of negative size moves the slave's write position back",
}

NO_METADATA = "topics, groups and consumer offsets are not synchronised here: no such subject"
_WITHOUT: dict[int, str] = {
    15: "the client is built with its master's address: there is no moment without one",
    17: "no address is guessed, and a port that is given is the one that is used",
    21: NO_METADATA,
    23: NO_METADATA,
    24: NO_METADATA,
    28: "tasks wait for the socket: there is no selector to spin on",
    32: "the list has one owner, an actor; nothing is shared",
}
TRAPS = {f"T{number}": title for number, title in _CLASSIC.items()} | dledger_bugs.BUGS
"""Numbers and subjects as in classic-ha.md 7 and dledger.md 11."""
WITHOUT = {f"T{number}": why for number, why in _WITHOUT.items()} | dledger_bugs.WITHOUT
"""Traps without a script, and why."""


def trap_of(path: Path) -> str:
    """`T3` for `T03_slave_ahead.txt`."""
    return f"{path.name[0]}{int(path.name[1:3])}"


def paths() -> dict[str, Path]:
    """The scripts, by trap."""
    return {trap_of(path): path for path in sorted(FOLDER.glob("*.txt"))}


def play(path: Path) -> Script:
    """A script with the outputs that it has now: a trap's under both settings."""
    script = parse(path.read_text())
    if path.parent == FOLDER and path.name.startswith("T"):
        return script_runner.play(script)
    if path.parent == AUTOSWITCH:
        return script_runner.play(script, SETTINGS, autoswitch_stage.outputs)
    if path.parent == GUARANTEES:
        return script_runner.play(script, OURS)
    settings = SETTINGS if path.parent == FOLDER else OURS
    return script_runner.play(script, settings, dledger_stage.outputs)


def table() -> str:
    """The Markdown table: trap, script, both outcomes."""
    found = paths()
    rows = [
        '| Trap | Script | With `compat = "upstream"` | Without |',
        "|---|---|---|---|",
    ]
    for trap, title in TRAPS.items():
        if trap not in found:
            rows.append(f"| {trap}: {title} | - | {WITHOUT.get(trap, '')} | |")
            continue
        script = parse(found[trap].read_text())
        both = script.says("both")
        outcome = f"the same: {both} | " if both else f"{script.says('upstream')} | "
        rows.append(f"| {trap}: {title} | `{found[trap].name}` | {outcome}{script.says('ours')} |")
    return "\n".join(rows)


def main(words: list[str]) -> int:
    """Print the table, or play scripts."""
    parser = argparse.ArgumentParser(description="Upstream's traps as scripts.")
    parser.add_argument("trap", nargs="*", help="T3 or B1: play this one and print it")
    parser.add_argument("--write", action="store_true", help="write what they print now into them")
    args = parser.parse_args(words)
    if not args.trap and not args.write:
        print(table())
        return 0
    wanted = {name.upper() for name in args.trap} or set(paths())
    for trap, path in paths().items():
        if trap not in wanted:
            continue
        if args.write:
            path.write_text(render(play(path)))
        else:
            print(render(play(path)))
    others = [path for each in (GUARANTEES, DLEDGER, AUTOSWITCH) for path in each.glob("*.txt")]
    for path in others if args.write and not args.trap else ():
        path.write_text(render(play(path)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
