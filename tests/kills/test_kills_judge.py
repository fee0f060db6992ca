"""The judge of `make kills` objects to what must not be; the run takes only a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kills_run
import pytest
from kills_clients import Clients, Files, judged
from kills_nodes import CLASSIC, NODES

from actors.sim.judges.linear.log import Append, ReadLog, Shown

SIZE = 100
BODIES = ("one", "two", "three")


def records(*bodies: str, first: int = 0) -> Iterator[dict[str, Any]]:
    for place, body in enumerate(bodies, first):
        yield {"offset": place * SIZE, "size_bytes": SIZE, "body": body}


def heard() -> Clients:
    """Three appends, one after the other, each acknowledged."""
    clients = Clients("cluster.toml")
    for number, body in enumerate(BODIES, 1):
        call = clients.recorder.call("a", Append(body.encode()), key=CLASSIC)
        clients.recorder.answer(call, number * SIZE - 1)
    return clients


def everywhere(*bodies: str, first: int = 0) -> dict[tuple[str, str], Files]:
    return {(CLASSIC, node): Files.of(CLASSIC, records(*bodies, first=first)) for node in NODES}


def test_what_was_acknowledged_is_everywhere() -> None:
    assert judged(heard(), everywhere(*BODIES)) == []


def test_deleted_files_are_no_loss() -> None:
    clients = heard()
    call = clients.recorder.call("r", ReadLog(0), key=CLASSIC)
    clients.recorder.answer(call, Shown(entries=((299, b"three"),), next=300, end=300))
    assert judged(clients, everywhere("three", first=2)) == []


@pytest.mark.parametrize(
    "bodies",
    [("one", "two"), ("one", "three", "two"), ("one", "two", "other")],
    ids=["lost", "in another order", "with another body"],
)
def test_one_node_that_differs_is_reported(bodies: tuple[str, ...]) -> None:
    files = everywhere(*BODIES)
    files[CLASSIC, "n1"] = Files.of(CLASSIC, records(*bodies))
    assert any("n1 lacks" in line for line in judged(heard(), files))


def test_a_fresh_read_that_missed_something_is_reported() -> None:
    clients = heard()
    call = clients.recorder.call("r", ReadLog(0, fresh=True), key=CLASSIC)
    clients.recorder.answer(call, Shown(entries=((99, b"one"),), next=100, end=100))
    assert any("not linearizable" in line for line in judged(clients, everywhere(*BODIES)))


def test_a_folder_with_somebody_s_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    script = Path(kills_run.__file__)
    done = subprocess.run(
        [sys.executable, str(script), "--folder", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "files of somebody else: mine" in done.stderr
    assert (tmp_path / "mine").exists()
