"""Simulated runs as data directories: what is on the nodes' disks at the end, and a feed's record.

Several runs share one directory, so that one pass of the pipeline judges all of them: every node
and group has the run's tag in front of its name, in file names, events and identities alike.

Classic runs write event logs on their disks. Members of DLedger groups are simulated without a
node around them: their events are encoded here, in the order in which they came, with what a node
says at its beginning and at its end.

Needs no Spark.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors.cluster.feed_record import FeedRecord, digest
from actors.config import ClusterConfig, DLedgerGroup
from actors.events.codec import LineEncoder
from actors.events.node import NodeStarted, NodeStopped
from actors.log_types import Receipt
from actors.service import configured
from actors.sim import running
from actors.sim.classic.judges import validations
from actors.sim.disk import SimDisk
from actors.sim.history import (
    LOST,
    AppendAnswered,
    AppendAsked,
    FaultInjected,
    History,
    client_appends,
)
from actors.sim.machines import SimMachines
from actors.sim.plan import Outcome, Plan
from actors.sim.running import run_plan
from actors.sim.world import SimEvent, World
from actors.storage.node import event_files
from actors.version import VERSION

EPOCH_US = 1_800_000_000_000_000
NAME = re.compile(r"\bn\d+\b")
Mutation = Callable[[pytest.MonkeyPatch], None]
Fed = list[tuple[int, Receipt, int]]


@attrs.frozen(kw_only=True)
class Played:
    """One run that is in a directory now.

    Attributes:
        tag: in front of its nodes' and groups' names.
        acknowledged: records that its clients were told of, and were not given up by force.
        given_up: that were; they are in the clients' record all the same.
        emptied: nodes whose disk or log an operator replaced by nothing.
        event_count: of all its nodes.
    """

    tag: str
    outcome: Outcome
    acknowledged: int
    given_up: int
    emptied: frozenset[str]
    event_count: int

    @property
    def checkers(self) -> list[str]:
        """The simulator's that objected."""
        return sorted({violation.checker for violation in self.outcome.violations})


@attrs.define
class Export:
    """Takes a run's end to a real directory."""

    tag: str
    data: Path
    fed: dict[str, Fed] = attrs.field(factory=dict)
    given_up: int = 0
    emptied: set[str] = attrs.field(factory=set)
    event_count: int = 0

    def take(self, world: World, history: History, machines: SimMachines[Any]) -> None:
        """All that is there when the run is over."""
        config = machines.config
        for node in machines.names:
            disk = world.node(node).disk
            folder = self.data / f"{self.tag}{node}"
            self._stores(disk, config, node, folder)
            self._identity(disk, config, node, folder)
            if config.classic_groups:
                self._logged(disk, config, node, folder)
            else:
                over = not machines.runs(node)
                self._told(world.events, config, node, folder, over)
        self._receipts(history, config)
        for seen in history.observations:
            if isinstance(seen, FaultInjected) and seen.kind in ("wiped", *LOST):
                self.emptied.add(f"{self.tag}{seen.where.split()[0]}")

    def named(self, value: Any, groups: Iterable[str]) -> Any:
        """With the tag wherever a node or a group is named."""
        known = set(groups)

        def one(text: str) -> str:
            if text.startswith("/"):
                parts = text.split("/")
                return "/".join(one(part) if at < 4 else part for at, part in enumerate(parts))
            return f"{self.tag}{text}" if text in known or NAME.fullmatch(text) else text

        match value:
            case str():
                return one(value)
            case list():
                return [self.named(each, known) for each in value]
            case dict():
                return {key: self.named(each, known) for key, each in value.items()}
            case _:
                return value

    def _stores(self, disk: SimDisk, config: ClusterConfig, node: str, folder: Path) -> None:
        for name, group in config.groups.items():
            inner = ("data", "index") if isinstance(group, DLedgerGroup) else ("commitlog",)
            for each in inner:
                root = f"{config.group_dir(node, name)}/{each}"
                if disk.exists(root):
                    copy_files(disk, root, folder / "groups" / f"{self.tag}{name}" / each)

    def _identity(self, disk: SimDisk, config: ClusterConfig, node: str, folder: Path) -> None:
        """What the node says; where it is no node, what a node would say of the configuration."""
        path = f"{config.node_dir(node)}/identity.json"
        said = json.loads(read(disk, path)) if disk.exists(path) else {}
        settings = {f"nodes.{self.tag}{name}": address for name, address in config.nodes.items()}
        for name, group in config.groups.items():
            key = f"groups.{self.tag}{name}"
            settings[f"{key}.members"] = str([f"{self.tag}{each}" for each in group.members])
            if isinstance(group, DLedgerGroup):
                settings[f"{key}.store"] = json.dumps(group.store)
        records = {f"{self.tag}{name}": one for name, one in said.get("records", {}).items()}
        folder.mkdir(parents=True, exist_ok=True)
        note = {"records": records, "settings": settings}
        (folder / "identity.json").write_text(json.dumps(note))

    def _logged(self, disk: SimDisk, config: ClusterConfig, node: str, folder: Path) -> None:
        """The event log; what was not published yet as the next start would."""
        root = f"{config.node_dir(node)}/events"
        whole = [(file, file.path) for file in event_files.published(disk, root, node)]
        whole += [(file, file.part_path) for file in event_files.live(disk, root, node)]
        for file, path in whole:
            members, _ = event_files.decompress(read(disk, path))
            lines = b"".join(members).splitlines()
            name = event_files.file_name(file.boot, file.start_seq)
            self._write(folder, node, name, lines, config.groups)

    def _told(
        self,
        events: Sequence[SimEvent],
        config: ClusterConfig,
        node: str,
        folder: Path,
        is_over: bool,
    ) -> None:
        own = [event for event in events if event.node == node]
        groups = tuple(config.groups)
        for boot, told in itertools.groupby(own, key=lambda event: event.boot):
            encoder = LineEncoder(node, boot)
            said: list[tuple[str, int, float, Any]] = [
                (each.path, each.incarnation, each.at_s, each.event) for each in told
            ]
            started = NodeStarted(cluster=config.name, version=VERSION, groups=groups)
            promised = [
                (f"/{node}/{name}", 0, said[0][2], configured(group))
                for name, group in config.groups.items()
            ]
            said[:0] = [(f"/{node}", 1, said[0][2], started), *promised]
            if is_over and boot == own[-1].boot:
                said.append((f"/{node}", 1, said[-1][2], NodeStopped(reason="ordered")))
            lines = [
                encoder.encode(seq, path, incarnation, EPOCH_US + round(at_s * 1e6), event)
                for seq, (path, incarnation, at_s, event) in enumerate(said, 1)
            ]
            self._write(folder, node, event_files.file_name(boot, 1), lines, groups)

    def _write(
        self, folder: Path, node: str, name: str, lines: Sequence[bytes], groups: Iterable[str]
    ) -> None:
        events = [json.loads(line) for line in lines]
        if not events:
            return
        day = event_files.date_of(events[0]["ts_us"])
        target = Path(event_files.folder_of(str(folder / "events"), day, f"{self.tag}{node}"))
        target.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(self.named(event, groups)) + "\n" for event in events)
        (target / name).write_bytes(gzip.compress(text.encode(), 1))
        self.event_count += len(events)

    def _receipts(self, history: History, config: ClusterConfig) -> None:
        """What clients were told, as a feed notes it: what a forced promotion gave up as well."""
        done = client_appends(history.observations)
        kept = {each.operation for each in validations.without_given_up(done, history.observations)}
        asked = {s.operation: s for s in history.observations if isinstance(s, AppendAsked)}
        line = 0
        for seen in history.observations:
            if not isinstance(seen, AppendAnswered) or seen.receipt is None:
                continue
            append = asked[seen.operation]
            count = len(append.bodies)
            group = append.group or next(iter(config.groups))
            self.fed.setdefault(group, []).append((line, seen.receipt, digest(append.bodies)))
            line += count
            if config.classic_groups and seen.operation not in kept:
                self.given_up += count

    def write_records(self) -> None:
        """As a feed does, into DATA_DIR/feed."""

        async def run() -> None:
            for group, receipts in self.fed.items():
                record = FeedRecord(str(self.data / "feed"), f"{self.tag}{group}")
                record.open("simulated", resumable=False)
                await record.note(receipts)
                record.close()

        trio.run(run)


def read(disk: SimDisk, path: str) -> bytes:
    """A whole file, whatever faults wait for the next who reads."""
    return disk.inode(path).read(0, disk.stat(path).size_bytes)


def copy_files(disk: SimDisk, root: str, target: Path) -> None:
    """The files of one simulated folder."""
    target.mkdir(parents=True, exist_ok=True)
    for name in disk.listdir(root):
        (target / name).write_bytes(read(disk, f"{root}/{name}"))


def play(plan: Plan, tag: str, data: Path, mutation: Mutation | None = None) -> Played:
    """Run a plan, with our own code broken if asked for, and leave its end in `data`."""
    export = Export(tag, data)
    with pytest.MonkeyPatch.context() as patch:
        if mutation is not None:
            mutation(patch)
        patch.setattr(running, "outcome_of", _exporting(running.outcome_of, export))
        outcome = run_plan(plan)
    export.write_records()
    acknowledged = sum(receipt.count for fed in export.fed.values() for _, receipt, _ in fed)
    return Played(
        tag=tag,
        outcome=outcome,
        acknowledged=acknowledged - export.given_up,
        given_up=export.given_up,
        emptied=frozenset(export.emptied),
        event_count=export.event_count,
    )


def _exporting(real: Callable[..., Outcome], export: Export) -> Callable[..., Outcome]:
    def outcome_of(
        plan: Plan,
        world: World,
        history: History,
        faults: Any,
        machines: SimMachines[Any],
        counts: Mapping[str, int],
    ) -> Outcome:
        export.take(world, history, machines)
        return real(plan, world, history, faults, machines, counts)

    return outcome_of
