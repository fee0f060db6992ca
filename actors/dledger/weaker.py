"""Settings by which a member of a synced DLedger group promises less than the group.

There is no upstream: every member of DLedger acknowledges what is in its page cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_STRICT: Final = {"durability": '"synced"', "store": '"file"', "compat": ""}
"""The settings of a member that acknowledges only what is synced, which are the defaults, as
`stated` writes them.
"""


def weaker_settings(status: Mapping[str, Any], group: str) -> str:
    """Return the settings in a node's status by which it acknowledges unsynced entries.

    Returns: the settings in one line, such as `store = "memory"`; "" for none.
    """
    settings = status.get("settings", {}).get(group, {})
    found = {key: settings.get(key, strict) for key, strict in _STRICT.items()}
    return ", ".join(f"{key} = {said}" for key, said in found.items() if said != _STRICT[key])


def weaker_text(member: str, settings: str) -> str:
    """Describe, for people, a member with such settings."""
    return (
        f"{member} counts, but its cluster file says {settings}: what is answered may be lost with"
        " its power; have all files say the same"
    )
