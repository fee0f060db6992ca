"""Which stretches of a group's logs add up to the same on all nodes that have them, and which not.

Needs no Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Final

import attrs

NOWHERE: Final = 2**63 - 1
"""Behind every position."""


@attrs.frozen(kw_only=True)
class Piece:
    """A piece of a node's log, as `log_sums` has it.

    Attributes:
        first, last: positions of its first record and of its last one.
        begin, end: offsets, of its first record and behind its last one.
    """

    node: str
    bucket: int
    records: int
    size_bytes: int
    first: int
    last: int
    begin: int
    end: int
    digest: int


@attrs.frozen
class Compared:
    """What the sums alone tell.

    Attributes:
        equal: pieces of which every record is on all nodes that must have it, byte for byte.
        within: all others: by node, from which offset to which records have to be looked at.
    """

    equal: tuple[Piece, ...]
    within: Mapping[str, tuple[tuple[int, int], ...]]


def compared(pieces: Iterable[Piece], ends: Mapping[str, int], is_loose: bool = False) -> Compared:
    """Tell equal pieces from others.

    Args:
        ends: by node, from which position on its log is its own, and nobody's copy.
        is_loose: nodes need not have the same.
    """
    buckets: dict[int, dict[str, list[Piece]]] = {}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for piece in sorted(pieces, key=lambda each: (each.first, each.begin)):
        if piece.first < ends[piece.node]:
            buckets.setdefault(piece.bucket, {}).setdefault(piece.node, []).append(piece)
            first.setdefault(piece.node, piece.first)
            last[piece.node] = max(piece.last, last.get(piece.node, piece.last))
    equal: list[Piece] = []
    other: dict[str, list[Piece]] = {}
    for by_node in buckets.values():
        own = [piece for found in by_node.values() for piece in found]
        low = min(piece.first for piece in own)
        lacking = any(first[node] < low < last[node] for node in first.keys() - by_node.keys())
        is_same = not lacking and len({_sums(found) for found in by_node.values()}) == 1
        is_plain = all(_rises(found, ends[node]) for node, found in by_node.items())
        if is_plain and (is_same or is_loose):
            equal += own
        else:
            for piece in own:
                other.setdefault(piece.node, []).append(piece)
    return Compared(tuple(equal), {node: _ranges(found) for node, found in other.items()})


def _sums(pieces: Iterable[Piece]) -> tuple[tuple[int, ...], ...]:
    """The positions are in the bytes that the digest is of, too."""
    return tuple((p.records, p.size_bytes, p.first, p.last, p.digest) for p in pieces)


def _rises(pieces: Collection[Piece], end: int) -> bool:
    """Whether no position is there twice, and none is the node's own."""
    return all(one.last < two.first for one, two in pairwise(pieces)) and all(
        piece.last < end for piece in pieces
    )


def _ranges(pieces: Iterable[Piece]) -> tuple[tuple[int, int], ...]:
    """Offsets, rising; what follows each other without a gap is one."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted((piece.begin, piece.end) for piece in pieces):
        if found and found[-1][1] == begin:
            found[-1] = found[-1][0], end
        else:
            found.append((begin, end))
    return tuple(found)
