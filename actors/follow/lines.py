"""What `follow` prints about a copy: lines for people, and JSON for programs."""

from __future__ import annotations

import json
from typing import Any, Final

from actors.env.protocols import Address
from actors.errors import CorruptLog
from actors.follow.copy import CopyStatus
from actors.ha.core.states import Lost
from actors.readable import duration, size
from actors.storage.commitlog.recovery import CURE, UNLIKE, smaller_files

AWAY: Final = "not connected"
"""The state that `state_of` returns for a copy whose connection failed."""
_ANEW: Final = (
    "`storage check DIR` says whether this copy is damaged; if it is not, set the folder aside, and"
    " begin another copy"
)
_CUT: Final = (
    "it goes on once `storage truncate DIR OFFSET --force` has cut off what is damaged and all"
    " behind it"
)
ADVICE: Final = {
    Lost.FOREIGN_LOG: f"{_ANEW}; {_CUT}",
    Lost.OFFSET_MISMATCH: _ANEW,
    Lost.UNALIGNED: "the broker's files have another size: give its mappedFileSizeCommitLog as"
    " --segment-bytes; the offset that it sent is a multiple of it",
    Lost.BAD_RECORD: "the broker's file is damaged, or larger than this copy's: then set the folder"
    " aside, and begin another copy with its mappedFileSizeCommitLog as --segment-bytes; where the"
    f" broker's file was mended, {_CUT}",
    Lost.DAMAGED: f"`storage check DIR` says where; {_CUT}",
}
_OF_NODES: Final = {CURE: _CUT, UNLIKE: ADVICE[Lost.BAD_RECORD]}
"""What is said to nodes about a damaged log, and what about a copy in its place."""


def damage_text(error: CorruptLog) -> str:
    """Describe why a copy cannot be opened, or go on, and what to do, for people."""
    text = str(error)
    for ours, copys in _OF_NODES.items():
        text = text.replace(ours, copys)
    return _size_text(text) or text


def _size_text(why: str) -> str:
    """Describe that a copy ended since the broker's files are smaller; "": that is not the reason.

    Whoever reads the copy's bytes first says so: the verifier, the scrub or the next start.
    """
    size_bytes = smaller_files(why)
    if size_bytes is None:
        return ""
    return (
        f"the broker's files have {size_bytes} bytes, this copy's have more; nothing was"
        f" overwritten: set the folder aside, and begin another copy with --segment-bytes"
        f" {size_bytes}"
    )


def start_text(master: Address, folder: str, *, passive: bool) -> str:
    """Describe what a copy does to the broker that it follows, for people."""
    if passive:
        what = (
            "--passive: each connection says once where this copy goes on, and nothing later;"
            " a SYNC_MASTER can count only what came before"
        )
    else:
        what = (
            "it counts this copy as a slave, whose reports can satisfy a SYNC_MASTER"
            " (--passive: hardly ever)"
        )
    return f"{master} into {folder}: {what}"


def late_text(status: CopyStatus) -> str:
    """Describe what a new copy lacks, as a stock master does not send it, for people."""
    return (
        f"this copy begins at offset {status.begin}: a stock master sends an empty slave its last"
        " file only. To have all: stop, empty the folder, put a copy of the master's store there"
        " (OPERATING.md, Following a broker), and start again"
    )


def nothing_text(status: CopyStatus) -> str:
    """Describe that an idle master with an empty last file has nothing to copy, for people."""
    return (
        f"this copy has nothing: the master's log ends at offset {status.master_end}, where a file"
        " begins, and a stock master sends an empty slave its last file only. To have all: put a"
        " copy of the master's store there (OPERATING.md, Following a broker), and start again"
    )


def final_text(status: CopyStatus) -> str:
    """Describe why a copy cannot go on and what to do, for people."""
    assert status.final is not None
    advice = ADVICE.get(status.final, "")
    return _size_text(status.error) or f"{status.error}; nothing was overwritten: {advice}"


def state_of(status: CopyStatus | None) -> str:
    """Return the state of a copy, in a few words."""
    if status is None:
        return "starts"
    if status.no_room:
        return "waits for room"
    if not status.connected:
        return AWAY if status.error else "connects"
    if status.reported is None:
        return "compares"
    return "follows" if status.follows else "catches up"


def line_of(status: CopyStatus | None, now_ms: int) -> str:
    """Describe the status of a copy in one line, for people."""
    if status is None:
        return state_of(status)
    return _log_line(status, now_ms) + (f"; metadata: {status.metadata}" if status.metadata else "")


def _log_line(status: CopyStatus, now_ms: int) -> str:
    state = state_of(status)
    at = f"at {status.synced} ({size(status.synced - status.begin)} held)"
    if status.no_room:
        return f"waits: {status.no_room}, {at}"
    if not status.connected:
        return f"{state}, {at}" if not status.error else f"{state}: {status.error}, {at}"
    parts = [state, at, f"{size(status.bytes_per_s)}/s"]
    if status.follows:
        parts.append(f"lag {status.lag}")
    elif status.last_store_ms:
        parts.append(f"{duration(now_ms - status.last_store_ms)} behind")
    return ", ".join(parts)


def json_of(status: CopyStatus | None, master: Address, folder: str, now_ms: int) -> str:
    """Return the status of a copy as one line of JSON. Offsets are in bytes."""
    found: dict[str, Any] = {
        "at_ms": now_ms,
        "master": str(master),
        "folder": folder,
        "state": state_of(status),
    }
    if status is not None:
        found |= {
            "begin": status.begin,
            "end": status.end,
            "synced": status.synced,
            "verified": status.verified,
            "dispatched": status.dispatched,
            "reported": status.reported,
            "master_end": status.master_end,
            "lag": status.lag,
            "bytes_per_s": status.bytes_per_s,
            "last_store_ms": status.last_store_ms,
            "error": status.error,
            "no_room": status.no_room,
            "metadata": status.metadata,
            "final": None if status.final is None else status.final.name,
        }
    return json.dumps(found)
