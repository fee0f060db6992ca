"""What the tests of this folder share: the recorded broker set, and requests about it."""

from __future__ import annotations

import gzip
import struct

import golden_autoswitch as golden

from actors.controller.core.broker_sets import BrokerSets
from actors.controller.core.liveness import Living
from wire.broker import controller as said
from wire.broker import controller_events as events

CLUSTER, NAME = "C", "set1"
ENTRY_HEADER_BYTES = 48


def recorded_events() -> list[bytes]:
    """The bodies of the entries in the recorded controller's log."""
    data, at, found = gzip.decompress(golden.file("controller/dledger-data.gz")), 0, []
    while at < len(data):
        size, body_bytes = struct.unpack_from(">4xi36xi", data, at)
        found.append(data[at + ENTRY_HEADER_BYTES : at + ENTRY_HEADER_BYTES + body_bytes])
        at += size
    return found


def recorded_sets() -> BrokerSets:
    sets = BrokerSets()
    for body in recorded_events():
        event = events.decode_event(body)
        if event is not None:
            sets.apply(event)
    return sets


def living(*ids: int, **what: int) -> dict[int, Living]:
    return {each: Living(connection=each, until_s=10.0, **what) for each in ids}


def address(broker_id: int) -> str:
    return f"127.0.0.1:{30910 + 10 * broker_id}"


def apply(broker_id: int, code: str = "", name: str = NAME) -> said.ApplyBrokerId:
    return said.ApplyBrokerId(
        applied_broker_id=broker_id, broker_name=name, cluster_name=CLUSTER,
        register_check_code=code or f"{address(broker_id)};7",
    )  # fmt: skip
