"""Fixtures of the interoperability tests, and the rule for machines without Java or Maven.

There the tests marked `interop` are skipped, and one line at the end says why; with CI=true that is
a failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop_processes import Processes
from interop_rocketmq import Driver, NameServer, fetch_jars, what_is_missing

pytest.register_assert_rewrite("interop_checks", "interop_logs", "interop_nodes")

SKIPPED_COUNT = pytest.StashKey[int]()


def skips_are_failures() -> bool:
    return os.environ.get("CI", "").lower() == "true"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("interop") is None:
        return
    missing = what_is_missing()
    if missing is None:
        return
    if skips_are_failures():
        pytest.fail(f"interop tests have to run where CI=true, but {missing}", pytrace=False)
    item.config.stash[SKIPPED_COUNT] = item.config.stash.get(SKIPPED_COUNT, 0) + 1
    pytest.skip(missing)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    count = config.stash.get(SKIPPED_COUNT, 0)
    if count:
        missing = what_is_missing()
        terminalreporter.write_line(f"interop: {count} skipped, {missing}")


@pytest.fixture(scope="session")
def jars() -> Path:
    return fetch_jars()


@pytest.fixture(scope="session")
def session_processes() -> Iterator[Processes]:
    processes = Processes()
    yield processes
    processes.end()


@pytest.fixture
def processes() -> Iterator[Processes]:
    processes = Processes()
    yield processes
    processes.end()


@pytest.fixture(scope="session")
def name_server(
    jars: Path, session_processes: Processes, tmp_path_factory: pytest.TempPathFactory
) -> NameServer:
    return NameServer.start(session_processes, jars, tmp_path_factory.mktemp("name-server"))


@pytest.fixture(scope="session")
def driver(
    jars: Path,
    session_processes: Processes,
    name_server: NameServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Driver:
    folder = tmp_path_factory.mktemp("driver")
    return Driver.start(session_processes, jars, folder, name_server.port)
