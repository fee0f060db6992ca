"""Scripts for DLedger's pure classes: each alone, a small group of them, and a member's files.

The first command of a script makes what the others are about (`member`, `leader`, `follower`,
`quorum`, `group`, `ledger`). Time stands still but for `wait` and `tick`. With the setting
"upstream" all of `CompatSettings` is on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import attrs
from script_format import Script
from script_words import split

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "dledger"), str(TESTS / "storage" / "dledger")]

from dledger_follower import Follower  # noqa: E402
from dledger_group import Group  # noqa: E402
from dledger_leader import Leader  # noqa: E402
from dledger_ledger import Ledger  # noqa: E402
from dledger_member import Member  # noqa: E402
from dledger_quorum import Appends  # noqa: E402

from actors.dledger.core.settings import STRICT, CompatSettings  # noqa: E402


class Part(Protocol):
    """What a script is about: methods `do_NAME` are its commands."""


PARTS: dict[str, Callable[..., Any]] = {
    "member": Member,
    "leader": Leader,
    "follower": Follower,
    "quorum": Appends,
    "group": Group,
    "ledger": Ledger,
}


@attrs.define
class DLedgerStage:
    """One script under one setting."""

    setting: str
    _part: Any = None

    def play(self, line: str) -> list[str]:
        """Carry out one command. Gives what it prints."""
        (name, *rest), options = split(line, self.setting)
        if name in PARTS:
            compat = CompatSettings.upstream() if self.setting == "upstream" else STRICT
            self._part = PARTS[name](compat, **options)
            printed: list[str] = self._part.made()
            return printed
        command = getattr(self._part, f"do_{name.replace('-', '_')}", None)
        assert command is not None, f"no command {name!r}"
        lines: list[str] = command(*rest, **options)
        return lines


def outputs(script: Script, setting: str) -> list[list[str]]:
    """What each command prints under a setting."""
    stage = DLedgerStage(setting)
    return [stage.play(step.line) for step in script.steps]
