"""A broker's answers to slaves that copy its metadata, and to operators' tools.

Upstream: apache/rocketmq, broker/.../processor/AdminBrokerProcessor.java, 5.3.3; classic-ha.md 5.2
and broker.md 6.2.

Slaves of all versions get the same answer, in standard JSON, and a slave answers like a master. A
body is encoded once for each change of its table.

A broker without a timer wheel has neither checkpoint nor metrics, as upstream's. Differs: a slave
of this kind answers with those that it copied from its master.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs
import msgspec

from actors.metadata.core import kinds
from actors.metadata.core.kinds import Kind
from actors.metadata.core.tables import Tables, as_master
from actors.metadata.view import MetadataView
from actors.remoting.requests import Answer, Processor, Refused, Request
from wire.broker import metadata
from wire.broker.codes import ResponseCode
from wire.broker.java_json import encode


@attrs.define
class MetadataAnswers:
    """Answers from the tables that a view publishes.

    Attributes:
        processors: the processor of each request code.
    """

    _view: MetadataView
    _encoded: dict[Kind, tuple[Tables, bytes]] = attrs.field(init=False, factory=dict)
    processors: dict[int, Processor] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        asked = [kind for kind in kinds.KINDS if kind.code is not None]
        self.processors = {
            kind.code: partial(self._answer, kind) for kind in asked if kind.code is not None
        }

    def _answer(self, kind: Kind, request: Request) -> Answer:
        tables = self._view.tables
        known = self._encoded.get(kind)
        if known is None or not _is_same(kind, known[0], tables):
            known = self._encoded[kind] = (tables, BODIES[kind](tables))
        return Answer(body=known[1])


def _is_same(kind: Kind, one: Tables, other: Tables) -> bool:
    """Return whether the answer for one kind is the same for two states of the tables."""
    if kind is kinds.TOPICS and one.queue_mappings is not other.queue_mappings:
        return False
    return getattr(one, kind.name) is getattr(other, kind.name)


def _topics(tables: Tables) -> bytes:
    """Return the body with topics and static topics, without marks that upstream does not have."""
    mappings = tables.queue_mappings
    table = msgspec.structs.replace(
        as_master(tables).topics,
        mapping_data_version=mappings.data_version,
        topic_queue_mapping_detail_map=mappings.topic_queue_mapping_info_map,
    )
    return encode(table)


def _timer_metrics(tables: Tables) -> bytes:
    if tables.timer_metrics is kinds.TIMER_METRICS.empty:
        raise Refused(ResponseCode.SYSTEM_ERROR, "The timer message store is null")
    return encode(tables.timer_metrics)


def _timer_checkpoint(tables: Tables) -> bytes:
    if tables.timer_checkpoint is kinds.TIMER_CHECKPOINT.empty:
        raise Refused(ResponseCode.SYSTEM_ERROR, "The checkpoint is null")
    return metadata.encode_timer_checkpoint(tables.timer_checkpoint)


BODIES: dict[Kind, Callable[[Tables], bytes]] = {
    kinds.TOPICS: _topics,
    kinds.CONSUMER_OFFSETS: lambda tables: encode(as_master(tables).consumer_offsets),
    kinds.DELAY_OFFSETS: lambda tables: encode(as_master(tables).delay_offsets),
    kinds.GROUPS: lambda tables: encode(as_master(tables).groups),
    kinds.REQUEST_MODES: lambda tables: encode(tables.request_modes),
    kinds.TIMER_METRICS: _timer_metrics,
    kinds.TIMER_CHECKPOINT: _timer_checkpoint,
}
"""By kind, the function that returns the body of the answer, or raises Refused without one."""
