"""Topics as brokers keep and register them: `DataVersion`, `TopicConfig`, and the tables of both.

Upstream: apache/rocketmq, common/.../TopicConfig.java, remoting/.../protocol/DataVersion.java,
body/TopicConfigAndMappingSerializeWrapper.java, 5.3.3 and 4.9.7; classic-ha.md 5.2 and 5.3.

`TopicTable` is the answer to GET_ALL_TOPIC_CONFIG (21), config/topics.json, and inside of a
registration (103) its topicConfigSerializeWrapper. `TopicQueueMappings` is
config/topicQueueMapping.json; of the mappings of static topics nothing is interpreted.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from wire.broker.java_json import JavaObject, Reader, table
from wire.remoting.tolerant_json import Int, Long, always

PERM_READ: Final = 4
PERM_WRITE: Final = 2
"""This and PERM_READ are bits of a topic's `perm`, which has others, too."""
QUEUES_DEFAULT: Final = 16
"""The number of queues of a topic whose document does not state it."""
DELETED_KEY: Final = "triologDeleted"
"""The key in a Python broker's table of topics for the deleted topics: by name, when each was
deleted, in ms since 1970. No queue leads to messages that were stored until then. Java ignores the
key."""
DELETED_MS_MAX: Final = 1 << 42
"""The latest time of a deletion, in ms since 1970: some day of 2109. A later one is no time."""
_deleted = msgspec.json.Decoder(dict[str, Any])


def as_long(number: int) -> int:
    """Return the number as Java's long has it: after the largest comes the smallest."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


class DataVersion(JavaObject, frozen=True, eq=False):
    """The version of a table. Two versions are equal if all three numbers are.

    Attributes:
        counter: how many changes there were.
        state_version: the epoch of the broker's state machine; None, for a 4.x broker, counts as 0.
        timestamp: when the last change was made, in ms since 1970.
    """

    counter: Long = always(0)
    state_version: Long | None = None
    timestamp: Long = always(0)

    @property
    def key(self) -> tuple[int, int, int]:
        """The numbers as a tuple, which is larger for a later version of the same broker."""
        return self.state_version or 0, self.counter, self.timestamp

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, DataVersion) else NotImplemented

    def __ne__(self, other: object) -> bool:  # a Struct's own compares its fields
        return not self == other

    def __hash__(self) -> int:
        return hash(self.key)

    def next(self, now_ms: int) -> DataVersion:
        """Return the version after one more change. Its epoch stays, or it would be earlier.

        The counter is a long, as in Java: no file that is read has a larger one.
        """
        return msgspec.structs.replace(
            self,
            counter=as_long(self.counter + 1),
            state_version=self.state_version or 0,
            timestamp=now_ms,
        )


class TopicConfig(JavaObject, frozen=True):
    """A topic on one broker.

    Attributes:
        attributes: from 5.x on; None, for a 4.x broker, counts as empty.
        perm: PERM_... bits.
        topic_filter_type: SINGLE_TAG or MULTI_TAG, kept as it was written.
    """

    attributes: dict[str, str] | None = None
    order: bool = always(False)
    perm: Int = always(PERM_READ | PERM_WRITE)
    read_queue_nums: Int = always(QUEUES_DEFAULT)
    topic_filter_type: str = always("SINGLE_TAG")
    topic_name: str = always("")
    topic_sys_flag: Int = always(0)
    write_queue_nums: Int = always(QUEUES_DEFAULT)


class TopicTable(JavaObject, frozen=True):
    """All topics of a broker by name, and for a 5.x broker its static topics.

    Attributes:
        mapping_data_version: the version of the two maps after it; None for a 4.x broker and in a
            file.
        topic_queue_mapping_detail_map: uninterpreted JSON, by topic.
        topic_queue_mapping_info_map: uninterpreted JSON, by topic; registrations have it.
    """

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    mapping_data_version: DataVersion | None = None
    topic_config_table: dict[str, TopicConfig] = table()
    topic_queue_mapping_detail_map: dict[str, Raw] | None = None
    topic_queue_mapping_info_map: dict[str, Raw] | None = None


def deleted_topics(table: TopicTable) -> dict[str, int]:
    """Return the deleted topics of a table: by name, when each was deleted, in ms since 1970.

    A value that is no time up to DELETED_MS_MAX is left out, and so is all of DELETED_KEY if it
    cannot be decoded, as the file may have been edited.
    """
    raw = (table.more or {}).get(DELETED_KEY)
    try:
        found = {} if raw is None else _deleted.decode(raw)
    except msgspec.MsgspecError:
        return {}
    return {
        topic: at_ms
        for topic, at_ms in found.items()
        if type(at_ms) is int and 0 <= at_ms <= DELETED_MS_MAX
    }


class TopicQueueMappings(JavaObject, frozen=True):
    """The static topics of a broker, as in its file."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    topic_queue_mapping_info_map: dict[str, Raw] = table()


TOPIC_TABLE = Reader(TopicTable)
DATA_VERSION = Reader(DataVersion)
TOPIC_QUEUE_MAPPINGS = Reader(TopicQueueMappings)
