"""Java properties files: bytes to keys and values, each with the line that it begins in.

Upstream: RocketMQ reads its files with java.util.Properties.load (JDK 8 and later).
Differs: a file may be UTF-8 (`wire.dledger.files.properties_text`). A key that is given twice is
not forgotten, so that it can be spoken of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs

from actors.errors import ConfigError
from wire.dledger.files import properties_text
from wire.errors import RemoteProtocolError

_BLANKS: Final = " \t\f"
_BREAKS: Final = re.compile("\r\n|\r|\n")
_SEPARATORS: Final = "=:"
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE: Final = re.compile("[0-9A-Fa-f]{4}")


@attrs.frozen
class Entry:
    """One key of a file.

    Attributes:
        key: without escapes.
        value: without escapes; blanks at its end belong to it, as in Java.
        line: the number of the line that it begins in, from 1.
    """

    key: str
    value: str
    line: int


def parse_properties(data: bytes, file: str) -> tuple[Entry, ...]:
    """All entries of a file, in its order; of a key that comes twice, both.

    Args:
        file: its name, for problems.

    Raises:
        ConfigError: one line; an escape that Java refuses too, or UTF-16, of which Java makes keys
            that mean nothing.
    """
    try:
        whole = properties_text(data)
    except RemoteProtocolError as error:
        raise ConfigError(f"{file}: {error}") from None
    return tuple(_entry(text, line, file) for text, line in _logical_lines(whole))


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Lines with what continues them, and where each begins; no comments and no blank ones."""
    pieces: list[str] = []
    begin = 0
    for number, raw in enumerate(_BREAKS.split(text), 1):
        line = raw.lstrip(_BLANKS)
        if not pieces and (not line or line[0] in "#!"):
            continue
        if not pieces:
            begin = number
        if _is_continued(line):
            pieces.append(line[:-1])
            continue
        pieces.append(line)
        if joined := "".join(pieces):
            yield joined, begin
        pieces = []
    if joined := "".join(pieces):
        yield joined, begin


def _is_continued(line: str) -> bool:
    """An odd number of backslashes at its end: the last one is no escaped backslash."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _entry(text: str, line: int, file: str) -> Entry:
    end = _key_end(text)
    begin = _without_blanks(text, end)
    if begin < len(text) and text[begin] in _SEPARATORS:
        begin = _without_blanks(text, begin + 1)
    where = f"{file}:{line}"
    return Entry(_unescaped(text[:end], where), _unescaped(text[begin:], where), line)


def _key_end(text: str) -> int:
    """Where the key ends: before the first blank, = or : that no backslash stands before."""
    at = 0
    while at < len(text) and text[at] not in _BLANKS + _SEPARATORS:
        at += 2 if text[at] == "\\" else 1
    return min(at, len(text))


def _without_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _unescaped(text: str, where: str) -> str:
    """Raises: ConfigError: what follows backslash and u is no character."""
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            out.append(text[at])
            at += 1
            continue
        letter = text[at + 1 : at + 2]
        if letter == "u":
            digits = text[at + 2 : at + 6]
            if _UNICODE.fullmatch(digits) is None:
                expected = "four hexadecimal digits after \\u"
                raise ConfigError(f"{where}: expected {expected}, found {digits!a}")
            out.append(chr(int(digits, 16)))
            at += 6
        else:
            out.append(_LETTERS.get(letter, letter))
            at += 2
    return _paired("".join(out), where)


def _paired(text: str, where: str) -> str:
    """Two escapes may make one character; half a one is none."""
    try:
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: expected a character, found half a surrogate pair") from None
