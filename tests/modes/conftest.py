"""Registers the mode of this folder for each of its tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mirror_config import CONFIG, MODE
from mirror_node import NODE
from mirror_sim import MirrorPlan
from mirror_store import STORE

from actors.modes import GroupKind, register, unregister

sys.path.insert(0, str(Path(__file__).parents[1] / "storage"))


@pytest.fixture(autouse=True)
def mirror_mode() -> Iterator[None]:
    register(MODE, GroupKind(config=CONFIG, store=STORE, node=NODE, plan=MirrorPlan))
    yield
    unregister(MODE)
