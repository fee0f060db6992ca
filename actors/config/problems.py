"""What is wrong with a cluster file: the key, what was expected there, and what was found."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from actors.config.bounds import FOUND_CHARS_MAX

KeyPath = tuple[str | int, ...]
NOTHING = object()
"""What is found where a required key is missing."""


@attrs.frozen
class Problem:
    """One thing that is wrong with a file.

    Attributes:
        key: where; () for the whole file.
        expected: in words.
        found: in words.
        depends_on: other keys whose values led to it.
    """

    key: KeyPath
    expected: str
    found: str
    depends_on: tuple[KeyPath, ...] = ()

    def line(self, file: str) -> str:
        """The one line that the user reads."""
        return f"{file}: key {dotted(self.key)}: expected {self.expected}, found {self.found}"


def dotted(key: KeyPath) -> str:
    """The key as it would be written in TOML, with list positions in brackets."""
    out = ""
    for part in key:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            bare = re.fullmatch(r"[A-Za-z0-9_-]+", part)
            out += ("." if out else "") + (part if bare else describe(part))
    return out


def describe(found: object) -> str:
    """A found value in TOML's spelling, on one line and not too long."""
    match found:
        case bool():
            return "true" if found else "false"
        case str():
            text = json.dumps(found, ensure_ascii=not found.isprintable())
        case Mapping():
            return "a table"
        case list() | tuple():
            text = "[" + ", ".join(describe(one) for one in found[:8])
            text += ", ...]" if len(found) > 8 else "]"
        case int() if abs(found) >= 10**FOUND_CHARS_MAX:
            return f"an integer of more than {FOUND_CHARS_MAX} digits"
        case _ if found is NOTHING:
            return "nothing"
        case _:
            text = str(found)
    return text if len(text) <= FOUND_CHARS_MAX else text[: FOUND_CHARS_MAX - 3] + "..."


def suggestion(word: str, known: Any) -> str:
    """` (did you mean X?)`, or nothing if no known word is near, or only one is known."""
    if len(known) == 1:
        return ""
    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ""


def one_of(word: str, known: Sequence[str]) -> str:
    """What was expected where `word` was found: `one of n0, n1 (did you mean n1?)`, or `n0`."""
    if len(known) == 1:
        return known[0]
    return f"one of {', '.join(known)}{suggestion(word, known)}"
