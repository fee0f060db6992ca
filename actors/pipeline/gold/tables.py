"""The gold tables by name. A new subject is a module beside this one and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame

from actors.pipeline.gold.elections import elections, failovers, role_changes
from actors.pipeline.gold.lag import lag
from actors.pipeline.gold.latency import latency
from actors.pipeline.gold.outages import outages
from actors.pipeline.gold.restarts import pressure, restarts
from actors.pipeline.gold.roles import roles
from actors.pipeline.gold.throughput import resent, throughput
from actors.pipeline.gold.turns import turns

TABLES: Final[Mapping[str, Callable[[DataFrame], DataFrame]]] = {
    "lag": lag,
    "latency": latency,
    "throughput": throughput,
    "roles": roles,
    "role_changes": role_changes,
    "elections": elections,
    "failovers": failovers,
    "outages": outages,
    "restarts": restarts,
    "pressure": pressure,
    "turns": turns,
    "resent": resent,
}
"""By name, the function that makes the table from silver's `events`."""
