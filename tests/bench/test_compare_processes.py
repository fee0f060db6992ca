"""The comparison on real processes: faults that are real ones, logs that are read back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import compare_script
import pytest
import trio
from bench_kit import workplace
from compare import scripted
from compare_processes import run_processes
from compare_run import CONTENDERS
from interop_processes import Processes

pytestmark = [pytest.mark.real_io, pytest.mark.timeout(300)]

SCRIPT = """\
at 0.5 kill leader for 3 extra 0.5
at 5 pause follower for 0.5
at 6 cut leader follower for 0.5
"""
PAUSE_S = 0.1
"""Clients that leave the machine to others."""
SMALL = {
    "classic": {"segment_bytes": 1 << 20},
    "dledger fast": {"data_file_bytes": 1 << 20, "index_file_bytes": 1 << 20},
}
"""Files that a node has read in no time when it starts again after a kill: all of one, up to its
last byte. Those of 1 GiB are the measurement's.
"""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_script, "REST_S", 0.5)
    for name, sizes in SMALL.items():
        monkeypatch.setitem(CONTENDERS, name, {**CONTENDERS[name], **sizes})


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Path, Processes]]:
    with workplace(tmp_path) as found:
        yield found


def host() -> str:
    """Addresses that no other run of these tests has at the same time."""
    return f"127.{40 + os.getpid() % 200}.{os.getpid() // 200 % 250}"


@pytest.mark.parametrize("contender", ["classic", "dledger fast"])
def test_a_tiny_run(contender: str, place: tuple[Path, Processes]) -> None:
    folder, processes = place
    faults = scripted(SCRIPT, "0")
    run = trio.run(
        partial(run_processes, contender, folder / "run", host(), processes, faults, PAUSE_S)
    )
    assert run.audit.good
    assert run.audit.acknowledged > 0
    assert len(run.outages) == 3
    assert None not in run.outages
    assert "append p99 ms" in run.figures(timed=True)
    assert all(not process.running for process in processes.started)
