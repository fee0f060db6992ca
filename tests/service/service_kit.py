"""What the tests of a DLedger group in a node share."""

from __future__ import annotations

from typing import Any

import attrs

from actors.config import ClusterConfig, DLedgerGroup, validate
from actors.sim.cluster import classic_config

GROUP = "ledger"


def ledger_alone(**settings: Any) -> ClusterConfig:
    """Three nodes with one group of three, in small files, and no classic group."""
    fields: dict[str, Any] = {
        "members": ("n0", "n1", "n2"),
        "data_file_bytes": 64 << 10,
        "index_file_bytes": 64 << 10,
    }
    group = DLedgerGroup(name=GROUP, **(fields | settings))
    config = attrs.evolve(classic_config(), groups={GROUP: group})
    validate(config)
    return config
