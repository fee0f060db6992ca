"""Finds which pieces of a group's logs have equal sums on all nodes that have them.

Needs no Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Final

import attrs

NOWHERE: Final = 2**63 - 1
"""A position behind every other."""


@attrs.frozen(kw_only=True)
class Piece:
    """A piece of a node's log, as in `log_sums`.

    Attributes:
        first, last: the positions of its first and its last record.
        begin, end: the offsets of its first record and behind its last one.
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
    """What the sums alone show.

    Attributes:
        equal: the pieces whose every record is on all nodes that must have it, byte for byte.
        within: the other pieces: by node, the ranges of offsets whose records have to be compared.
    """

    equal: tuple[Piece, ...]
    within: Mapping[str, tuple[tuple[int, int], ...]]


def compared(pieces: Iterable[Piece], ends: Mapping[str, int], is_loose: bool = False) -> Compared:
    """Tell equal pieces from others.

    Args:
        ends: by node, the position from which on its log is its own, without copies on others.
        is_loose: whether nodes need not have the same.
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
    """Return what has to be equal. The digest's bytes contain the positions of all records, too."""
    return tuple((p.records, p.size_bytes, p.first, p.last, p.digest) for p in pieces)


def _rises(pieces: Collection[Piece], end: int) -> bool:
    """Return whether no position occurs twice, and none is behind the copied part of the log."""
    return all(one.last < two.first for one, two in pairwise(pieces)) and all(
        piece.last < end for piece in pieces
    )


def _ranges(pieces: Iterable[Piece]) -> tuple[tuple[int, int], ...]:
    """Return the ranges of offsets in rising order, joined where there is no gap."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted((piece.begin, piece.end) for piece in pieces):
        if found and found[-1][1] == begin:
            found[-1] = found[-1][0], end
        else:
            found.append((begin, end))
    return tuple(found)
