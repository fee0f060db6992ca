"""HTML in which a plain string is always text: only `element` and `joined` make markup.

What stands in an event log may have come over the wire. So each string is escaped, and what would
not be seen, or would turn the rest of the line around, is shown as its code.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import attrs

from actors.readable import readable

_VOID = ("meta", "link", "br")


@attrs.frozen
class Html:
    """Markup that is whole and safe."""

    markup: str

    def __str__(self) -> str:
        return self.markup


def text(value: str) -> Html:
    """A string as text."""
    return Html(escape(readable(value), quote=True))


def element(name: str, /, *inside: Html | str, **attributes: str | bool) -> Html:
    """One element. Strings inside are text.

    Args:
        attributes: `class_` is class, `aria_label` is aria-label; True is an attribute without a
            value, False none.
    """
    given = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{text(str(value))}"'
        for key, value in attributes.items()
        if value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{joined(inside)}</{name}>")


def joined(parts: Iterable[Html | str]) -> Html:
    """Parts one after the other; strings are text."""
    return Html("".join(str(each) if isinstance(each, Html) else str(text(each)) for each in parts))


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
