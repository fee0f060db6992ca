"""What `check` says of memory that no key of the file bounds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cluster_kit import make_cluster

from actors.cluster.checking import fixed_memory
from actors.cluster.command_line import run_command_line
from actors.config import load
from actors.env.pipes import PIPE_BYTES, PIPES_MAX
from actors.ha.ha_client import PENDING_BYTES

FILE = Path(__file__).parents[2] / "tests" / "three_nodes.toml"


def bounds_of(node: str) -> dict[str, int]:
    return {each.what: each.size_bytes for each in fixed_memory(load(FILE)) if each.node == node}


def test_a_slave_receives_into_its_mailbox_and_into_pipes_of_the_system() -> None:
    bounds = bounds_of("n1")
    assert bounds["orders: received, in hand, waiting and in work"] == 3 * PENDING_BYTES
    assert bounds["orders: the system's pipes from socket to file"] == PIPES_MAX * PIPE_BYTES


def test_a_master_receives_nothing() -> None:
    assert not [what for what in bounds_of("n0") if "received" in what or "pipes" in what]


def test_check_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([str(FILE), "check", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["memory"]
    assert {
        "node": "n1",
        "what": "orders: the system's pipes from socket to file",
        "size_bytes": 16 << 20,
    } in rows


def test_dledger_connections_are_bounded(tmp_path: Path) -> None:
    cluster = make_cluster(tmp_path)
    ledger = 'mode = "dledger"\nport = {}\nmembers = ["n0", {}]\n'
    for name, port, others in (("one", 1, '"n1", "n2"'), ("two", 1, '"n1"'), ("three", 2, '"n1"')):
        cluster.text += f"[groups.{name}]\n" + ledger.format(cluster.port + port, others)
    found = fixed_memory(load(cluster.write()))
    bounds = {
        each.what: each.size_bytes >> 20
        for each in found
        if each.node == "n0" and not re.match("API|orders", each.what)
    }
    machine = "committed entries, if a program runs a state machine"
    recent = "appended last, for a leader's peers"
    at = "connections that all send and read the most"
    assert bounds == {
        **{f"{group}: {machine}": 32 for group in ("one", "two", "three")},
        **{f"{group}: {recent}": 10 for group in ("one", "two", "three")},
        "one: 4 connections to peers, waiting and unsent": 4 * (64 + 16),
        "two: 2 connections to peers, waiting and unsent": 2 * (64 + 16),
        "three: 2 connections to peers, waiting and unsent": 2 * (64 + 16),
        # what they share, a copy of one frame, and 1 MiB of each one's own
        f"port {cluster.port + 1}, 256 {at}": 64 + 64 + 16 + 256,
        f"port {cluster.port + 2}, 256 {at}": 64 + 64 + 16 + 256,
    }
