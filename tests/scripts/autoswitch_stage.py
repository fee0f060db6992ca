"""Scripts of auto-switch HA's traps: of replicas' epochs, a master's sync state set, controllers.

The first command of a script makes what the others are about (`replicas`, `set`, `controllers`).
"ours" are the product's decisions. "upstream" is a model of the original by the specification, for
no code of ours does as it does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from script_format import Script
from script_words import split

sys.path.append(str(Path(__file__).parents[1] / "ha"))

from autoswitch_controllers import Controllers
from autoswitch_replicas import Replicas
from autoswitch_set import Sets

PARTS: dict[str, Callable[[str], Any]] = {
    "controllers": Controllers,
    "replicas": Replicas,
    "set": Sets,
}

_OF: dict[str, str] = {
    "2": "of a connection's headers: tests/ha/test_ha_autoswitch_dialect.py",
    **dict.fromkeys(("4", "10", "23"), "of files: tests/storage/test_storage_epochs.py"),
    "6": "of what stands behind the last whole message: tests/broker/test_broker_role_changes.py",
    "7": "of a failed change of the role: tests/controller/test_controller_replicas.py",
    "18": "of an iterator of Java's that fails; ours replaces sets as a whole",
    "21": "right as it is: tests/broker/test_broker_role_changes.py",
    "22": "of queues: tests/broker/test_broker_role_changes.py",
    "25": "of what a slave cannot take: tests/ha/test_ha_autoswitch_slave.py",
    **dict.fromkeys(("31", "32"), "of jRaft, which ours is not built on"),
    "34": "of whom a replica asks: tests/controller/test_controller_replicas.py",
    "38": "of a request as a sign of life: tests/controller/test_controller_actor.py",
    "40": "of topics: tests/metadata/test_metadata_tables.py",
    **dict.fromkeys(("41", "42"), "of names, and of addresses that are guessed; ours has neither"),
    "43": "of an answer's bytes: tests/wire/test_wire_broker_registration.py",
    "44": "of the controllers' log: tests/controller/test_controller_machine.py",
    "45": "a configuration's note: tests/config/test_config_autoswitch.py",
    "46": "all times are Trio's",
    "47": "of bytes: tests/wire/test_wire_ha_autoswitch.py",
    "48": "of a pool of buffers that ours does not have",
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
