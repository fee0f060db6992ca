"""One Spark session for all tests, and the rule for machines on which none can be.

The extra `pipeline` brings a Java, so only a venv without the extra lacks anything: there the tests
are left out, and one line at the end says so; with CI=true that is a failure.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from logs_kit import Day, simulate

from actors.pipeline import session as session_module
from actors.pipeline.session import Profile, close_session, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MISSING = importlib.util.find_spec("pyspark") is None
NO_PICTURES = importlib.util.find_spec("matplotlib") is None
"""The extra was installed before it had the report."""
if os.environ.get("CI", "").lower() != "true":
    collect_ignore_glob = ["test_*.py"] if MISSING else []
    if NO_PICTURES:
        collect_ignore_glob += ["test_pipeline_page.py", "test_pipeline_report.py"]

START_TIMEOUT_S = 600
"""Java starts within five seconds, and within a minute where ten others want the processor."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(START_TIMEOUT_S))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if MISSING:
        terminalreporter.write_line("pipeline: not run, the extra is not installed: make test")
    elif NO_PICTURES:
        terminalreporter.write_line("pipeline: report not run, matplotlib is missing: make test")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Local, two cores; what it writes beside the tests' own folders is in this run's folder."""
    session = open_session(Profile.TEST, scratch=tmp_path_factory.mktemp("spark"))
    yield session
    close_session(session)  # else Java and who filters its words outlive the last test
    assert [each.pid for each in session_module._listeners if each.returncode is None] == []


@pytest.fixture(scope="session")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    """The event logs of one simulated day. Not to be changed: copy it."""
    folder = tmp_path_factory.mktemp("day")
    return Day(folder, simulate(folder))
