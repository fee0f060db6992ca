"""Every test gets a schedule of its own from SIM_SEED and its node id; failures show how to repeat.

Seeded twice: before the run, and when the test's own body begins, because pytest-trio starts
fixtures in an order that follows memory addresses.

What else holds for all: the order of the tests, who runs them (`work_units`), and that neither
pytest nor the processes that tests start, of which there are hundreds, compile everything again.
"""

from __future__ import annotations

import functools
import gc
import inspect
import os
import signal
import sys
from collections.abc import Generator
from typing import Any

import pytest
import trio
import work_units
from hypothesis import settings

from actors.collector import YOUNG_MAX
from actors.sim import scheduler

# Here, because tests of another room may come first and import them too.
pytest.register_assert_rewrite(
    "actors.sim.plugin",
    *("interop_checks", "interop_ledger", "interop_ledger_wire", "interop_logs", "interop_nodes"),
)

settings.register_profile("no_deadline", parent=settings.default, deadline=None)
settings.load_profile("no_deadline")  # an example took 200 ms once, on a machine that others use

SIM_SEED = os.environ.get("SIM_SEED", "0")

# Compiled modules are kept beside the sources, where git ignores them, whatever the environment
# says: else each worker compiles all tests for ten seconds, and each process all of ours for one
# third. Here, because the tests are imported next.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_configure() -> None:
    """A shell's job in the background ignores SIGINT, and so would all that the tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def schedule_seed(item: pytest.Item) -> str:
    return f"{SIM_SEED}:{item.nodeid}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> work_units.Units:
    return work_units.Units(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: work_units.position_of(item.nodeid))


def pytest_collection_finish() -> None:
    """Thousands of tests stay as they are: Python's garbage collector need not look at them again
    and again, and at what is new it looks ten times more rarely than in our own processes, as a
    test is mostly over before (measured: a twelfth of what simulated clusters take).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10 * YOUNG_MAX)


@pytest.fixture
def usual_recursion() -> Generator[None, None, None]:
    """Python's limit for nested calls: libraries of other tests may have raised it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.fixture
def autojump_clock() -> trio.abc.Clock:
    """pytest-trio's, cheaper."""
    return scheduler.virtual_clock()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    seed = schedule_seed(item)
    scheduler.seed_schedule(seed)
    test = getattr(item, "obj", None)
    if inspect.iscoroutinefunction(test) and not hasattr(test, "hypothesis"):

        @functools.wraps(test)
        async def seeded(**fixtures: Any) -> None:
            scheduler.seed_schedule(seed)
            await test(**fixtures)

        item.obj = seeded  # type: ignore[attr-defined]
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        line = f"SIM_SEED={SIM_SEED} pytest {item.nodeid!r} (trio {trio.__version__})"
        report.sections.append(("schedule", line))
