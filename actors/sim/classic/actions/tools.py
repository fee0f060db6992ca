"""What an operator does with running nodes: checks their files with `python -m actors.storage`, and
makes a topic anew.

Our slaves follow RocketMQ masters, too, of which they hear late that a topic was deleted, or,
without a `broker_port`, never, as in the simulated groups. So this changes the next queue offsets
inside the running master.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Final

import trio

from actors.errors import ConfigError
from actors.sim.actions.action import Action
from actors.sim.actions.script import Fault
from actors.sim.classic.runner import FaultRunner
from actors.storage.commitlog.group_commit import AppendBatch, AppendEncoder
from actors.storage.files.stepping import finish
from actors.storage.kinds import tools_of
from actors.storage.tools.commitlog.check import CheckOptions
from actors.storage.tools.findings import Report
from actors.storage.tools.target import find_target, one_store


class CheckRunning(Action[FaultRunner]):
    """The store of a running node is checked: the check has to find damage that a script has done
    and that has not expired, and no other.
    """

    name = "check_running"
    chance = 0.4
    most = 2

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        await trio.lowlevel.checkpoint()
        name = fault.node
        if not runner.is_ready(name):
            return
        damaged = runner.atlas.is_damaged(name)
        report = self._check(runner, name)
        if report is None:
            runner.note("not checked", name)
            return
        runner.began(fault)
        if report.findings.damage_count:
            runner.note("damage found", name)
        if damaged and not report.findings.damage_count:
            runner.history.violated("CheckFindsDamage", f"{name} is damaged, and looks sound")
        for line in () if damaged else report.findings.damage:
            runner.history.violated("CheckFindsDamage", f"{name} is not damaged: {line}")

    def _check(self, runner: FaultRunner, name: str) -> Report | None:
        """Check the store; None if the disk fails just then, or there is no folder yet."""
        disk = runner.cluster.disk(name)
        folder = runner.cluster.config.node_dir(name)
        before = sum(disk.faults.counts.values())
        try:
            store = one_store(find_target(disk, folder, runner.group.name))
            report: Report = finish(
                tools_of(store).check(disk, store, CheckOptions(is_running=True))
            )
        except (OSError, ConfigError):
            return None
        return report if sum(disk.faults.counts.values()) == before else None


ENCODERS: Final[dict[str, AppendEncoder]] = {}
"""The encoders of the present run, by the node's host: the one that began a batch last."""


class RemakeTopic(Action[FaultRunner]):
    """All queues of the master's topics begin anew at queue offset 0."""

    name = "remake_topic"
    chance = 0.3

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        await trio.lowlevel.checkpoint()
        encoder = ENCODERS.get(runner.cluster.config.nodes[runner.master])
        if encoder is None or not runner.is_ready(runner.master) or not encoder.next_offsets:
            return
        runner.began(fault)
        encoder.next_offsets.update(dict.fromkeys(encoder.next_offsets, 0))


@contextmanager
def watched_encoders() -> Iterator[None]:
    """Within the block, `ENCODERS` has the encoders that give queue offsets."""
    real = AppendEncoder.begin

    @wraps(real)
    def begin(encoder: AppendEncoder, at_bytes: int) -> AppendBatch:
        ENCODERS[encoder.host[0]] = encoder
        return real(encoder, at_bytes)

    setattr(AppendEncoder, "begin", begin)  # noqa: B010 - mypy takes no other method for it
    try:
        yield
    finally:
        setattr(AppendEncoder, "begin", real)  # noqa: B010
        ENCODERS.clear()
