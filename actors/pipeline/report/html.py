"""HTML in which a plain string is always text: only `element` and `joined` make markup.

What stands in an event log may have come over the wire. So each string is escaped, and what would
not be seen, or would turn the rest of the line around, is shown as its code.

`for_page` makes a picture inside a page of matplotlib's SVG. Its colours become variables of the
page, its names unique, its fonts the page's, its numbers short; what is only for files of their own
goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from xml.etree import ElementTree as ET

import attrs

from actors.readable import readable

_VOID = ("meta", "link", "br")


@attrs.frozen
class Html:
    """Markup whose elements are closed and whose text is escaped."""

    markup: str

    def __str__(self) -> str:
        return self.markup


def text(value: str) -> Html:
    """Return a string as escaped text."""
    return Html(escape(readable(value), quote=True))


def element(name: str, /, *inside: Html | str, **attributes: str | bool) -> Html:
    """Return one element. Strings inside are taken as text, not as markup.

    Args:
        attributes: the attributes by name: `class_` becomes class, `aria_label` aria-label. The
            value True gives an attribute without a value, and False none.
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
    """Return the parts one after the other. Strings are taken as text, not as markup."""
    return Html("".join(str(each) if isinstance(each, Html) else str(text(each)) for each in parts))


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_HREF = f"{{{_XLINK}}}href"
_FONT = re.compile(r"\s*font-family:[^;]*;?")
_COLOR = re.compile(r"#[0-9a-f]{6}")
_LONG = re.compile(r"(-?\d+\.\d{2})\d+")
_SPACE = re.compile(r"\s+")
_LINK = re.compile(r"url\(#([^)]*)\)")
_NUMBERS = ("d", "x", "y", "width", "height", "transform", "points")


def for_page(
    drawn: str,
    name: str,
    title: str,
    says: str,
    variables: Mapping[str, str],
    tips: Mapping[str, str],
) -> Html:
    """Return one picture as SVG for a page.

    Args:
        drawn: a file of SVG as matplotlib writes it.
        name: the name of the picture, unique on the page. Every id begins with it.
        title, says: a title and a sentence about what the picture shows, for readers who do not
            see it.
        variables: by colour, in lower case, the variable of CSS that replaces it.
        tips: by the id of an element, the text that is shown while a reader points at it.
    """
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    root = ET.fromstring(drawn)
    _drop(root, ("metadata", "style"))
    linked = _linked(root)
    for each in root.iter():
        identity = each.attrib.pop("id", "")
        if identity in tips:
            tip = ET.Element(f"{{{_SVG}}}title")
            tip.text = tips[identity]
            each.insert(0, tip)
        if identity in linked:
            each.set("id", f"{name}-{identity}")
        _mend(each, name, variables)
    for own_size in ("width", "height"):
        root.attrib.pop(own_size, None)
    root.attrib.update(
        {"role": "img", "class": "drawn", "aria-labelledby": f"{name}-title {name}-says"}
    )
    for number, (tag, words) in enumerate((("title", title), ("desc", says))):
        said = ET.Element(f"{{{_SVG}}}{tag}", {"id": f"{name}-{('title', 'says')[number]}"})
        said.text = words
        root.insert(number, said)
    return Html(ET.tostring(root, encoding="unicode"))


def _drop(root: ET.Element, names: tuple[str, ...]) -> None:
    gone = {f"{{{_SVG}}}{name}" for name in names}
    for parent in list(root.iter()):
        for child in [each for each in parent if each.tag in gone]:
            parent.remove(child)


def _linked(root: ET.Element) -> set[str]:
    """Return the ids to which an element refers."""
    found: set[str] = set()
    for each in root.iter():
        found.update(_LINK.findall(" ".join(each.attrib.values())))
        if _HREF in each.attrib:
            found.add(each.attrib[_HREF].removeprefix("#"))
    return found


def _mend(each: ET.Element, name: str, variables: Mapping[str, str]) -> None:
    if _HREF in each.attrib:
        each.set("href", f"#{name}-{each.attrib.pop(_HREF).removeprefix('#')}")
    for key in ("fill", "stroke"):  # only CSS knows variables
        if _COLOR.fullmatch(each.get(key, "")):
            each.set("style", f"{key}: {each.attrib.pop(key)}; {each.get('style', '')}")
    for key, value in list(each.attrib.items()):
        value = _LINK.sub(rf"url(#{name}-\1)", value)
        if key == "style":
            value = _COLOR.sub(lambda found: _variable(found[0], variables), _FONT.sub("", value))
        if key in _NUMBERS:
            value = _SPACE.sub(" ", _LONG.sub(r"\1", value)).strip()
        each.set(key, value)
    if each.text and not each.text.strip():
        each.text = None
    each.tail = None


def _variable(color: str, variables: Mapping[str, str]) -> str:
    return f"var(--{variables[color]})" if color in variables else color
