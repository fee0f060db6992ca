"""The fuzzer's targets in what brokers and name servers tell each other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from fuzz_engine import Target
from fuzz_wire import GOLDEN, REMOTE, files_of

from wire.broker import increments, java_json, metadata, topics
from wire.errors import RemoteProtocolError

_FILES = files_of(java_json, topics, metadata, increments)
_TOKENS = (b"{0:1}", b",-1 :", b"null", b'"\\', b'"more":{}', b'"":{}', b"[" * 40, b'"1"', b"1e3")
_MODES = b'{"messageRequestModeMap":{"t":{"g":{"mode":"POP","popShareQueueNum":2,"x":{1:2}}}}}'
_METRICS = (
    b'{"dataVersion":{"counter":1,"timestamp":2},"timingCount":{"t":{"count":1,"timeStamp":2}}}'
)
_INCREMENT = (
    b'{"boot":1,"full":false,"number":2,"removed":{"topics":["a"]},"timerCheckpoint":"00","topics":'
    b'{"dataVersion":{"counter":1},"topicConfigTable":{"t":{"topicName":"t"}}}}'
)


def document(reader: java_json.Reader[Any]) -> Callable[[bytes], object]:
    """What is read is written, on one line and on many, and read again alike."""

    def run(data: bytes) -> object:
        found = reader.decode(data)
        assert reader.decode(java_json.encode(found)) == found
        assert reader.decode(java_json.encode_pretty(found)) == found
        return None

    return run


def integer_keys(data: bytes) -> object:
    """Nothing is lost but for quotes, and once is enough."""
    found = java_json.quote_integer_keys(data)
    assert found.replace(b'"', b"") == data.replace(b'"', b"")
    with contextlib.suppress(RemoteProtocolError):
        topics.TOPIC_TABLE.decode(data)
        assert java_json.quote_integer_keys(found) == found
    return None


def timer_checkpoint(data: bytes) -> object:
    found = metadata.decode_timer_checkpoint(data)
    encoded = metadata.encode_timer_checkpoint(found)
    assert encoded == data[: len(encoded)].ljust(len(encoded), b"\0") or len(data) < len(encoded)
    assert metadata.decode_timer_checkpoint(encoded) == found
    return None


def _golden(name: str) -> tuple[bytes, ...]:
    """A file of a master of each version, cut to a size that mutations reach."""
    found = [(GOLDEN / version / "master" / "config" / name) for version in ("4.9.7", "5.3.3")]
    return tuple(path.read_bytes() for path in found)


def targets() -> tuple[Target, ...]:
    """All of them."""
    documents: dict[str, tuple[java_json.Reader[Any], tuple[bytes, ...]]] = {
        "topic table": (topics.TOPIC_TABLE, _golden("topics.json")),
        "consumer offsets": (metadata.CONSUMER_OFFSETS, _golden("consumerOffset.json")),
        "delay offsets": (metadata.DELAY_OFFSETS, _golden("delayOffset.json")),
        "group table": (metadata.GROUP_TABLE, _golden("subscriptionGroup.json")),
        "request modes": (metadata.REQUEST_MODES, (_MODES,)),
        "timer metrics": (metadata.TIMER_METRICS, (_METRICS,)),
        "increment": (increments.INCREMENT, (_INCREMENT,)),
        "topic queue mappings": (
            topics.TOPIC_QUEUE_MAPPINGS,
            (b'{"dataVersion":{"counter":0},"topicQueueMappingInfoMap":{"t":{"0":[{}]}}}',),
        ),
    }
    checkpoint = b"".join(number.to_bytes(8) for number in range(7))
    return (
        *(
            Target(name=name, run=document(reader), seeds=seeds, files=_FILES, raises=REMOTE,
                   tokens=_TOKENS, size_max=8192)
            for name, (reader, seeds) in documents.items()
        ),
        Target(name="integer keys", run=integer_keys, seeds=(_MODES,), files=_FILES,
               tokens=_TOKENS),
        Target(name="timer checkpoint", run=timer_checkpoint, seeds=(checkpoint, checkpoint[:32]),
               files=_FILES, raises=REMOTE),
    )  # fmt: skip
