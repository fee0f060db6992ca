"""Commands on the tests' Spark session: starting another one takes seconds. And what they do that
takes long and has tests of its own, left out or done once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from pyspark.sql import SparkSession

from actors.pipeline import command_line, steps
from actors.pipeline.audits import judging
from actors.pipeline.locations import Location
from actors.pipeline.verdicts import Verdict, Verdicts


class Kept:
    """The tests' session, which a command must not end for the others."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def stop(self) -> None:
        pass


@pytest.fixture
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_line, "open_session", lambda profile: Kept(spark))


@pytest.fixture
def no_gold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of gold have tests of their own, and no audit reads them."""
    monkeypatch.setattr(steps, "run_gold", lambda *_: None)


@attrs.define
class JudgedOnce:
    """All audits over one data directory, which are run for who asks first; others are told the
    same verdicts, one by one.
    """

    run: Callable[..., Verdicts]
    found: dict[str, Verdicts] = attrs.field(factory=dict)

    def __call__(
        self, spark: SparkSession, out: Location, data: Location, tell: Callable[[Verdict], None]
    ) -> Verdicts:
        if str(data) not in self.found:
            self.found[str(data)] = self.run(spark, out, data, tell)
            return self.found[str(data)]
        for verdict in self.found[str(data)].audits:
            tell(verdict)
        return self.found[str(data)]


ONCE = JudgedOnce(judging.run)


@pytest.fixture
def judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For commands over the fixture `day`, which are several."""
    monkeypatch.setattr(judging, "run", ONCE)


def no_session(profile: object) -> None:
    raise AssertionError("Java was started for a mistake that can be seen without it")


def failing(error: Exception, *_: object) -> None:
    raise error
