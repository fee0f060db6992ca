"""Every test gets a schedule of its own from SIM_SEED and its node id; failures show how to repeat.

Seeded twice: before the run, and when the test's own body begins, because pytest-trio starts
fixtures in an order that follows memory addresses.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Generator
from typing import Any

import pytest
import trio

from actors.sim import scheduler

SIM_SEED = os.environ.get("SIM_SEED", "0")


def schedule_seed(item: pytest.Item) -> str:
    return f"{SIM_SEED}:{item.nodeid}"


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
