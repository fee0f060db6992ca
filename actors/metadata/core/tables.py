"""All tables of one broker as a value, and how a slave adopts an answer of its master.

Upstream: apache/rocketmq, broker/.../slave/SlaveSynchronize.java, 5.3.3; classic-ha.md 5.2.

The rules for each kind:

- **Topics, groups, static topics and timer metrics** have a version. An answer with an equal
  version changes nothing. One with a later version (by state version, then counter, then time) is
  the next state of the same table: it replaces the table in one step, and rows that it lacks were
  removed by the master. It is not the next state if it lacks more rows than its counter has
  changes, or if its table has another **lineage**, a name that Python masters give a table when
  they create it. Then, and with any other version, the master has created its table again or
  restored an earlier one: its rows are taken, and the slave's rows that it lacks are **kept** until
  the master has them again. In all cases the master's version is adopted unchanged.
- **Consumer offsets** never go back: the larger one counts for each queue, unless the same run of
  the master has answered with a larger one before, which means that they were reset. The offsets of
  a topic or group are removed once the master has removed it and lacks its offsets as well.
- **Delay offsets and timer checkpoints**: the larger ones count.
- **Request modes** have no version and are replaced.

A Python master's table of topics also has the topics that were **deleted**, with the times, and
each node removes their queues. A Java master's table has none of this, so its slave infers it: a
topic that is missing was deleted at the latest when the table got its version. Once the topic is
there again, the slave forgets that, as a Java master that took over may have a clock that is behind
and would store records from before the deletion. If queues are then derived again, those of the
topic that has no record since have the older ones again.

Differs:
- 5.3.3 deletes all rows before it adds the new ones, and raises its own version (T23); 4.9 clears
  the table first. So for a moment a reader finds no topic.
- An answer of a master that has lost its table leaves upstream's slave without topics.
- Upstream takes smaller offsets from a master that restarted with older ones (T21), and keeps those
  of topics and groups that were removed (T24).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final, TypeVar

import attrs
import msgspec
from msgspec import Raw

from actors.metadata.core import kinds
from actors.metadata.core.kinds import Kind
from wire.broker.java_json import JavaObject
from wire.broker.metadata import (
    ConsumerOffsets,
    DelayOffsets,
    GroupTable,
    RequestModes,
    TimerCheckpoint,
    TimerMetrics,
)
from wire.broker.topics import (
    DELETED_KEY,
    DataVersion,
    TopicQueueMappings,
    TopicTable,
    deleted_topics,
)

J = TypeVar("J", bound=JavaObject)
KEPT_KEY: Final = "triologKept"
"""The key in a table's file with the rows that are kept although the master's table lacks them."""
VERSIONED: Final = (kinds.TOPICS, kinds.QUEUE_MAPPINGS, kinds.GROUPS, kinds.TIMER_METRICS)
"""The kinds whose tables have a version that says which rows they have."""
LINEAGE_KEY: Final = "triologLineage"
"""The key in a table's file, and in a Python master's answer, with the lineage of the table."""
DELETED_MAX: Final = 1000
"""The most deleted topics in a table, those of the last deletions. Each takes some 40 bytes of
every change that is sent to slaves."""
_NEVER: Final = DataVersion(state_version=0)
_names = msgspec.json.Decoder(list[str])


@attrs.frozen(kw_only=True)
class Tables:
    """A broker's metadata. Tables in it are never changed, only replaced.

    Attributes:
        gone_topics, gone_groups: those that the master has removed during this run of the node,
            whose offsets are removed as well.
        said_offsets: the last offset of each queue in the answers to code 43 of the present run
            of the master, or None before the first answer.
    """

    topics: TopicTable = kinds.TOPICS.empty
    queue_mappings: TopicQueueMappings = kinds.QUEUE_MAPPINGS.empty
    consumer_offsets: ConsumerOffsets = kinds.CONSUMER_OFFSETS.empty
    delay_offsets: DelayOffsets = kinds.DELAY_OFFSETS.empty
    groups: GroupTable = kinds.GROUPS.empty
    request_modes: RequestModes = kinds.REQUEST_MODES.empty
    timer_metrics: TimerMetrics = kinds.TIMER_METRICS.empty
    timer_checkpoint: TimerCheckpoint = kinds.TIMER_CHECKPOINT.empty
    gone_topics: frozenset[str] = frozenset()
    gone_groups: frozenset[str] = frozenset()
    said_offsets: ConsumerOffsets | None = None


def with_lineage(tables: Tables, name: str) -> Tables:
    """Return tables in which each versioned table has a lineage: one that has none gets `name` as
    its lineage.
    """
    fields: dict[str, Any] = {}
    for kind in VERSIONED:
        more = _table(kind, tables).more or {}
        if LINEAGE_KEY not in more:
            more = {**more, LINEAGE_KEY: Raw(msgspec.json.encode(name))}
            fields[kind.name] = msgspec.structs.replace(_table(kind, tables), more=more)
    return attrs.evolve(tables, **fields) if fields else tables


def changed_kinds(old: Tables, new: Tables) -> tuple[Kind, ...]:
    """Return the kinds whose tables differ and therefore have to be written."""
    return tuple(kind for kind in kinds.KINDS if _table(kind, old) is not _table(kind, new))


def rows_of(kind: Kind, tables: Tables) -> dict[Any, Any]:
    """Return the rows of one kind's table, which are none of a timer checkpoint."""
    rows: dict[Any, Any] = {} if kind.rows is None else getattr(_table(kind, tables), kind.rows)
    return rows


def _table(kind: Kind, tables: Tables) -> Any:
    return getattr(tables, kind.name)


def another_master(tables: Tables) -> Tables:
    """Return the tables for answers of another master, or of one that was started again."""
    return attrs.evolve(tables, said_offsets=None)


def promoted(tables: Tables, now_ms: int, begun_ms: int = 0) -> Tables:
    """Return the tables of a node that has become the master.

    No topic counts as deleted later than now by this node's clock, or than all that its store had
    when it was opened, so that messages which are stored from then on are found. A table gets the
    next version if this changed it or if it has kept rows, as it then differs from the previous
    master's table of the same version.

    Args:
        now_ms: the time by this node's clock.
        begun_ms: see `StoreTime`.
    """
    said = deleted_topics(tables.topics)
    latest_ms = max(now_ms, begun_ms - 1)
    deleted = {topic: min(at_ms, latest_ms) for topic, at_ms in said.items()}
    tables = attrs.evolve(tables, topics=with_deleted(tables.topics, deleted))
    fields: dict[str, Any] = {}
    for kind in VERSIONED:
        table = _table(kind, tables)
        if _kept(table) or (kind is kinds.TOPICS and deleted != said):
            version = _version(table).next(now_ms)
            fields[kind.name] = msgspec.structs.replace(table, data_version=version)
    return as_master(attrs.evolve(tables, **fields))


def as_master(tables: Tables) -> Tables:
    """Return the tables as a master has them: without kept rows and other marks of a slave."""
    fields: dict[str, Any] = {
        kind.name: _with_kept(_table(kind, tables), frozenset()) for kind in VERSIONED
    }
    for kind in (kinds.CONSUMER_OFFSETS, kinds.DELAY_OFFSETS):
        offsets = _table(kind, tables)
        if offsets.data_version is None:  # a 5.x slave fails on an answer without
            fields[kind.name] = msgspec.structs.replace(offsets, data_version=_NEVER)
    nobody: frozenset[str] = frozenset()
    return attrs.evolve(tables, **fields, said_offsets=None, gone_topics=nobody, gone_groups=nobody)


def adopt(tables: Tables, kind: Kind, answer: Any) -> Tables:
    """Return the tables after adopting the master's answer for one kind."""
    if kind is kinds.TOPICS:
        return _adopt_topics(tables, answer)
    if kind is kinds.CONSUMER_OFFSETS:
        return _adopt_consumer_offsets(tables, answer)
    if kind is kinds.GROUPS:
        return _adopt_groups(tables, answer)
    own = _table(kind, tables)
    if kind in VERSIONED:
        new, _ = _next_version(kind, own, answer)
    elif kind is kinds.DELAY_OFFSETS:
        new = _larger_delays(own, answer)
    elif kind is kinds.TIMER_CHECKPOINT:
        new = _larger_checkpoint(own, answer)
    else:
        new = answer
    return tables if new == own else attrs.evolve(tables, **{kind.name: new})


# ---- tables with a version ----


def _adopt_topics(tables: Tables, answer: TopicTable) -> Tables:
    """Return the tables after adopting topics and static topics.

    The static topics are in the same answer, but are a separate table with its own version.
    """
    version = answer.mapping_data_version
    if version is not None:
        mappings = TopicQueueMappings(
            data_version=version,
            topic_queue_mapping_info_map=answer.topic_queue_mapping_detail_map or {},
        )
        tables = adopt(tables, kinds.QUEUE_MAPPINGS, mappings)
    topics = msgspec.structs.replace(
        answer,
        mapping_data_version=None,
        topic_queue_mapping_detail_map=None,
        topic_queue_mapping_info_map=None,
    )
    new, gone = _next_version(kinds.TOPICS, tables.topics, topics)
    if new is tables.topics:
        return tables
    own = {} if _lineage(answer) is not None else deleted_topics(tables.topics)
    found = {**own, **dict.fromkeys(gone, answer.data_version.timestamp)}
    there = new.topic_config_table
    found = {topic: at for topic, at in found.items() if topic not in there}
    new = with_deleted(new, found | deleted_topics(answer))
    gone_topics = (tables.gone_topics | gone) - set(new.topic_config_table)
    return attrs.evolve(tables, topics=new, gone_topics=gone_topics)


def _adopt_groups(tables: Tables, answer: GroupTable) -> Tables:
    new, gone = _next_version(kinds.GROUPS, tables.groups, answer)
    if new is tables.groups:
        return tables
    gone_groups = (tables.gone_groups | gone) - set(new.subscription_group_table)
    return attrs.evolve(tables, groups=new, gone_groups=gone_groups)


def _next_version(kind: Kind, own: J, answer: J) -> tuple[J, frozenset[str]]:
    """Return the table that follows `own`, and the keys of the rows that the master has removed."""
    if _version(own) == _version(answer) and _lineage(answer) in (None, _lineage(own)):
        return own, frozenset()
    assert kind.rows is not None  # VersionedTablesHaveRows
    mine: Mapping[str, Any] = getattr(own, kind.rows)
    theirs: Mapping[str, Any] = getattr(answer, kind.rows)
    missing = frozenset(mine) - frozenset(theirs)
    kept = _kept(own) & missing
    if not _follows(own, answer, len(missing - kept)):
        kept = missing
    if not kept:
        return answer, missing
    merged = {**theirs, **{name: row for name, row in mine.items() if name in kept}}
    new = msgspec.structs.replace(answer, **{kind.rows: merged})
    return _with_kept(new, kept), missing - kept


def _follows(own: JavaObject, answer: JavaObject, removed_count: int) -> bool:
    """Return whether an answer is a later state of this node's table.

    Args:
        removed_count: how many rows the answer lacks.
    """
    before, after = _lineage(own), _lineage(answer)
    if before is not None and after is not None and before != after:
        return False
    version, said = _version(own), _version(answer)
    if (said.state_version or 0) > (version.state_version or 0):
        return True
    return said.key > version.key and removed_count <= said.counter - version.counter


def _version(table: JavaObject) -> DataVersion:
    version: DataVersion = table.data_version  # type: ignore[attr-defined]
    return version


def _lineage(table: JavaObject) -> Raw | None:
    return (table.more or {}).get(LINEAGE_KEY)


def _kept(table: JavaObject) -> frozenset[str]:
    raw = (table.more or {}).get(KEPT_KEY)
    try:
        return frozenset() if raw is None else frozenset(_names.decode(raw))
    except msgspec.MsgspecError:
        return frozenset()  # somebody has edited the file


def _with_kept(table: J, kept: Set[str]) -> J:
    return _with_more(table, KEPT_KEY, sorted(kept))


def with_deleted(table: TopicTable, deleted: Mapping[str, int]) -> TopicTable:
    """Return the table with the last DELETED_MAX of these deleted topics.

    One that was made again stays among them: its older records are in the log, with the numbers
    that newer ones have.
    """
    gone = sorted((at, name) for name, at in deleted.items())
    return _with_more(table, DELETED_KEY, {name: at for at, name in gone[-DELETED_MAX:]})


def _with_more(table: J, key: str, value: Any) -> J:
    """Return the table with a key that upstream does not know, or without it for an empty value."""
    more = {other: raw for other, raw in (table.more or {}).items() if other != key}
    if value:
        more[key] = Raw(msgspec.json.encode(value))
    if more == (table.more or {}):
        return table
    return msgspec.structs.replace(table, more=more or None)


# ---- offsets ----


def _adopt_consumer_offsets(tables: Tables, answer: ConsumerOffsets) -> Tables:
    said = {} if tables.said_offsets is None else tables.said_offsets.offset_table
    own, theirs = tables.consumer_offsets.offset_table, answer.offset_table
    merged = {
        key: queues
        for key, queues in own.items()
        if key in theirs or not _is_gone(key, tables.gone_topics, tables.gone_groups)
    }
    unsaid = {key: queues for key, queues in said.items() if key in merged and key not in theirs}
    for key, queues in theirs.items():
        before = said.get(key)
        if queues is not before or key not in merged:  # else it is merged already
            merged[key] = _larger_or_reset(merged.get(key, {}), queues, before or {})
        if before and not before.keys() <= queues.keys():
            unsaid[key] = {**before, **queues}
    new = msgspec.structs.replace(answer, offset_table=merged)
    if new == tables.consumer_offsets:
        new = tables.consumer_offsets
    if unsaid:
        answer = msgspec.structs.replace(answer, offset_table={**theirs, **unsaid})
    if new is tables.consumer_offsets and answer == tables.said_offsets:
        return tables
    return attrs.evolve(tables, consumer_offsets=new, said_offsets=answer)


def _is_gone(key: str, topics: Set[str], groups: Set[str]) -> bool:
    topic, _, group = key.partition("@")
    return topic in topics or group in groups


def _larger_or_reset(
    own: Mapping[int, int], theirs: Mapping[int, int], said: Mapping[int, int]
) -> dict[int, int]:
    """Return the larger offset of each queue, or the master's if it was reset.

    Args:
        said: the master's offsets in its previous answer.
    """
    if own == theirs:
        return dict(theirs)
    merged = dict(own)
    for queue, offset in theirs.items():
        if offset >= own.get(queue, offset) or offset < said.get(queue, offset):
            merged[queue] = offset
    return merged


def _larger_delays(own: DelayOffsets, answer: DelayOffsets) -> DelayOffsets:
    merged = {**own.offset_table, **answer.offset_table}
    for level, offset in own.offset_table.items():
        merged[level] = max(offset, merged[level])
    return msgspec.structs.replace(answer, offset_table=merged)


def _larger_checkpoint(own: TimerCheckpoint, answer: TimerCheckpoint) -> TimerCheckpoint:
    """Return the larger numbers of two checkpoints, but keep those about the node's own files."""
    return msgspec.structs.replace(
        own,
        last_read_ms=max(own.last_read_ms, answer.last_read_ms),
        master_queue_offset=max(own.master_queue_offset, answer.master_queue_offset),
        data_version=answer.data_version,
    )
