"""Scripts of auto-switch HA's traps: replicas and their epochs, and a master's sync state set.

The first command of a script makes what the others are about (`replicas`, `set`). "ours" are the
product's decisions. "upstream" is a model of the original by the specification, for no code of ours
does as it does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from script_format import Script
from script_words import split

sys.path.append(str(Path(__file__).parents[1] / "ha"))

from autoswitch_replicas import Replicas
from autoswitch_set import Sets

PARTS: dict[str, Callable[[str], Any]] = {"replicas": Replicas, "set": Sets}

_LATER = "of role changes, brokers and controllers"
_OF: dict[str, str] = {
    "2": "of a connection's headers: tests/ha/test_ha_autoswitch_dialect.py",
    **dict.fromkeys(("4", "10", "23"), "of files: tests/storage/test_storage_epochs.py"),
    **dict.fromkeys(("24", "47"), "of bytes: tests/wire/test_wire_ha_autoswitch.py"),
    "46": "all times are Trio's",
    **{str(number): _LATER for number in (6, 7, 11, 13, 18, 21, 22, 25, *range(30, 46), 48)},
}
WITHOUT = {f"T{number}": why for number, why in _OF.items()}
"""Traps of autoswitch-ha.md 9 without a script, and why."""


def outputs(script: Script, setting: str) -> list[list[str]]:
    """What each command prints under a setting."""
    part: Any = None
    found: list[list[str]] = []
    for step in script.steps:
        (name, *rest), options = split(step.line, setting)
        if part is None:
            part = PARTS[name](setting)
            found.append(part.made(*rest, **options))
        else:
            found.append(getattr(part, f"do_{name}")(*rest, **options))
    return found
