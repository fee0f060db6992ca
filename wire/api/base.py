"""What all frames of the API socket are built from; see `wire.api.frames`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

NAME_CHARS_MAX = 255
ID_MAX = 2**53 - 1
"""JSON readers in browsers hold integers exactly up to here."""
POSITION_MAX = 2**63 - 1
NUMBER_MAX = 3 << 61
"""The largest number that is raised by one at a time, as starts and promotions. Nobody gets there;
behind a larger one there would soon be no next. Older versions took 2^62, and none above: a group
that came there by somebody's mistake goes on.
"""

Id: TypeAlias = Annotated[int, Meta(ge=0, le=ID_MAX)]
Position: TypeAlias = Annotated[int, Meta(ge=0, le=POSITION_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=POSITION_MAX)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
Pairs: TypeAlias = tuple[tuple[str, str], ...]


class Frame(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all frames: the tag stands in `type`."""
