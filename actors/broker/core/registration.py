"""What one name server is told of a broker, and when.

Upstream: apache/rocketmq, broker/.../BrokerController.java (registerBrokerAll,
registerIncrementBrokerData), out/BrokerOuterAPI.java, 5.3.3; broker.md 2.2 and 2.4.

A registration in full comes first, and every PERIOD_S: all topics of a master, none of a slave
(T6). Each topic that is made or changed is told at once by itself. Nothing counts until the name
server has answered with code 0: whatever fails is followed by a registration in full.

A name server refuses a broker that begins with exactly one topic (T4), and a frame holds no more
than some ten thousand. So a table is told in parts: a lone topic behind an empty part, a large
table by PART_TOPICS. 4.x takes a table only if its version is another one than the last, so each
part has one of its own, and the last one the table's. For the same reason each topic that is told
by itself has a version of its own, earlier than the table's by some milliseconds: no name server
takes a topic that it knows under a version that it knows, and a 4.x one that was started meanwhile
takes the one topic for all there are, and the others later only under another version.

A name server that has all is not told again what is new to it, or what `wipeWritePerm` took from
topics would be back: the table of one part is its renewal, for its version is known, and instead of
a table of several the version alone is compared (QUERY_DATA_VERSION, which renews, too). Who does
not compare, or has another version, is told all. Until a topic changes, that is: upstream's then
gives back only what it took from that topic.

The version has the number of the promotion as its state version: a name server then ignores a
master that was replaced and does not know it yet (broker.md 2.2, no. 2).

Differs: upstream registers at the start, 10 s later, and then every 30 s, whatever is answered, and
never says less than all its topics but at a change.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import attrs
import msgspec

from wire.broker.topics import DataVersion, TopicConfig, TopicTable

PERIOD_S: Final = 30.0
"""From one registration in full to the next. Upstream: registerNameServerPeriod."""
CALL_S: Final = 24.0
"""How long a registration in full may take. Upstream: registerBrokerTimeoutMills."""
TOPIC_CALL_S: Final = 3.0
"""How long one of a single topic may take. Upstream: a constant, 3000 ms."""
SAID_AFTER: Final = 3
"""So many failures in a row are told: a name server may just be starting, as nodes' own do."""
RETRY_FIRST_S: Final = 0.5
RETRY_MAX_S: Final = 10.0
"""The pause after a failure, doubled from the first to the longest."""
CHANGES_MAX: Final = 64
"""More topics that changed since are told by a registration in full."""
PART_TOPICS: Final = 20_000
"""Of the largest part: with names of full length some 6 MiB. Upstream: splitRegistrationSize."""


@attrs.frozen(kw_only=True)
class Told:
    """One request: the topics in it, and how long its answer may take.

    Attributes:
        compares: whether it only asks if the name server has the table's version.
    """

    table: TopicTable
    timeout_s: float
    compares: bool = False


def in_parts(table: TopicTable) -> tuple[TopicTable, ...]:
    """What a registration in full consists of, in order; see the module's text."""
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
    return msgspec.structs.replace(version, timestamp=version.timestamp - by)


def _changed(old: TopicTable, new: TopicTable) -> Iterator[tuple[str, TopicConfig]]:
    before = old.topic_config_table
    for name, row in new.topic_config_table.items():
        if before.get(name) != row:
            yield name, row


@attrs.define
class Registration:
    """What one name server has been told.

    Attributes:
        is_registered: it has answered to all that a registration in full consists of, and to
            nothing since with a failure.
        reason: why not, for people; "" before the first answer.
        failures: how many requests have failed since it was registered.
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
    _due_s: float = 0.0

    def next(self, table: TopicTable, now_s: float) -> Told | None:
        """The request to send now.

        Args:
            table: all that there is to tell.

        Returns: None if there is none, or one is under way.
        """
        if self._is_asked:
            return None
        if not self._parts:
            if now_s < self._due_s:
                return self._next_topic(table, now_s)
            if self._told is not None and self._told.data_version == table.data_version:
                return self._renewal(table)
            self._full, self._parts = table, in_parts(table)
        part, *rest = self._parts
        self._parts, self._is_asked = tuple(rest), True
        return Told(table=part, timeout_s=CALL_S)

    def _renewal(self, table: TopicTable) -> Told:
        """What does not change a table that the name server has."""
        self._is_asked = True
        if len(table.topic_config_table) <= PART_TOPICS:
            self._full = table
            return Told(table=table, timeout_s=CALL_S)
        self._compares = True
        return Told(table=table, timeout_s=TOPIC_CALL_S, compares=True)

    def _next_topic(self, table: TopicTable, now_s: float) -> Told | None:
        told = self._told
        if told is None or told.data_version == table.data_version:
            return None
        changed = list(islice(_changed(told, table), CHANGES_MAX + 1))
        if not changed:  # others are gone, which no registration says
            self._told = table
            return None
        if len(changed) > CHANGES_MAX:
            self._due_s = now_s
            return self.next(table, now_s)
        name, row = changed[0]
        self._single = _only(told, {**told.topic_config_table, name: row}, told.data_version)
        self._is_asked = True
        version = _earlier(table.data_version, len(changed))
        return Told(table=_only(table, {name: row}, version), timeout_s=TOPIC_CALL_S)

    def answered(self, now_s: float, *, changed: bool = False) -> None:
        """The request under way was answered with code 0.

        Args:
            changed: the name server has another version than one that was to be compared.
        """
        self._is_asked = False
        if self._compares:
            self._compares = False
            self._told = None if changed else self._told
            self._due_s = now_s if changed else now_s + PERIOD_S
        elif self._single is not None:
            self._told, self._single = self._single, None
        elif not self._parts:
            self._told, self._full = self._full, None
            self.is_registered, self.reason, self.failures = True, "", 0
            self._due_s = now_s + PERIOD_S

    def failed(self, reason: str, now_s: float) -> None:
        """It was answered otherwise, or not."""
        if self._compares:
            self.answered(now_s, changed=True)
            return
        self._is_asked, self.is_registered, self.reason = False, False, reason
        self._told = self._full = self._single = None
        self._parts = ()
        self._due_s = now_s + min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(self.failures, 16))
        self.failures += 1

    @property
    def due_s(self) -> float | None:
        """When to look for the next request, if nothing else happens before; None: one is under
        way.
        """
        return None if self._is_asked else self._due_s
