"""Changes of a master's topics and groups by RocketMQ's tools, such as `mqadmin updateTopic`.

Upstream: apache/rocketmq, broker/.../processor/AdminBrokerProcessor.java, common/topic/
TopicValidator.java and common/attribute/AttributeUtil.java, 5.3.3; broker.md 6.2.

A change is answered once it is on the disk. A configuration that is there already is answered as
well, and changes nothing.

When the deletion of a topic is answered, its queues are removed unless the disk is too busy. If the
topic is created again, they begin at 0, or go on if records were still being stored in them.

Differs: a slave refuses changes with NO_PERMISSION; upstream's takes them, and loses them at its
next sync. But it answers the deletion of a group's own topics with success and leaves it to its
master, because `mqadmin deleteSubGroup` asks every broker of a cluster, and ends at the first that
refuses. The queues of a deleted topic are removed on slaves as well (T24). They do not come back
when queues are derived again from the log. A disk without room is answered with SYSTEM_ERROR, where
upstream only logs it. Numbers of queues above QUEUES_MAX and a `perm` above PERM_MAX, or either
below 0, are answered with INVALID_PARAMETER; upstream takes any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs
import msgspec
from msgspec import Struct

from actors.metadata.core.changes import put_group, put_topic, remove_group, remove_topic
from actors.metadata.core.tables import Tables
from actors.metadata.keeper import Change, Done, Message
from actors.metadata.view import MetadataView
from actors.remoting.requests import Answer, Processor, Refused, Request
from actors.runtime import ActorRef, MailboxFull, ReplyTo
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.java_json import JavaObject, Reader, encode
from wire.broker.metadata import SUBSCRIPTION_GROUP_CONFIG
from wire.broker.topics import TopicConfig
from wire.errors import RemoteProtocolError
from wire.remoting.tolerant_json import Int, always

TOPIC_CHARS_MAX: Final = 127
GROUP_CHARS_MAX: Final = 255
QUEUES_MAX: Final = 65_536
PERM_MAX: Final = 15
SYSTEM_TOPICS: Final = frozenset(
    {
        "TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
    }
)  # fmt: skip
SYSTEM_PREFIX: Final = "rmq_sys_"
OF_GROUPS: Final = ("%RETRY%", "%DLQ%")
"""The prefixes of a group's own topics."""
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")


class TopicAsked(Struct, frozen=True, kw_only=True, rename="camel"):
    """The request of `mqadmin updateTopic`."""

    topic: str
    read_queue_nums: Int
    write_queue_nums: Int
    perm: Int
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int = 0
    order: bool = False
    attributes: str = ""


class TopicNamed(Struct, frozen=True, kw_only=True, rename="camel"):
    """A request about one topic."""

    topic: str


class GroupNamed(Struct, frozen=True, kw_only=True, rename="camel"):
    """The request to delete a group, and whether to delete its offsets as well."""

    group_name: str
    clean_offset: bool = False


class GroupAsked(Struct, frozen=True, kw_only=True):
    """The request to show a group."""

    group: str


class TopicsAsked(JavaObject, frozen=True):
    """The request of `mqadmin updateTopicList`, whose attributes are changes: `+key` and `-key`."""

    topic_config_list: tuple[TopicConfig, ...] = always(())


_TOPICS = Reader(TopicsAsked)


@attrs.define
class Administration:
    """Sends changes to the keeper, and answers questions from its view.

    Attributes:
        is_master: returns whether this node is the group's master at the moment and takes appends.
        processors: the processor of each request code.
    """

    _view: MetadataView
    _keeper: ActorRef[Message]
    is_master: Callable[[], bool]
    processors: dict[int, Processor] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.processors = {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self._update_topic,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self._update_topics,
            RequestCode.DELETE_TOPIC_IN_BROKER: self._delete_topic,
            RequestCode.GET_TOPIC_CONFIG: self._topic,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._update_group,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self._delete_group,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self._group,
        }

    def _update_topic(self, request: Request) -> None:
        asked = request.fields(TopicAsked)
        _check_topic(asked.topic)
        config = TopicConfig(
            order=asked.order,
            perm=asked.perm,
            read_queue_nums=asked.read_queue_nums,
            topic_filter_type=asked.topic_filter_type,
            topic_name=asked.topic,
            topic_sys_flag=asked.topic_sys_flag,
            write_queue_nums=asked.write_queue_nums,
        )
        _check_numbers(config)
        change = _TopicChange(config, _changes(asked.attributes), keeps_more=True)
        self._change(request, partial(_put_topics, changes=(change,)))

    def _update_topics(self, request: Request) -> None:
        """Change all topics of a request, or none if one of them is refused."""
        try:
            asked = _TOPICS.decode(request.body).topic_config_list
        except RemoteProtocolError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        changes = []
        for config in asked:
            _check_topic(config.topic_name)
            _check_numbers(config)
            wanted = (config.attributes or {}).items()
            text = ",".join(f"{key}={value}" if value else key for key, value in wanted)
            changes.append(_TopicChange(config, _changes(text)))
        self._change(request, partial(_put_topics, changes=changes))

    def _delete_topic(self, request: Request) -> Answer | None:
        topic = request.fields(TopicNamed).topic
        _check_topic(topic)
        if topic.startswith(OF_GROUPS) and not self.is_master():
            return Answer()
        self._change(request, partial(remove_topic, topic=topic))
        return None

    def _topic(self, request: Request) -> Answer:
        topic = request.fields(TopicNamed).topic
        config = self._view.tables.topics.topic_config_table.get(topic)
        if config is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {topic}")
        return Answer(body=encode(config))

    def _update_group(self, request: Request) -> None:
        try:
            config = SUBSCRIPTION_GROUP_CONFIG.decode(request.body)
        except RemoteProtocolError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        _check_name("group", config.group_name, GROUP_CHARS_MAX)
        self._change(request, partial(put_group, config=config))

    def _delete_group(self, request: Request) -> None:
        asked = request.fields(GroupNamed)
        self._change(
            request,
            partial(remove_group, group=asked.group_name, clean_offsets=asked.clean_offset),
        )

    def _group(self, request: Request) -> Answer:
        group = request.fields(GroupAsked).group
        config = self._view.tables.groups.subscription_group_table.get(group)
        if config is None:
            text = f"No group in this broker. group: {group}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        return Answer(body=encode(config))

    def _change(self, request: Request, make: Callable[..., Any]) -> None:
        """Have the keeper make a change, and answer the request then.

        Args:
            make: see `keeper.Change`.
        """
        if not self.is_master():
            text = "this broker takes no changes: ask the group's master"
            raise Refused(ResponseCode.NO_PERMISSION, text)

        def done(outcome: Done | Exception) -> None:
            if isinstance(outcome, Exception):
                request.fail(Refused(ResponseCode.SYSTEM_ERROR, str(outcome)))
            else:
                request.send(Answer())

        reply_to: ReplyTo[Done] = ReplyTo.local(done, asked=self._keeper)
        if not reply_to.answered and not self._keeper.offer(Change(make=make, reply_to=reply_to)):
            reply_to.fail(MailboxFull("busy"))


@attrs.frozen
class _TopicChange:
    """A change of a topic, which the keeper applies to the topic's configuration at that time.

    Attributes:
        config: the new configuration, without attributes.
        attributes: the new value of each changed attribute, or None to remove it.
        keeps_more: whether unknown keys of the present configuration stay.
    """

    config: TopicConfig
    attributes: Mapping[str, str | None]
    keeps_more: bool = False

    def of(self, before: TopicConfig | None) -> TopicConfig:
        """Return the configuration that replaces the present one, if there is one."""
        had = (before.attributes if before else None) or {}
        both: Mapping[str, str | None] = {**had, **self.attributes}
        attributes = {key: value for key, value in both.items() if value is not None}
        more = before.more if before and self.keeps_more else self.config.more
        return msgspec.structs.replace(self.config, attributes=attributes, more=more)


def _put_topics(tables: Tables, changes: Sequence[_TopicChange], now_ms: int) -> Tables:
    for change in changes:
        before = tables.topics.topic_config_table.get(change.config.topic_name)
        tables = put_topic(tables, change.of(before), now_ms)
    return tables


def _check_topic(topic: str) -> None:
    """Check that a name can be that of an operator's topic.

    Raises:
        Refused: it cannot.
    """
    _check_name("topic", topic, TOPIC_CHARS_MAX)
    if topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX):
        text = f"The topic[{topic}] is conflict with system topic."
        raise Refused(ResponseCode.INVALID_PARAMETER, text)


def _check_numbers(config: TopicConfig) -> None:
    """Check a topic's numbers of queues and its `perm`.

    Raises:
        Refused: one of them is out of its range.
    """
    for name, number, number_max in (
        ("readQueueNums", config.read_queue_nums, QUEUES_MAX),
        ("writeQueueNums", config.write_queue_nums, QUEUES_MAX),
        ("perm", config.perm, PERM_MAX),
    ):
        if not 0 <= number <= number_max:
            text = f"{name}: expected 0 to {number_max}, found {number}"
            raise Refused(ResponseCode.INVALID_PARAMETER, text)


def _check_name(what: str, name: str, chars_max: int) -> None:
    if not _NAME.fullmatch(name) or len(name) > chars_max:
        text = (
            f"The specified {what} is no name of 1 to {chars_max} characters of ^[%|a-zA-Z0-9_-]+$"
        )
        raise Refused(ResponseCode.INVALID_PARAMETER, text)


def _changes(text: str) -> dict[str, str | None]:
    """Return the changes in a text like `+key=value,-key`: by key the new value, or None.

    Raises:
        Refused: the text is of another form.
    """
    changes: dict[str, str | None] = {}
    for part in filter(None, text.split(",")):
        key, _, value = part[1:].partition("=")
        if part[0] == "-" and key:
            changes[key] = None
        elif part[0] == "+" and key and value:
            changes[key] = value
        else:
            raise Refused(ResponseCode.INVALID_PARAMETER, f"attributes: {part!r} is no +key=value")
    return changes
