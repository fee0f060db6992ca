"""Ten minutes with everything that befalls real nodes: `make kills`.

    python tests/kills/kills_run.py [--seconds 600 --seed 1 --folder var/kills]

Three processes with controllers and a group of each kind, each with a disk of its own (a tmpfs in a
mount namespace that ends with the run), under clients of all groups. In each stretch one fault or
two befall them: kills, SIGSTOPs, ordered stops, a disk that another program fills, by bytes or by
files, promotions, elections, transfers, a wiped disk. Then all is mended, and it is measured how
long it takes until all groups take appends again and every node has them. In the end all nodes stop
in order, `storage check` has to find nothing, and what the clients heard, with all that lies in
each node's files, has to be the history of one log for each group. The exit code is 1 if something
of that is not so; the folder, with the nodes' words and copies of their disks, is kept then.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

import attrs
import trio
from kills_clients import Clients, Files, judged
from kills_faults import FAULTS, Stretch
from kills_nodes import (
    CLASSIC,
    GROUPS,
    LOOK_S,
    LOST,
    NODES,
    Cluster,
    NotAsPlanned,
    dumped,
    prepared,
    tool,
)

ROOT = Path(__file__).resolve().parents[2]
OWN_SPACE = ("unshare", "--map-root-user", "--mount")
INSIDE = "KILLS_INSIDE"
BACK_MAX_S = 90.0
"""What is longer than this is no slow machine; the run says how long each took."""
CALM_S = (0.5, 2.0)
TWO_FAULTS_SHARE = 0.4
MADE = ("cluster.toml", "data", "disks", *(f"{name}.log" for name in NODES))


@attrs.define
class Report:
    """Attributes:
    faults: how often each befell somebody.
    back_s: of each stretch, from the last fault's end to all nodes being whole.
    """

    faults: Counter[str] = attrs.field(factory=Counter)
    back_s: list[float] = attrs.field(factory=list)


def main() -> int:
    asked = arguments()
    if os.environ.get(INSIDE) != "1":
        os.environ[INSIDE] = "1"
        os.execvp(OWN_SPACE[0], (*OWN_SPACE, sys.executable, *sys.argv))
    folder = asked.folder.resolve()
    clear(folder)
    cluster = prepared(folder, asked.port)
    report, clients = Report(), Clients(str(cluster.file))
    try:
        trio.run(run, cluster, clients, report, asked.seconds, asked.seed)
        tell(report, clients)
        wrong = judge(cluster, clients)
    except NotAsPlanned as error:
        tell(report, clients)
        wrong = [str(error)]
    finally:
        cluster.kill_all()
    for line in wrong:
        print(f"kills: {line}", file=sys.stderr)
    if wrong:
        shutil.copytree(folder / "data", folder / "disks", symlinks=True)
        print(f"kills: nodes' words and disks are in {folder}", file=sys.stderr)
    return 1 if wrong else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="under faults")
    parser.add_argument("--seed", type=int, default=1, help="which faults, in which order")
    parser.add_argument("--folder", type=Path, default=ROOT / "var" / "kills")
    parser.add_argument("--port", type=int, default=18_912, help="and the six behind it")
    asked = parser.parse_args()
    if not asked.seconds > 0:
        parser.error("--seconds: more than 0")
    foreign = [each.name for each in asked.folder.glob("*") if each.name not in MADE]
    if foreign:
        parser.error(f"--folder: {asked.folder} has files of somebody else: {foreign[0]}")
    return asked


def clear(folder: Path) -> None:
    for place in (folder / name for name in MADE):
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)


async def run(
    cluster: Cluster, clients: Clients, report: Report, seconds: float, seed: int
) -> None:
    """All stretches, until every node has stopped in order. Raises: NotAsPlanned."""
    rng = random.Random(seed)
    cluster.start_all()
    async with trio.open_nursery() as nursery:
        await whole(cluster, clients, 0)
        nursery.start_soon(clients.run, rng.getrandbits(32))
        begin, deck = time.monotonic(), []
        while time.monotonic() - begin < seconds:
            await trio.sleep(rng.uniform(*CALM_S))
            deck = deck or rng.sample(list(FAULTS), len(FAULTS))
            chosen = [deck.pop()]
            if rng.random() < TWO_FAULTS_SHARE and deck and FAULTS[chosen[0]].mixes:
                chosen += [deck.pop()] if FAULTS[deck[-1]].mixes else []
            stretch = Stretch(cluster, rng)
            async with trio.open_nursery() as faults:
                for name in chosen:
                    faults.start_soon(FAULTS[name].befall, stretch)
            report.faults.update(chosen)
            ended = time.monotonic()
            await whole(cluster, clients, len(report.back_s) + 1)
            report.back_s.append(time.monotonic() - ended)
            text = "; ".join(stretch.noted)
            print(f"{ended - begin:5.0f} s: {text}; back in {report.back_s[-1]:.1f} s", flush=True)
        clients.stopped = True
    await whole(cluster, clients, len(report.back_s) + 1)
    for node in cluster.nodes.values():
        await node.stop()


async def whole(cluster: Cluster, clients: Clients, number: int) -> None:
    """Returns when all groups take appends and all nodes have them, as an operator brings it
    about: who ended is started again, a slave with a tail of its own is resynced, and a new master
    that its predecessor was back before, with more than it, is replaced by the furthest node.

    Raises: NotAsPlanned: not in time, or a node has ended by itself.
    """
    with trio.move_on_after(BACK_MAX_S) as bound:
        for node in cluster.nodes.values():
            node.start()
        ends = {}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(mend_tails, cluster)

            async def append(group: str) -> None:
                ends[group] = await clients.append_one(group, f"{group}-after-{number}")

            async with trio.open_nursery() as appends:
                for group in GROUPS:
                    appends.start_soon(append, group)
            for group in GROUPS:
                for name in NODES:
                    while not await has(cluster, name, group, ends[group]):
                        cluster.nodes[name].check_alive()
                        await trio.sleep(LOOK_S)
            nursery.cancel_scope.cancel()
    if bound.cancelled_caught:
        said = {name: await cluster.status_of(name) for name in NODES}
        groups = {name: each and each["groups"] for name, each in said.items()}
        raise NotAsPlanned(f"not whole {BACK_MAX_S:g} s after the last fault: {groups}")


async def has(cluster: Cluster, name: str, group: str, end: int) -> bool:
    found = False
    with trio.move_on_after(3.0):
        try:
            async with cluster.client(name) as client:
                offsets = await client.log(group).offsets()
                found = min(offsets.synced, offsets.acknowledged) >= end
        except* LOST:
            pass
    return found


async def as_told(cluster: Cluster, *words: str) -> None:
    code, said = await cluster.command(*words)
    print(f"  {' '.join(words)}: {said.splitlines()[-1] if said else code}", flush=True)


async def mend_tails(cluster: Cluster) -> None:
    """What `status` says is to be done: `resync` for each node whose log is no part of its
    master's, `promote` where a master is fenced because a slave has more.
    """
    while True:
        for name in NODES:
            said = await cluster.status_of(name)
            group = said["groups"][CLASSIC] if said is not None else {}
            if group.get("state") == "diverged":
                await as_told(cluster, "resync", name, CLASSIC)
            elif group.get("details", {}).get("fence") == "SLAVE_AHEAD":
                await as_told(cluster, "promote", CLASSIC)
        await trio.sleep(1.0)


def judge(cluster: Cluster, clients: Clients) -> list[str]:
    """What is wrong with the stopped nodes' files, and with what the clients heard."""
    wrong, files = [], {}
    for node in cluster.nodes.values():
        code, lines = tool("check", str(node.disk))
        if code != 0:
            wrong.append(f"check of {node.name}: exit code {code}: {lines[-1] if lines else ''}")
        for group in GROUPS:
            files[group, node.name] = Files.of(group, dumped(node, group))
    wrong += judged(clients, files)
    for (group, name), found in files.items():
        print(f"{group} on {name}: {found.begin:,} to {found.shown.end:,}")
    return wrong


def tell(report: Report, clients: Clients) -> None:
    print("faults: " + ", ".join(f"{name} {count}" for name, count in report.faults.items()))
    for outcome, count in sorted(clients.outcomes.items()):
        print(f"{outcome}: {count:,}")
    if report.back_s:
        print(
            f"whole again after a stretch: median {statistics.median(report.back_s):.1f} s, "
            f"longest {max(report.back_s):.1f} s, of {len(report.back_s)}"
        )


if __name__ == "__main__":
    sys.exit(main())
