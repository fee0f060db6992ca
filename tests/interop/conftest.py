"""Fixtures of the interoperability tests, and the rule for machines without Java or Maven.

There the tests marked `interop` are skipped, and one line at the end says why; with CI=true that is
a failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from interop_java_dledger import JavaDLedger
from interop_processes import Processes
from interop_rocketmq import Driver, NameServer
from interop_versions import NEWEST, OLDEST_DLEDGER, Peer, chosen, parametrize, what_is_missing

INTEROP = "interop"


def skips_are_failures() -> bool:
    return os.environ.get("CI", "").lower() == "true"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "peer" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("beside")
        assert mark is not None, "which versions is it for?"
        parametrize(metafunc, mark)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With PEER_VERSION: only what runs beside one of those."""
    if chosen():
        left = [item for item in items if item.get_closest_marker(INTEROP) is not None]
        left = [item for item in left if item.get_closest_marker("skip") is None]
        config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = left


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
def peer(request: pytest.FixtureRequest) -> Peer:
    """The version of this test: see `interop_versions.beside`."""
    found = request.param
    assert isinstance(found, Peer)
    return found


@pytest.fixture(scope="session")
def java_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Peer], JavaDLedger]:
    """Fetched and compiled once."""
    return cache(lambda peer: JavaDLedger.make(peer, tmp_path_factory.mktemp("classes")))


@pytest.fixture(scope="session")
def java(peer: Peer, java_of: Callable[[Peer], JavaDLedger]) -> JavaDLedger:
    return java_of(peer)


@pytest.fixture(scope="session")
def oldest(java_of: Callable[[Peer], JavaDLedger]) -> JavaDLedger:
    return java_of(OLDEST_DLEDGER)


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
    session_processes: Processes, tmp_path_factory: pytest.TempPathFactory
) -> NameServer:
    """One for brokers of all versions."""
    return NameServer.start(
        session_processes, NEWEST.jars(), tmp_path_factory.mktemp("name-server")
    )


@pytest.fixture(scope="session")
def driver(
    session_processes: Processes,
    name_server: NameServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Driver:
    """The same."""
    folder = tmp_path_factory.mktemp("driver")
    return Driver.start(session_processes, NEWEST.jars(), folder, name_server.port)
