"""The modes whose groups a node can run; see `actors.config.kinds`."""

from __future__ import annotations

from typing import Any, Final

from actors.node.autoswitch_groups import AUTOSWITCH
from actors.node.classic_groups import CLASSIC
from actors.node.kind import NodeKind
from actors.node.ledger_groups import DLEDGER

KINDS: Final[dict[str, NodeKind[Any]]] = {
    "classic": CLASSIC,
    "dledger": DLEDGER,
    "autoswitch": AUTOSWITCH,
}
"""The kinds by the names of their modes."""
