"""`mode = "autoswitch"` as the cluster file needs it."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from actors.config.autoswitch import AutoSwitchGroup
from actors.config.autoswitch_guarantees import (
    autoswitch_guarantee,
    autoswitch_rows,
    confirmed_by,
)
from actors.config.autoswitch_rules import autoswitch_problems
from actors.config.classic_kind import commit_log_rows
from actors.config.kind import ConfigKind, Terms


def _rows(group: AutoSwitchGroup) -> list[tuple[str, str]]:
    silence_s, behind_s = (
        group.controller_heart_beat_timeout_s,
        group.ha_max_time_slave_not_catchup_s,
    )
    where = ", ".join(group.controllers) or "those of [controllers]"
    return [
        ("controllers", f"{where}; each replica says every second that it lives"),
        (
            "a silent master",
            f"acknowledges nothing after {silence_s:g} s without a controller, and is replaced",
        ),
        ("a replica that lags", f"leaves the sync state set after {behind_s:g} s"),
        *commit_log_rows(group),
    ]


AUTOSWITCH: Final = ConfigKind(
    group=AutoSwitchGroup,
    copiers="replicas",
    callers="replicas",
    shares_port=False,
    problems=autoswitch_problems,
    guarantee=autoswitch_guarantee,
    guarantees=autoswitch_rows,
    fresh_read=confirmed_by,
    rows=_rows,
    broker_ports=attrgetter("broker_ports"),
    terms=Terms(leader="master", peer="replica", epoch="epoch", since="in"),
)
