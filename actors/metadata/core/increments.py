"""The difference of two states of a broker's tables, and how it is applied.

States are never changed, and rows that two of them have in common are the same object in both. So a
difference is found by comparing the identity of each row, without looking into it.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import msgspec

from actors.metadata.core import kinds
from actors.metadata.core.kinds import Kind
from actors.metadata.core.tables import VERSIONED, Tables, changed_kinds, rows_of
from wire.broker.increments import Increment
from wire.broker.metadata import decode_timer_checkpoint, encode_timer_checkpoint
from wire.errors import RemoteProtocolError

_BY_ROWS: Final = (*VERSIONED, kinds.CONSUMER_OFFSETS)
_WHOLE: Final = (kinds.DELAY_OFFSETS, kinds.REQUEST_MODES)


def increment(base: Tables | None, tables: Tables, boot: int, number: int) -> Increment:
    """Return the difference from one state to another.

    Args:
        base: the state that the receiver has, or None if it has none.
        tables: the newest state.
        boot, number: the identity of the newest state, see `Increment`.
    """
    old = Tables() if base is None else base
    fields: dict[str, Any] = {}
    removed: dict[str, tuple[str, ...]] = {}
    for kind in changed_kinds(old, tables):
        if kind in _WHOLE:
            fields[kind.name] = getattr(tables, kind.name)
        elif kind in _BY_ROWS:
            mine, theirs = rows_of(kind, old), rows_of(kind, tables)
            changed = {key: row for key, row in theirs.items() if mine.get(key) is not row}
            fields[kind.name] = _with_rows(kind, getattr(tables, kind.name), changed)
            if gone := tuple(key for key in mine if key not in theirs):
                removed[kind.name] = gone
    if old.timer_checkpoint is not tables.timer_checkpoint:
        fields["timer_checkpoint"] = encode_timer_checkpoint(tables.timer_checkpoint).hex()
    return Increment(boot=boot, full=base is None, number=number, removed=removed or None, **fields)


def applied(base: Tables, told: Increment) -> Tables:
    """Return the sender's state from a difference and the state that it is based on.

    Raises:
        RemoteProtocolError: the difference has a timer checkpoint that cannot be decoded.
    """
    old = Tables() if told.full else base
    fields: dict[str, Any] = {}
    for kind in _BY_ROWS:
        after = getattr(told, kind.name)
        if after is not None:
            gone = frozenset((told.removed or {}).get(kind.name, ()))
            left = {key: row for key, row in rows_of(kind, old).items() if key not in gone}
            fields[kind.name] = _with_rows(kind, after, left | getattr(after, kind.rows or ""))
    for kind in _WHOLE:
        if getattr(told, kind.name) is not None:
            fields[kind.name] = getattr(told, kind.name)
    if told.timer_checkpoint is not None:
        try:
            data = bytes.fromhex(told.timer_checkpoint)
        except ValueError as error:
            raise RemoteProtocolError(f"Increment: timerCheckpoint: {error}") from None
        fields["timer_checkpoint"] = decode_timer_checkpoint(data)
    return attrs.evolve(old, **fields)


def _with_rows(kind: Kind, table: Any, rows: dict[str, Any]) -> Any:
    assert kind.rows is not None  # OnlyKindsWithRows
    return msgspec.structs.replace(table, **{kind.rows: rows})
