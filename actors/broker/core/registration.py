"""Which requests register a broker with one name server, and when they are sent.

Upstream: apache/rocketmq, broker/.../BrokerController.java (registerBrokerAll,
registerIncrementBrokerData), out/BrokerOuterAPI.java, 5.3.3; broker.md 2.2 and 2.4.

A full registration comes first and then every PERIOD_S. It has all topics of a master, and none of
a slave (T6). Each topic that is created or changed is sent at once in a request of its own. A
request counts once the name server has answered it with code 0; after a failure there is a full
registration.

A name server refuses a broker whose first registration has exactly one topic (T4), and a frame has
room for some ten thousand. So a table is sent in parts: a single topic after an empty part, a large
table by PART_TOPICS. A name server of 4.x accepts a table only if its version differs from the last
one. So each part has a different version, and the last part that of the table.

A name server that has everything must not receive it again as new, as this would give back
permissions that `wipeWritePerm` took from topics. A table of one part is its own renewal, as its
version is known. Instead of a table of several parts only the version is compared
(QUERY_DATA_VERSION, which renews as well). Changed topics are sent one by one, each under a version
of its own, as no name server accepts a topic that it knows with a version that it knows; the last
one has the table's version. So a name server gives back only what it took from the changed topics.
If a topic was deleted, with changes of others or alone, the next table is new, and it gives back
all. Both are as with upstream's brokers.

Before changed topics, the version that the name server should have is compared: one of 4.x that was
restarted takes a single topic for all of them, and accepts no others under that topic's version. A
name server with another version receives all parts. One that does not compare (3.2.6) receives each
changed topic under a version some milliseconds earlier than the table's, and all parts later.

The version's state version is the number of the promotion. A name server therefore ignores a master
that was replaced and does not know that yet (broker.md 2.2, no. 2).

Differs: upstream registers at the start, 10 s later and then every 30 s, whatever the answers are,
and sends all topics each time unless one has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import attrs
import msgspec

from wire.broker.topics import DataVersion, TopicConfig, TopicTable, as_long

PERIOD_S: Final = 30.0
"""The seconds from one full registration to the next. Upstream: registerNameServerPeriod."""
CALL_S: Final = 24.0
"""The seconds that a request of a full registration may take. Upstream:
registerBrokerTimeoutMills."""
TOPIC_CALL_S: Final = 3.0
"""The seconds that the request for a single topic may take. Upstream: a constant, 3000 ms."""
SAID_AFTER: Final = 3
"""After this many failures in a row there is a warning. Before, a name server may be starting."""
RETRY_FIRST_S: Final = 0.5
RETRY_MAX_S: Final = 10.0
"""The longest pause after a failure, in seconds. The pauses double from RETRY_FIRST_S on."""
CHANGES_MAX: Final = 64
"""The most changed topics that are sent one by one; more are sent by a full registration."""
PART_TOPICS: Final = 20_000
"""The most topics in a part: with the longest names some 6 MiB. Upstream: splitRegistrationSize."""


@attrs.frozen(kw_only=True)
class Told:
    """One request: the topics in it, and how many seconds it may take.

    Attributes:
        compares: whether it only asks if the name server has the table's version.
    """

    table: TopicTable
    timeout_s: float
    compares: bool = False


def in_parts(table: TopicTable) -> tuple[TopicTable, ...]:
    """Return the parts of a full registration, in order; see the module's text."""
    rows = list(table.topic_config_table.items())
    sizes = [0, 1] if len(rows) == 1 else [PART_TOPICS] * (len(rows) // PART_TOPICS)
    if (rest := len(rows) - sum(sizes)) or not sizes:
        sizes.append(rest)
    parts, at = [], 0
    for left, size in zip(range(len(sizes) - 1, -1, -1), sizes, strict=True):
        version = _earlier(table.data_version, left)
        parts.append(_only(table, dict(rows[at : at + size]), version))
        at += size
    return tuple(parts)


def _only(table: TopicTable, rows: dict[str, TopicConfig], version: DataVersion) -> TopicTable:
    return msgspec.structs.replace(table, topic_config_table=rows, data_version=version)


def _earlier(version: DataVersion, by: int) -> DataVersion:
    return msgspec.structs.replace(version, timestamp=as_long(version.timestamp - by))


def _changed(old: TopicTable, new: TopicTable) -> Iterator[tuple[str, TopicConfig]]:
    before = old.topic_config_table
    for name, row in new.topic_config_table.items():
        if before.get(name) != row:
            yield name, row


@attrs.define
class Registration:
    """The state of a broker's registration with one name server.

    Attributes:
        is_registered: whether all parts of a full registration were accepted, and no request has
            failed since.
        reason: why the broker is not registered, for people; "" before the first answer.
        failures: how many requests have failed since the broker was last registered.
    """

    is_registered: bool = False
    reason: str = ""
    failures: int = 0
    _told: TopicTable | None = None  # what it has; None: that is not known
    _full: TopicTable | None = None  # a registration in full of this is under way
    _parts: tuple[TopicTable, ...] = ()  # of it, not sent yet
    _single: TopicTable | None = None  # what it has once the single topic under way is answered
    _is_asked: bool = False
    _compares: bool = False  # that is under way
    _is_known: bool = False  # it was just compared: it has what it was told
    _compares_nothing: bool = False  # it takes registrations, and did not answer the question
    _due_s: float = 0.0

    def next(self, table: TopicTable, now_s: float) -> Told | None:
        """Return the request to send now.

        Args:
            table: all topics to register.
            now_s: the time in seconds.

        Returns:
            None if there is nothing to send, or if a request is under way.
        """
        if self._is_asked:
            return None
        if not self._parts:
            told = self._told
            is_same = told is not None and told.data_version == table.data_version
            self._is_known = self._is_known and not is_same
            if told is not None and not is_same:
                if now_s < self._due_s or not self._compares_nothing:
                    return self._next_topic(told, table, now_s)
            elif now_s < self._due_s:
                return None
            if is_same:
                return self._renewal(table)
            self._full, self._parts = table, in_parts(table)
        part, *rest = self._parts
        self._parts, self._is_asked = tuple(rest), True
        return Told(table=part, timeout_s=CALL_S)

    def _renewal(self, table: TopicTable) -> Told:
        """Return the request that renews a table which the name server has, without changing it."""
        self._is_asked = True
        if len(table.topic_config_table) <= PART_TOPICS:
            self._full = table
            return Told(table=table, timeout_s=CALL_S)
        self._compares = True
        return Told(table=table, timeout_s=TOPIC_CALL_S, compares=True)

    def _next_topic(self, told: TopicTable, table: TopicTable, now_s: float) -> Told | None:
        changed = list(islice(_changed(told, table), CHANGES_MAX + 1))
        if len(changed) > CHANGES_MAX:
            self._told, self._due_s = None, now_s
            return self.next(table, now_s)
        if not changed:  # others are gone, which nothing but the next table says
            self._told = table
            return None
        self._is_asked = True
        if not (self._is_known or self._compares_nothing):
            self._compares = True
            return Told(table=told, timeout_s=TOPIC_CALL_S, compares=True)
        rows, left = dict(changed[:1]), len(changed) - 1
        has, version = {**told.topic_config_table, **rows}, told.data_version
        # the table's own version would keep the next table, and what is gone, from the name server
        is_all = self._is_known and has.keys() <= table.topic_config_table.keys()
        self._single = table if is_all and not left else _only(told, has, version)
        version = _earlier(table.data_version, left if is_all else left + 1)
        return Told(table=_only(table, rows, version), timeout_s=TOPIC_CALL_S)

    def answered(self, now_s: float, *, changed: bool = False) -> None:
        """Note that the request under way was answered with code 0.

        Args:
            now_s: the time in seconds.
            changed: whether the name server has another version than the compared one.
        """
        self._is_asked = False
        if self._compares:
            self._compares, self._is_known = False, not changed
            self._compares_nothing = False
            self._told = None if changed else self._told
            if changed:
                self._due_s = now_s
            elif now_s >= self._due_s:
                self._due_s = now_s + PERIOD_S
        elif self._single is not None:
            self._told, self._single = self._single, None
        elif not self._parts:
            self._told, self._full = self._full, None
            self.is_registered, self.reason, self.failures = True, "", 0
            self._due_s = now_s + PERIOD_S

    def failed(self, reason: str, now_s: float) -> None:
        """Note that the request under way was answered with another code, or failed.

        Args:
            reason: why, for people.
            now_s: the time in seconds.
        """
        if self._compares:
            self.answered(now_s, changed=True)
            self._compares_nothing = True
            return
        self._is_asked = self._is_known = self._compares_nothing = False
        self.is_registered, self.reason = False, reason
        self._told = self._full = self._single = None
        self._parts = ()
        self._due_s = now_s + min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(self.failures, 16))
        self.failures += 1

    @property
    def due_s(self) -> float | None:
        """When to call `next` again if the topics do not change before; None while a request is
        under way.
        """
        return None if self._is_asked else self._due_s
