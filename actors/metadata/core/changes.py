"""What a master does to its tables: the next version of what changed, and nothing else.

Upstream: apache/rocketmq, broker/.../topic/TopicConfigManager.java, subscription/
SubscriptionGroupManager.java and offset/ConsumerOffsetManager.java, 5.3.3; broker.md 5.3 and 6.2.

Differs: the offsets of a topic that is removed go with it in the same step. Upstream counts the
version of offsets up at every 500th commit; here it is counted at each change of the table, which
holds many commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec

from actors.metadata.core.tables import Tables, with_deleted
from wire.broker.metadata import ConsumerOffsets, SubscriptionGroupConfig
from wire.broker.topics import DataVersion, TopicConfig, deleted_topics


def put_topic(tables: Tables, config: TopicConfig, now_ms: int) -> Tables:
    """A topic is made or changed; the same configuration again is no change."""
    rows = tables.topics.topic_config_table
    if rows.get(config.topic_name) == config:
        return tables
    return _with_topics(tables, {**rows, config.topic_name: config}, now_ms)


def remove_topic(tables: Tables, topic: str, now_ms: int) -> Tables:
    """A topic, and what groups have read of it. One that the table does not have may have
    queues.
    """
    rows = {name: row for name, row in tables.topics.topic_config_table.items() if name != topic}
    deleted = {**deleted_topics(tables.topics), topic: now_ms}
    offsets = tables.consumer_offsets.offset_table
    left = {key: queues for key, queues in offsets.items() if key.partition("@")[0] != topic}
    return _with_offsets(_with_topics(tables, rows, now_ms, deleted), left, now_ms)


def put_group(tables: Tables, config: SubscriptionGroupConfig, now_ms: int) -> Tables:
    """A consumer group is made or changed; the same configuration again is no change."""
    rows = tables.groups.subscription_group_table
    if rows.get(config.group_name) == config:
        return tables
    return _with_groups(tables, {**rows, config.group_name: config}, now_ms)


def remove_group(tables: Tables, group: str, now_ms: int, *, clean_offsets: bool) -> Tables:
    """A consumer group, and what it has read if `clean_offsets`."""
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
    """Commits and resets: by "topic@group" the next offset of queues. Other queues stay."""
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
