"""How the measurements' figures are shown."""

from __future__ import annotations

import pytest
from bench_kit import Figures, percentiles_ms


def test_figures_show_their_spread_and_their_goals(capsys: pytest.CaptureFixture[str]) -> None:
    figures = Figures("title", ("k_per_s", "p50_ms"))
    for rate in (30.0, 10.0, 20.0):
        figures.add("ours", k_per_s=rate)
        figures.add("Java", k_per_s=10.0, p50_ms=1.0)
    figures.add("once", k_per_s=5.0)
    figures.show(
        [("ours", "Java", "k_per_s", "at least 2"), ("ours", "once", "k_per_s", "")],
        [("ours", "k_per_s", "at least 250"), ("nobody", "k_per_s", "at least 1")],
    )
    lines = [line for line in capsys.readouterr().out.splitlines() if line[:4] not in ("JSON", "")]
    assert [" ".join(line.split()) for line in lines] == [
        "title",
        "k_per_s p50_ms",
        "ours 20 (10-30)",
        "Java 10 (10-10) 1 (1-1)",
        "once 5",
        "ours / Java, k_per_s: 2.00 (wanted: at least 2)",
        "ours / once, k_per_s: 6.00",
        "ours, k_per_s: 20.00 (wanted: at least 250)",
    ]
    assert len({len(line) for line in lines[2:4]}) == 1, "columns stand below each other"


def test_percentiles_of_nothing_are_left_out() -> None:
    """A group that answered nothing in a turn has a rate of 0, and the others go on."""
    assert percentiles_ms([]) == {}
    assert percentiles_ms([0.003, 0.001, 0.002]) == {"p50_ms": 2.0, "p99_ms": 3.0}
