"""`mode = "classic"` as the cluster file needs it."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from actors.config.bounds import RECONNECT_FIRST_S
from actors.config.classic import ClassicGroup
from actors.config.classic_guarantees import classic_guarantee, classic_rows, confirmed_by
from actors.config.classic_rules import classic_problems
from actors.config.commit_log_group import CommitLogGroup
from actors.config.kind import ConfigKind, Terms
from actors.readable import size


def commit_log_rows(group: CommitLogGroup) -> list[tuple[str, str]]:
    """Return the rows of `ConfigKind.rows` that all groups with a commit log have."""
    limit = group.max_ha_transfer_bytes_per_s
    return [
        (
            "an idle link",
            f"has a heartbeat every {group.ha_send_heartbeat_interval_s:g} s"
            f" and ends after {group.ha_housekeeping_interval_s:g} s of silence",
        ),
        (
            "a slave connects",
            f"within {group.connect_timeout_s:g} s, {_again(group.reconnect_interval_s)}",
        ),
        (
            "frames",
            f"at most {size(group.frame_bytes)}, "
            + (f"{size(limit)}/s for each slave" if limit else "no rate limit"),
        ),
        (
            "files",
            f"{size(group.segment_bytes)} each, deleted {group.file_reserved_time_h} h after the"
            f" last write; appends are refused above {group.disk_full_ratio:.0%} of the disk",
        ),
    ]


def _again(interval_s: float) -> str:
    first_s = min(RECONNECT_FIRST_S, interval_s)
    return f"again after {first_s:g} s, then after twice as long each time, up to {interval_s:g} s"


CLASSIC: Final = ConfigKind(
    group=ClassicGroup,
    copiers="slaves",
    callers="slaves",
    shares_port=False,
    problems=classic_problems,
    guarantee=classic_guarantee,
    guarantees=classic_rows,
    fresh_read=confirmed_by,
    rows=commit_log_rows,
    broker_ports=attrgetter("broker_ports"),
    terms=Terms(leader="master", peer="slave", epoch="promotion", since="by"),
)
