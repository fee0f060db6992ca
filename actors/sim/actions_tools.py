"""What an operator does with `python -m actors.storage` while nodes run."""

from __future__ import annotations

import trio

from actors.errors import ConfigError
from actors.sim.action import Action
from actors.sim.fault_runner import FaultRunner
from actors.sim.script import Fault
from actors.storage.files.stepping import finish
from actors.storage.kinds import tools_of
from actors.storage.tools.commitlog.check import CheckOptions
from actors.storage.tools.findings import Report
from actors.storage.tools.target import find_target, one_store


class CheckRunning(Action[FaultRunner]):
    """The store of a running node is checked, at one moment: damage is found where a script has
    done some that has not expired, and nowhere else.
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
        now_s = trio.current_time()
        if damaged and not report.findings.damage_count:
            runner.history.violated(
                "CheckFindsDamage", now_s, f"{name} is damaged, and looks sound"
            )
        for line in () if damaged else report.findings.damage:
            runner.history.violated("CheckFindsDamage", now_s, f"{name} is not damaged: {line}")

    def _check(self, runner: FaultRunner, name: str) -> Report | None:
        """None if the disk fails just now, or the folder is not there yet."""
        disk = runner.cluster.world.node(name).disk
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
