"""A master's changes of its tables, each of which raises the version of the changed tables.

Upstream: apache/rocketmq, broker/.../topic/TopicConfigManager.java, subscription/
SubscriptionGroupManager.java and offset/ConsumerOffsetManager.java, 5.3.3; broker.md 5.3 and 6.2.

Differs: the offsets of a removed topic are removed in the same step. Upstream raises the version of
the offsets at every 500th commit; here it rises with each change of the table, which has many
commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import msgspec

from actors.metadata.core import kinds
from actors.metadata.core.tables import Tables, with_deleted
from wire.broker.metadata import ConsumerOffsets, SubscriptionGroupConfig
from wire.broker.topics import DataVersion, TopicConfig, deleted_topics
from wire.files.properties import HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC

OWN_TOPICS: Final = {SCHEDULE_TOPIC: 18, HALF_TOPIC: 1, OP_TOPIC: 1}
"""The topics in which a broker has delayed messages and those of transactions, with their queues,
as upstream's has them whatever its delay levels are. Clients neither send to them nor read them."""


def begin(tables: Tables, now_ms: int) -> Tables:
    """Return the tables of a broker without a table of topics as it begins: with its own topics.

    So a Java slave, which has its master's topics and no others, never has exactly one, with which
    no name server takes it back (broker.md 2.2). Upstream's other topics are templates for topics
    that producers create by sending (TBW102, cluster and broker), or belong to parts that are not
    here (broker.md 3.1).
    """
    if tables.topics is not kinds.TOPICS.empty:
        return tables
    rows = {
        name: TopicConfig(topic_name=name, read_queue_nums=count, write_queue_nums=count)
        for name, count in OWN_TOPICS.items()
    }
    return _with_topics(tables, rows, now_ms)


def put_topic(tables: Tables, config: TopicConfig, now_ms: int) -> Tables:
    """Create or change a topic. A configuration that is there already is no change."""
    rows = tables.topics.topic_config_table
    if rows.get(config.topic_name) == config:
        return tables
    return _with_topics(tables, {**rows, config.topic_name: config}, now_ms)


def remove_topic(tables: Tables, topic: str, now_ms: int) -> Tables:
    """Remove a topic, and all offsets of it.

    A topic that is not in the table is noted as deleted all the same, as it may have queues.
    """
    rows = {name: row for name, row in tables.topics.topic_config_table.items() if name != topic}
    before = deleted_topics(tables.topics)
    deleted = {**before, topic: max(now_ms, before.get(topic, now_ms))}  # a clock may be set back
    offsets = tables.consumer_offsets.offset_table
    left = {key: queues for key, queues in offsets.items() if key.partition("@")[0] != topic}
    return _with_offsets(_with_topics(tables, rows, now_ms, deleted), left, now_ms)


def put_group(tables: Tables, config: SubscriptionGroupConfig, now_ms: int) -> Tables:
    """Create or change a consumer group. A configuration that is there already is no change."""
    rows = tables.groups.subscription_group_table
    if rows.get(config.group_name) == config:
        return tables
    return _with_groups(tables, {**rows, config.group_name: config}, now_ms)


def remove_group(tables: Tables, group: str, now_ms: int, *, clean_offsets: bool) -> Tables:
    """Remove a consumer group, and with `clean_offsets` its offsets."""
    if clean_offsets:
        offsets = tables.consumer_offsets.offset_table
        left = {key: queues for key, queues in offsets.items() if key.partition("@")[2] != group}
        tables = _with_offsets(tables, left, now_ms)
    if group not in tables.groups.subscription_group_table:
        return tables
    rows = {
        name: row for name, row in tables.groups.subscription_group_table.items() if name != group
    }
    return _with_groups(tables, rows, now_ms)


def set_offsets(tables: Tables, offsets: Mapping[str, Mapping[int, int]], now_ms: int) -> Tables:
    """Set offsets, for commits and resets. Other queues keep theirs.

    Args:
        offsets: by "topic@group", the next offset of each queue.
    """
    rows = dict(tables.consumer_offsets.offset_table)
    for key, queues in offsets.items():
        rows[key] = {**rows.get(key, {}), **queues}
    return _with_offsets(tables, rows, now_ms)


def _with_topics(
    tables: Tables,
    rows: dict[str, TopicConfig],
    now_ms: int,
    deleted: Mapping[str, int] | None = None,
) -> Tables:
    old = tables.topics
    new = msgspec.structs.replace(
        old, data_version=old.data_version.next(now_ms), topic_config_table=rows
    )
    deleted = deleted_topics(old) if deleted is None else deleted
    return attrs.evolve(tables, topics=with_deleted(new, deleted))


def _with_groups(tables: Tables, rows: dict[str, SubscriptionGroupConfig], now_ms: int) -> Tables:
    old = tables.groups
    new = msgspec.structs.replace(
        old, data_version=old.data_version.next(now_ms), subscription_group_table=rows
    )
    return attrs.evolve(tables, groups=new)


def _with_offsets(tables: Tables, rows: dict[str, Any], now_ms: int) -> Tables:
    old = tables.consumer_offsets
    if rows == old.offset_table:
        return tables
    version = (old.data_version or DataVersion(state_version=0)).next(now_ms)
    new = ConsumerOffsets(data_version=version, offset_table=rows, more=old.more)
    return attrs.evolve(tables, consumer_offsets=new)
