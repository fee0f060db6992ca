"""The properties of a message: their block in a record, known names, tags and hashes.

Upstream: apache/rocketmq, common/.../message/MessageDecoder.java (messageProperties2String,
string2messageProperties, createCrc32), MessageConst.java; store/.../CommitLog.java
(checkMessageAndReturnSize), 5.3.3.

A block is UTF-8 text: name 0x01 value 0x02, name 0x01 value 0x02, ... From 5.2.0 on the last 0x02
is written, before it was not; a reader takes both. A piece of fewer than 3 characters, or without
a name or a value, is skipped; of two equal names the later one counts (seen: each record of a 5.3.3
batch has its own UNIQ_KEY, then that of the whole batch). The order is that of the mapping
(upstream: of a Java hash map), so a block that has to stay the same is kept as bytes.

Differs: text that is no UTF-8 is replaced by U+FFFD, as in Java, so that reading never fails;
writing refuses names and values that no reader would get back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from wire.errors import LocalProtocolError

NAME_END: Final = b"\x01"
VALUE_END: Final = b"\x02"

TAGS: Final = "TAGS"
KEYS: Final = "KEYS"  # several, with a blank between
UNIQ_KEY: Final = "UNIQ_KEY"  # the id that the producer gave
DELAY: Final = "DELAY"  # delay level, decimal, from 1
WAIT: Final = "WAIT"  # "true": the producer waits for the slaves
# Light message queues that lead to the record, too, and its queue offset in each; with commas.
MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
# Of a record that is a batch (a topic with queue.type = BatchCQ): first queue offset, and how many.
INNER_BASE: Final = "INNER_BASE"
INNER_NUM: Final = "INNER_NUM"

# The field for its length is a signed short.
PROPERTIES_BYTES_MAX: Final = 2**15 - 1
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""messageDelayLevel's default; level n is the n-th."""
_DELAY_UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

LIGHT_QUEUE_PREFIX: Final = "%LMQ%"
# Their records are led to by no other queue.
_UNSHARED_TOPICS: Final = ("%RETRY%", "rmq_sys_")
_LONG_MAX: Final = 2**63 - 1
_SHORT_MAX: Final = 2**15 - 1

_NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})


def encode_properties(properties: Mapping[str, str] | Sequence[tuple[str, str]]) -> bytes:
    """Encode `properties` as a block, in their order. It ends with 0x02, which 4.9 omits.

    Args:
        properties: names and values, neither empty, without 0x01 and 0x02 (a value may hold 0x01).

    Raises:
        LocalProtocolError: a name or value would not be read back, or the block is too long.
    """
    pairs = list(properties.items() if isinstance(properties, Mapping) else properties)
    for name, value in pairs:
        if not name or not value or "\2" in name + value or "\1" in name:
            raise LocalProtocolError(f"property {name!r} = {value!r} would not be read back")
    text = "".join(f"{name}\1{value}\2" for name, value in pairs)
    try:
        block = text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"a property is not Unicode text: {error}") from None
    if len(block) > PROPERTIES_BYTES_MAX:
        raise LocalProtocolError(
            f"{len(block)} bytes of properties, at most {PROPERTIES_BYTES_MAX}"
        )
    return block


def decode_properties(block: bytes) -> Mapping[str, str]:
    """Decode names and values of a block; never fail, whatever the bytes are."""
    if not block:
        return _NO_PROPERTIES
    found: dict[str, str] = {}
    for piece in block.decode("utf-8", "replace").split("\2"):
        name, separator, value = piece.partition("\1")
        if name and separator and value:
            found[name] = value
    return found


def find_value(framed: bytes, start: bytes) -> bytes | None:
    """Return the value of one property, undecoded; None if it is missing.

    It is the value that `decode_properties` returns, without the cost of a mapping.

    Args:
        framed: 0x02 and a property block.
        start: 0x02, the property's name in ASCII, 0x01. The caller frames both, because it looks
            for several names in each of many blocks.
    """
    at = framed.rfind(start)
    while at >= 0:
        value_at = at + len(start)
        end = framed.find(VALUE_END, value_at)
        if end != value_at and value_at < len(framed):
            return framed[value_at:end] if end >= 0 else framed[value_at:]
        # An empty value does not count; an earlier one may. The 0x02 ends the piece before it.
        at = framed.rfind(start, 0, at)
    return None


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode`: a signed int over the UTF-16 units."""
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = 31 * value + unit & 0xFFFFFFFF
    else:
        data = text.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(data), 2):
            value = 31 * value + (data[at] << 8 | data[at + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def tags_code(tags: str | None) -> int:
    """Return a consume queue's code of a message's tags: their Java hash, 0 without tags."""
    return java_string_hash(tags) if tags else 0


@lru_cache(maxsize=4096)  # tags repeat; the bound is for those that do not
def tags_code_of_bytes(tags: bytes) -> int:
    """Return the `tags_code` of tags as a record stores them."""
    return tags_code(tags.decode("utf-8", "replace"))


@lru_cache(maxsize=64)  # each group has its own, and asks with every slice of its log
def delay_levels_ms(text: str) -> tuple[int, ...]:
    """Return the delays of the levels in ms.

    Args:
        text: the levels in the form of messageDelayLevel: decimal numbers with s, m, h or d, with
            a blank between them.
    """
    return tuple(int(each[:-1]) * _DELAY_UNITS_MS[each[-1]] for each in text.split(" "))


DELAY_LEVELS_MS: Final = delay_levels_ms(DELAY_LEVELS)


def delivery_time(
    delay: str, store_ts: int, delay_levels_ms: Sequence[int] = DELAY_LEVELS_MS
) -> int | None:
    """Return when a message of SCHEDULE_TOPIC is due, which its unit has as the tags code.

    Args:
        delay: the DELAY property: the level, from 1. Levels above the last count as the last.
        store_ts: the record's store timestamp in ms.
        delay_levels_ms: the delays of the levels in ms; empty means 1 s for every level.

    Returns:
        The time in ms, a long that wraps as Java's does. None if the level is no positive int; then
        the tags make the code.
    """
    digits = delay[1:] if delay[:1] in ("+", "-") else delay
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10 or int(delay) <= 0:
        return None
    delay_ms = 1000
    if delay_levels_ms:
        delay_ms = delay_levels_ms[min(int(delay), len(delay_levels_ms)) - 1]
    due = store_ts + delay_ms
    return due - 2**64 if due >= 2**63 else due


def queue_tags_code(
    topic: str,
    properties: Mapping[str, str],
    store_ts: int,
    delay_levels_ms: Sequence[int] = DELAY_LEVELS_MS,
) -> int:
    """Return the tags code of a record's unit: its delivery time or the hash of its tags."""
    if topic == SCHEDULE_TOPIC and DELAY in properties:
        due = delivery_time(properties[DELAY], store_ts, delay_levels_ms)
        if due is not None:
            return due
    return tags_code(properties.get(TAGS))


def light_queues(topic: str, names: str, offsets: str) -> tuple[tuple[str, int], ...]:
    """Return the light message queues of a record, all with queue id 0, and its offset in each.

    Args:
        topic: the record's own topic.
        names, offsets: its properties MULTI_DISPATCH and MULTI_QUEUE_OFFSET. They are ignored, as
            in upstream, unless there are as many offsets as names. A name without the prefix is
            ignored, too, because upstream assigns it no offset.

    Source: rocketmq store/.../queue/MultiDispatchUtils.java, ConsumeQueue.java
    multiDispatchLmqQueue, 5.5.0.
    """
    if topic == SCHEDULE_TOPIC or topic.startswith(_UNSHARED_TOPICS):
        return ()
    each, numbers = names.split(","), offsets.split(",")
    if len(each) != len(numbers):
        return ()
    return tuple(
        (name, offset)
        for name, number in zip(each, numbers, strict=True)
        if name.startswith(LIGHT_QUEUE_PREFIX)
        and (offset := _decimal(number, _LONG_MAX)) is not None
    )


def inner_batch(base: str, count: str) -> tuple[int, int] | None:
    """Return the first queue offset and the number of messages of a record that is a batch.

    Args:
        base, count: its properties INNER_BASE and INNER_NUM.

    Returns: None if it is no batch.
    """
    first, number = _decimal(base, _LONG_MAX), _decimal(count, _SHORT_MAX)
    return None if first is None or not number else (first, number)


def _decimal(text: str, most: int) -> int | None:
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(most)):
        return None
    value = int(text)
    return value if value <= most else None
