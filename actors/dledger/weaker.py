"""What a member of a synced DLedger group says of itself, where that is less than the group's.

No upstream: every member of DLedger acknowledges what is in its page cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_STRICT: Final = {"durability": '"synced"', "store": '"file"', "compat": ""}
"""Settings by which a member acknowledges what is on its disk, as `stated` writes them: the
defaults."""


def weaker_settings(status: Mapping[str, Any], group: str) -> str:
    """What of a node's status answer lets it acknowledge what is not on its disk; "": nothing."""
    settings = status.get("settings", {}).get(group, {})
    found = {key: settings.get(key, strict) for key, strict in _STRICT.items()}
    return ", ".join(f"{key} = {said}" for key, said in found.items() if said != _STRICT[key])


def weaker_text(member: str, settings: str) -> str:
    """What is said of such a member, for people."""
    return (
        f"{member} counts, but its cluster file says {settings}: what is answered may be lost with"
        " its power; have all files say the same"
    )
