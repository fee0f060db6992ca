"""DLedger's two small text files: `currterm` (term and vote) and `checkpoint` (L only).

Upstream: openmessaging/dledger, MemberState.java, store/file/DLedgerMmapFileStore.java
(persistCheckPoint), utils/IOUtils.java, tag dledger-all-0.3.1.2.

Both are Java properties, one `key=value` per line, LF at the end, no comments:

| File       | Keys, in Java's order    | Values                                          |
|------------|--------------------------|-------------------------------------------------|
| currterm   | voteLeader, currTerm     | id voted for in that term, empty for none; long |
| checkpoint | committedIndex, endIndex | longs, -1 for none                              |

Readers take what `java.util.Properties.load` takes: any order, comments, escapes, joined lines.

Differs:
- Text in UTF-8, too, with a mark at its beginning or without.
- A currterm that does not say both is refused: upstream starts without the missing one, and may
  vote twice in a term.
- An id that `load` would not give back as it is (backslash, leading blank, not ASCII) is refused.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

import attrs

from wire.errors import LocalProtocolError, RemoteProtocolError

TEXT_BYTES_MAX: Final = 65_536
"""The most bytes that are read of such a file; Java writes some thirty."""
CURRTERM: Final = "currterm"
CHECKPOINT: Final = "checkpoint"

_LONG = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_PLAIN_ID = re.compile(r"(?! )[ -\[\]-~]*", re.ASCII)
# A natural line, or several joined by a backslash (an odd number of them) before the line's end.
_LOGICAL = re.compile(r"(?:[^\\\r\n]|\\(?:\r\n|.)|\\\Z)+", re.DOTALL)
_BLANKS = re.compile(r"(?:[ \t\f\r\n]|\\[\r\n])*")
_COMMENT = re.compile(r"[#!][^\r\n]*")
_CONTINUED = re.compile(r"\\(?:\r\n|\r|\n)[ \t\f]*")
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.|\Z)", re.DOTALL)
_MEANING: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@attrs.frozen(kw_only=True)
class TermAndVote:
    """The file `currterm`.

    Attributes:
        term: the node's term, 0 .. 2^63-1; with upstream 0.1 also -1.
        vote_leader: the member that it voted for in that term; None for none.
    """

    term: int
    vote_leader: str | None


@attrs.frozen(kw_only=True)
class LedgerCheckpoint:
    """The file `checkpoint`.

    Attributes:
        committed_index, end_index: the two indexes when the file was written; -1 if there was none.
    """

    committed_index: int
    end_index: int


def encode_currterm(value: TermAndVote) -> bytes:
    """Encode the whole file.

    Raises:
        LocalProtocolError: the term is no long, or the id would be read as another.
    """
    vote = value.vote_leader or ""
    if not _PLAIN_ID.fullmatch(vote):
        raise LocalProtocolError(f"node id {vote!r} would not be read back as it is")
    return f"voteLeader={vote}\ncurrTerm={_checked(value.term)}\n".encode("ascii")


def decode_currterm(data: bytes) -> TermAndVote:
    """Decode term and vote. Raises: RemoteProtocolError: one of them is missing."""
    found = decode_properties_file(data)
    for key in ("currTerm", "voteLeader"):
        if key not in found:
            raise RemoteProtocolError(f"currterm without {key}")
    return TermAndVote(
        term=_long(found["currTerm"], "currTerm"), vote_leader=found["voteLeader"] or None
    )


def encode_ledger_checkpoint(value: LedgerCheckpoint) -> bytes:
    """Encode the whole file. Raises: LocalProtocolError: a number is no long."""
    committed, end = _checked(value.committed_index), _checked(value.end_index)
    return f"committedIndex={committed}\nendIndex={end}\n".encode("ascii")


def decode_ledger_checkpoint(data: bytes) -> LedgerCheckpoint:
    """Decode the two indexes; -1 for one that is missing or empty.

    Raises:
        RemoteProtocolError: a value is no long.
    """
    found = decode_properties_file(data)
    committed, end = (
        _long(found.get(key, "").strip() or "-1", key) for key in ("committedIndex", "endIndex")
    )
    return LedgerCheckpoint(committed_index=committed, end_index=end)


def properties_text(data: bytes) -> str:
    """Return the text of a file of properties: UTF-8 with or without its mark, or ISO-8859-1.

    Java reads ISO-8859-1 alone, and makes the mark a part of the first key, which then means
    nothing; some editors begin every file with it.

    Raises:
        RemoteProtocolError: it is UTF-16, of which Java makes keys that mean nothing.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise RemoteProtocolError("expected UTF-8 or ISO-8859-1, found UTF-16")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def decode_properties_file(data: bytes) -> dict[str, str]:
    """Decode keys and values of a file of Java properties; of equal keys the last one counts.

    Raises:
        RemoteProtocolError: it is above TEXT_BYTES_MAX, is UTF-16, or has an unfinished escape (a
            backslash and u without four hex digits).
    """
    if len(data) > TEXT_BYTES_MAX:
        raise RemoteProtocolError(f"{len(data)} bytes of properties, at most {TEXT_BYTES_MAX}")
    found: dict[str, str] = {}
    for line in _logical_lines(properties_text(data)):
        key_end = _end(_KEY, line, 0)
        value_start = _end(_SEPARATOR, line, key_end)
        found[_unescaped(line[:key_end])] = _unescaped(line[value_start:])
    return found


def _logical_lines(text: str) -> list[str]:
    lines = []
    at = 0
    while (at := _end(_BLANKS, text, at)) < len(text):
        end = _end(_COMMENT, text, at)
        if end == at:
            end = _end(_LOGICAL, text, at)
            lines.append(_CONTINUED.sub("", text[at:end]))
        at = end
    return lines


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_meant, text)


def _meant(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[:1] != "u":
        return _MEANING.get(escaped, escaped)
    if len(escaped) == 1:
        raise RemoteProtocolError("unfinished unicode escape in properties")
    return chr(int(escaped[1:], 16))


def _long(text: str, key: str) -> int:
    value = int(text) if _LONG.fullmatch(text) else 2**63
    if not -(2**63) <= value < 2**63:
        raise RemoteProtocolError(f"{key} is {text[:40]!r}, not a long")
    return value


def _checked(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise LocalProtocolError(f"{value} is not a long")
    return value
