"""Fixtures of the interoperability tests, and the rule for machines without Java or Maven.

There the tests marked `interop` are skipped, and one line at the end says why; with CI=true that is
a failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop_java_dledger import JavaDLedger, compiled
from interop_processes import Processes
from interop_rocketmq import DLEDGER_0_2_7, Driver, NameServer, fetch_jars, what_is_missing

INTEROP = "interop"


def skips_are_failures() -> bool:
    return os.environ.get("CI", "").lower() == "true"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker(INTEROP) is None:
        return
    missing = what_is_missing()
    if missing is None:
        return
    if skips_are_failures():
        pytest.fail(f"interop tests have to run where CI=true, but {missing}", pytrace=False)
    pytest.skip(missing)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", ())
    count = sum(INTEROP in report.keywords for report in skipped)
    if count:
        terminalreporter.write_line(f"interop: {count} skipped, {what_is_missing()}")


@pytest.fixture(scope="session")
def jars() -> Path:
    return fetch_jars()


@pytest.fixture(scope="session")
def java(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> JavaDLedger:
    """DLedger 0.3.1.2, as RocketMQ 5.3.3 ships it."""
    return JavaDLedger(jars, compiled(jars, tmp_path_factory.mktemp("classes")))


@pytest.fixture(scope="session")
def java_0_2_7(java: JavaDLedger) -> JavaDLedger:
    return JavaDLedger(fetch_jars(DLEDGER_0_2_7), java.classes, binds=False)


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
