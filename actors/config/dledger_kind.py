"""What the cluster file needs of `mode = "dledger"`: its keys, rules, guarantees and terms."""

from __future__ import annotations

from typing import Final

from actors.config.dledger import DLedgerGroup
from actors.config.dledger_guarantees import ledger_guarantee, ledger_rows
from actors.config.dledger_rules import ledger_problems
from actors.config.kind import ConfigKind, Terms
from actors.readable import counted, size


def _fresh_read(group: DLedgerGroup) -> str:
    members = len(group.members)
    return (
        f"is confirmed by the leader and a majority, {members // 2 + 1} of"
        f" {counted(members, 'member')},"
        " asked since it came"
    )


def _rows(group: DLedgerGroup) -> list[tuple[str, str]]:
    leak_s = group.heartbeat_interval_s * group.heartbeat_leaks
    quota = group.push_quota_bytes_per_s
    return [
        (
            "a leader",
            f"sends a heartbeat every {group.heartbeat_interval_s:g} s; after {leak_s:g} s without"
            " one, members elect another",
        ),
        (
            "a campaign",
            f"begins {group.vote_interval_min_s:g} to {group.vote_interval_max_s:g} s later",
        ),
        (
            "pushes",
            f"at most {group.pending_max} unanswered to each member, "
            + (f"{size(quota)}/s to one far behind" if quota else "no rate limit"),
        ),
        (
            "files",
            f"{size(group.data_file_bytes)} each, deleted {group.file_reserved_time_h} h after the"
            " last write"
            if group.store == "file"
            else "none: the log is in memory",
        ),
    ]


DLEDGER: Final = ConfigKind(
    group=DLedgerGroup,
    copiers="followers",
    callers="members and clients",
    shares_port=True,
    problems=ledger_problems,
    guarantee=ledger_guarantee,
    guarantees=ledger_rows,
    fresh_read=_fresh_read,
    rows=_rows,
    terms=Terms(unit="entries", epoch="term", acknowledged="committed"),
)
