"""The kinds of metadata, with their fields in the tables, their request codes and their files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from wire.broker import metadata, topics
from wire.broker.codes import RequestCode
from wire.broker.java_json import Reader, encode_pretty
from wire.broker.topics import DataVersion


@attrs.frozen(kw_only=True, eq=False)
class Kind:
    """One kind of metadata. There is one object for each.

    Attributes:
        name: the name of its field in `Tables`, also for people.
        code: the request code by which a slave asks for it, or None if it is in the answer of
            another kind.
        is_vip: whether a slave asks for it at listenPort - 2.
        rows: the field of its table that has the rows, or None if it has no rows.
        file: the name of its file in config/.
        empty: its table before anything is known.
        decode: decodes the content of a file or the body of an answer. Raises RemoteProtocolError.
        encode_file: encodes the content of its file.
    """

    name: str
    code: RequestCode | None = None
    is_vip: bool = False
    rows: str | None = None
    file: str
    empty: Any
    decode: Callable[[bytes], Any]
    encode_file: Callable[[Any], bytes]


def _document(name: str, file: str, empty: Any, reader: Reader[Any], **more: Any) -> Kind:
    return Kind(
        name=name,
        file=file,
        empty=empty,
        decode=reader.decode,
        encode_file=encode_pretty,
        **more,
    )


def _encode_timer_check_file(value: metadata.TimerCheckpoint) -> bytes:
    encoded = metadata.encode_timer_checkpoint(value)
    return encoded.ljust(metadata.TIMER_CHECK_FILE_BYTES, b"\0")


_NEVER: Final = DataVersion(state_version=0)
TOPICS: Final = _document(
    "topics",
    "topics.json",
    topics.TopicTable(data_version=_NEVER),
    topics.TOPIC_TABLE,
    code=RequestCode.GET_ALL_TOPIC_CONFIG,
    is_vip=True,
    rows="topic_config_table",
)
QUEUE_MAPPINGS: Final = _document(
    "queue_mappings",
    "topicQueueMapping.json",
    topics.TopicQueueMappings(data_version=_NEVER),
    topics.TOPIC_QUEUE_MAPPINGS,
    rows="topic_queue_mapping_info_map",
)
CONSUMER_OFFSETS: Final = _document(
    "consumer_offsets",
    "consumerOffset.json",
    metadata.ConsumerOffsets(),
    metadata.CONSUMER_OFFSETS,
    code=RequestCode.GET_ALL_CONSUMER_OFFSET,
    rows="offset_table",
)
DELAY_OFFSETS: Final = _document(
    "delay_offsets",
    "delayOffset.json",
    metadata.DelayOffsets(),
    metadata.DELAY_OFFSETS,
    code=RequestCode.GET_ALL_DELAY_OFFSET,
    rows="offset_table",
)
GROUPS: Final = _document(
    "groups",
    "subscriptionGroup.json",
    metadata.GroupTable(data_version=_NEVER),
    metadata.GROUP_TABLE,
    code=RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    rows="subscription_group_table",
)
REQUEST_MODES: Final = _document(
    "request_modes",
    "messageRequestMode.json",
    metadata.RequestModes(),
    metadata.REQUEST_MODES,
    code=RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    rows="message_request_mode_map",
)
TIMER_METRICS: Final = _document(
    "timer_metrics",
    "timermetrics",
    metadata.TimerMetrics(data_version=_NEVER),
    metadata.TIMER_METRICS,
    code=RequestCode.GET_TIMER_METRICS,
    is_vip=True,
    rows="timing_count",
)
TIMER_CHECKPOINT: Final = Kind(
    name="timer_checkpoint",
    code=RequestCode.GET_TIMER_CHECK_POINT,
    is_vip=True,
    file="timercheck",
    empty=metadata.TimerCheckpoint(data_version=_NEVER),
    decode=metadata.decode_timer_checkpoint,
    encode_file=_encode_timer_check_file,
)
KINDS: Final = (
    TOPICS,
    QUEUE_MAPPINGS,
    CONSUMER_OFFSETS,
    DELAY_OFFSETS,
    GROUPS,
    REQUEST_MODES,
    TIMER_METRICS,
    TIMER_CHECKPOINT,
)
