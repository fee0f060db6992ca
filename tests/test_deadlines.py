"""No test fails because the machine is slow."""

from __future__ import annotations

from hypothesis import settings


def test_no_example_has_a_deadline() -> None:
    assert settings().deadline is None
