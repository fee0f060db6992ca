"""A Python member inside a group of stock RocketMQ brokers (`enableDLegerCommitLog=true`).

It follows, votes and acknowledges, and leads never. The judges share no code with the project: the
members' files are the same to the last byte, and at the end a broker that has nothing but our store
serves every message to RocketMQ's own consumer.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from interop_checks import sizes
from interop_ledger_brokers import BrokerGroup, bodies_of
from interop_processes import PEER_S, TEST_S, Processes
from interop_rocketmq import Driver, NameServer
from interop_versions import NEWEST, Peer, beside

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]

FIRST, MORE = 60, 40
SIZES = sizes(FIRST + MORE, 30_000)
READ_S = int(PEER_S)


def sha256(number: int) -> str:
    """Of the body of a message, as Driver.java makes it."""
    return hashlib.sha256(bytes((number + i) % 251 for i in range(SIZES[number]))).hexdigest()


@beside("rocketmq", NEWEST.version)
def test_ours_among_brokers(
    peer: Peer, name_server: NameServer, driver: Driver, tmp_path: Path, processes: Processes
) -> None:
    topic = f"{tmp_path.name}-topic"
    with BrokerGroup(tmp_path.name, tmp_path, peer.jars(), name_server, processes) as group:
        group.start()
        first = group.master()
        answers = driver.run("send", topic, 0, SIZES[:FIRST])
        group.wait_until_equal(topic, FIRST)

        group.kill(first)
        second = group.master()  # by our vote
        answers += driver.run("send", topic, FIRST, SIZES[FIRST:])  # by our acknowledgements
        log = group.wait_until_equal(topic, FIRST + MORE)
        assert second != first
        assert len(set(log.terms)) > 1
        accepted = [answer["number"] for answer in answers if answer.get("status") == "SEND_OK"]
        assert accepted == list(range(FIRST + MORE))

        assert group.ours is not None
        assert group.ours.stop() == 0
        roles = [event["role"] for event in group.our_events() if event["kind"] == "RoleChanged"]
        assert "FOLLOWER" in roles
        assert "LEADER" not in roles

        group.kill(second)
        group.inherit(second)
        assert group.master() == second
        read = driver.run("consume", topic, len(bodies_of(log, topic)), READ_S)

    bodies: dict[int, set[str]] = {}
    for message in read:
        bodies.setdefault(int(message["properties"]["number"]), set()).add(message["bodySha256"])
    assert bodies == {number: {sha256(number)} for number in range(FIRST + MORE)}
    starts = {message["physicalOffset"] for message in read}
    assert len(starts) == len(read) == len(bodies_of(log, topic))
