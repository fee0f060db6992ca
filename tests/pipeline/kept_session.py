"""Commands on the tests' Spark session: starting another one takes seconds."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from actors.pipeline import command_line


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


def no_session(profile: object) -> None:
    raise AssertionError("Java was started for a mistake that can be seen without it")


def failing(error: Exception, *_: object) -> None:
    raise error
