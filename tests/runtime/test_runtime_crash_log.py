"""Crashes and restarts are warnings with a traceback, and a bounded number of them."""

import logging

import pytest
import trio
from runtime_probe import Boom, Crash, Log, settle

from actors.runtime import Backoff, Restart, SupervisorSpec, open_system
from actors.runtime.crash_log import LOGGED_MAX, PERIOD_S

LOGGER = "triolog.runtime"


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, logger=LOGGER)
    return caplog


async def test_a_crash_has_its_traceback_and_is_followed_by_the_restart(autojump_clock, warnings):
    log = Log()
    async with open_system("n0", SupervisorSpec(children=(log.child("a"),))) as system:
        await system.ref("/n0/a").tell(Crash())
        await settle()
    assert [(each.name, each.levelname, each.getMessage()) for each in warnings.records] == [
        (LOGGER, "WARNING", "/n0/a#1 crashed: Boom: a"),
        (LOGGER, "WARNING", "/n0/a#2 runs: restart 1"),
    ]
    assert "raise Boom(self.name)" in warnings.text


async def test_without_an_error_nothing_is_logged(autojump_clock, warnings):
    log = Log()
    async with open_system("n0", SupervisorSpec(children=(log.child("a"),))):
        await settle()
    assert warnings.records == []


async def test_a_first_start_that_fails_is_raised_and_not_logged(autojump_clock, warnings):
    log = Log()
    child = log.child("a", probe={"failing": [Boom("first")]}, restart=Restart.TRANSIENT)
    with pytest.RaisesGroup(Boom, flatten_subgroups=True):
        async with open_system("n0", SupervisorSpec(children=(child,))):
            pass
    assert warnings.records == []


async def test_a_restart_that_fails_is_logged(autojump_clock, warnings):
    log, failing = Log(), []
    child = log.child("a", probe={"failing": failing})
    async with open_system("n0", SupervisorSpec(children=(child,))) as system:
        failing.append(Boom("again"))
        await system.ref("/n0/a").tell(Crash())
        await settle()
    assert warnings.messages == [
        "/n0/a#1 crashed: Boom: a",
        "/n0/a#2 crashed: Boom: again",
        "/n0/a#3 runs: restart 2",
    ]


async def test_a_loop_of_crashes_logs_a_bounded_number_and_counts_the_rest(
    autojump_clock, warnings
):
    log = Log()
    loop = Backoff(first_s=1.0, max_s=1.0)
    child = log.child("a", probe={"fails_soon": True}, backoff=loop)
    async with open_system("n0", SupervisorSpec(intensity=10**6, children=(child,))):
        await trio.sleep(2.5 * PERIOD_S + 0.5)
    reported = [each for each in warnings.messages if "not logged" not in each]
    counts = [int(each.split()[0]) for each in warnings.messages if "not logged" in each]
    assert len(reported) == 3 * LOGGED_MAX
    assert len(counts) == 3
    restarts = sum(each.startswith("+a#") for each in log) - 1
    assert sum(counts) + len(reported) == log.count("-a crashed") + restarts


async def test_a_host_may_do_without(autojump_clock, warnings):
    log = Log()
    spec = SupervisorSpec(children=(log.child("a"),))
    async with open_system("n0", spec, log_crashes=False) as system:
        await system.ref("/n0/a").tell(Crash())
        await settle()
    assert log == ["+a#1", "-a crashed", "+a#2", "-a shutdown"]
    assert warnings.records == []
