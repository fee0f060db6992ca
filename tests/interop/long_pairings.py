"""A Java broker and a node of ours as one broker's master and slave, who know each other by a name
server alone; slave, name server and master are killed in turn. `make long` runs it.

Each pairing goes through four rounds: nobody killed, and then each of the three. A round ends when
the name server names both, the logs are equal, and the files of topics, groups and offsets say the
same on both sides, with what the round has changed. The judges share no code with the project.

It takes minutes rather than processors: a 5.x slave asks for metadata once a minute.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from interop_logs import LogFiles
from interop_name_server import OurNameServer
from interop_nodes import GROUP, JAVA_ADDRESS, Node, message, write_cluster
from interop_processes import PEER_S, Processes, free_ports, wait_for
from interop_remoting import GET_BROKER_RUNTIME_INFO, call
from interop_rocketmq import Broker, NameServer
from interop_versions import Peer, beside, numbers
from test_interop_metadata import (
    DELETE_TOPIC,
    OUR_ADDRESS,
    UPDATE_GROUP,
    UPDATE_OFFSET,
    UPDATE_TOPIC,
    broker_of,
)
from test_interop_older_brokers import wait_until_equal

LONG_S: Final = 3600.0
pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(LONG_S, func_only=True)]

NOBODY = "127.0.0.4"
SEND_MESSAGE = 10
FILES: Final = {
    "topics.json": "topicConfigTable",
    "subscriptionGroup.json": "subscriptionGroupTable",
    "consumerOffset.json": "offsetTable",
    "delayOffset.json": "offsetTable",
}
"""The rows in each file."""
SYNC_S: Final = 2 * 60.0 + PEER_S
"""A 5.x slave asks once a minute, and leaves out a time when it was told of no master."""
KILLED: Final = ("nobody", "slave", "name server", "master")
BATCH: Final = 60
BODY_BYTES: Final = 3_000


@attrs.define
class Side:
    """The master or the slave, whoever runs it.

    Attributes:
        address: where name servers say that it is.
    """

    it: Broker | Node
    host: str
    port: int

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def config(self) -> dict[str, Any] | None:
        """The rows of each file; None while one is missing, or only half there."""
        found = {}
        for name, table in FILES.items():
            try:
                text = (self.it.store / "config" / name).read_bytes()
                # Java does not quote the numbers of queues and of delays.
                document = json.loads(re.sub(rb"([{,]\s*)(-?\d+)\s*:", rb'\1"\2":', text))
            except (OSError, ValueError):
                return None
            found[name] = document.get(table, {})
        return found

    def asked(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> None:
        """A request to it as a broker, until it says that this is done."""
        assert self.it.process is not None
        wait_for(
            lambda: call(self.port, code, body, host=self.host, fields=fields) is not None,
            f"{code} answered",
            timeout_s=PEER_S,
            alive=[self.it.process],
            poll_s=0.5,
        )


def says_the_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """The same rows, each with the same in all that both have of it: of a topic or group a broker
    writes down what its version knows.
    """

    def agree(name: str) -> bool:
        left, right = one[name], other[name]
        if FILES[name] == "offsetTable":
            return bool(left == right)
        return left.keys() == right.keys() and all(
            row[field] == right[key][field]
            for key, row in left.items()
            for field in row.keys() & right[key].keys()
        )

    return all(map(agree, FILES))


def change(master: Side, number: int) -> None:
    """A new topic and group, and the topic of the round before goes; offsets where it takes them,
    which one of ours does not yet: those are in the files that it begins with.
    """
    topic, group = f"T{number}", f"G{number}"
    # A name server takes no first registration of exactly one topic, so there is another one.
    for name in (topic, "flow"):
        master.asked(UPDATE_TOPIC, {
            "topic": name, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4",
            "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
            "attributes": "",
        })  # fmt: skip
    master.asked(UPDATE_GROUP, body=json.dumps({"groupName": group, "retryMaxTimes": 3}).encode())
    if isinstance(master.it, Broker):
        master.asked(UPDATE_OFFSET, {
            "consumerGroup": group, "topic": topic, "queueId": "1", "commitOffset": str(number),
        })  # fmt: skip
    if number:
        master.asked(DELETE_TOPIC, {"topic": f"T{number - 1}"})


def append(master: Side, first: int) -> None:
    if isinstance(master.it, Node):
        batch = [message("flow", number, BODY_BYTES) for number in range(first, first + BATCH)]
        master.it.append(batch)
        return
    for number in range(first, first + BATCH):
        fields = {
            "producerGroup": "P", "topic": "flow", "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4", "queueId": str(number % 4), "sysFlag": "0",
            "bornTimestamp": str(int(time.time() * 1000)), "flag": "0", "reconsumeTimes": "0",
            "unitMode": "false", "batch": "false",
            # Those of the first delay are due after a second, and move a delay offset then.
            "properties": "DELAY\x011\x02" if number % 20 == 0 else "",
        }  # fmt: skip
        master.asked(SEND_MESSAGE, fields, bytes(BODY_BYTES))


@attrs.define
class Pairing:
    name_server: NameServer
    master: Side
    slave: Side
    restarted: Callable[[], NameServer]  # the name server's next run
    appended: int = 0
    queues_are_equal: bool = True

    def side(self, kind: type[Broker | Node]) -> Side:
        """Java's, or ours."""
        (found,) = (each for each in (self.master, self.slave) if isinstance(each.it, kind))
        return found

    @property
    def java(self) -> Broker:
        it = self.side(Broker).it
        assert isinstance(it, Broker)
        return it

    @property
    def ours(self) -> Node:
        it = self.side(Node).it
        assert isinstance(it, Node)
        return it

    def start(self, side: Side) -> None:
        side.it.start()
        if isinstance(side.it, Broker):
            key = "0" if side is self.master else "1"
            side.it.register(lambda: self.name_server.addresses(GROUP).get(key) == side.address)

    def append(self) -> None:
        append(self.master, self.appended)
        self.appended += BATCH

    def round(self, number: int) -> None:
        """Kill somebody, start it again, and see everything."""
        killed = KILLED[number]
        if killed == "name server":
            self.name_server.process.kill()
            self.append()
            self.name_server = self.restarted()
        elif killed != "nobody":
            side = self.slave if killed == "slave" else self.master
            side.it.kill()
            if killed == "slave":
                self.append()
            else:
                self.commit_while_down(number)
            self.start(side)
        change(self.master, number)
        least = LogFiles.read(self.master.it.commitlog).end_bytes
        self.append()
        self.see(number, least)

    def commit_while_down(self, number: int) -> None:
        """A master of ours is given offsets by its files, as its broker would have left them."""
        if isinstance(self.master.it, Node):
            path = self.master.it.store / "config" / "consumerOffset.json"
            document = json.loads(path.read_text())
            document["offsetTable"]["flow@G0"]["1"] = 10 + number
            path.write_text(json.dumps(document))

    def see(self, number: int, least: int) -> None:
        alive = [each.it.process for each in (self.master, self.slave)]
        running = [process for process in alive if process is not None]
        wanted = {"0": self.master.address, "1": self.slave.address}
        wait_for(
            lambda: self.name_server.addresses(GROUP) == wanted,
            f"{wanted} at the name server",
            timeout_s=SYNC_S,
            alive=running,
            poll_s=0.5,
        )
        wait_until_equal(self.java, self.ours, least, queues=self.queues_are_equal)

        def same() -> bool:
            theirs, ours = self.side(Broker).config(), self.side(Node).config()
            if theirs is None or ours is None:
                return False
            return self.holds(number, ours) and says_the_same(theirs, ours)

        def difference() -> str:
            one, other = self.master.config(), self.slave.config()
            return f"\n{json.dumps(one, sort_keys=True)}\n{json.dumps(other, sort_keys=True)}"

        try:
            wait_for(same, "equal metadata", timeout_s=SYNC_S, alive=running, poll_s=0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}: {difference()}") from None

    def holds(self, number: int, config: dict[str, Any]) -> bool:
        """What this round and those before it have changed is there."""
        topics, offsets = config["topics.json"], config["consumerOffset.json"]
        made = {name for name in topics if name in {f"T{n}" for n in range(len(KILLED))}}
        groups = {f"G{n}" for n in range(number + 1)}
        if isinstance(self.master.it, Broker):
            told = offsets.get(f"T{number}@G{number}") == {"1": number}
            delayed = bool(config["delayOffset.json"])
        else:
            begun = 10 + number if number == KILLED.index("master") else 9
            told = offsets["flow@G0"] == {"0": 7, "1": begun}
            delayed = config["delayOffset.json"] == {"1": 5}
        return (
            made == {f"T{number}"}
            and groups <= config["subscriptionGroup.json"].keys()
            and told
            and delayed
        )


def give_offsets(master: Side) -> None:
    """Begin and end a master of ours, and put into its folder what a broker leaves in one."""
    assert isinstance(master.it, Node)
    begun = master.it.start()
    wait_for(
        lambda: call(master.port, GET_BROKER_RUNTIME_INFO, host=master.host) is not None,
        "our master's port",
        timeout_s=PEER_S,
        alive=[begun],
    )
    assert master.it.stop() == 0
    config = master.it.store / "config"
    offsets = {"offsetTable": {"flow@G0": {0: 7, 1: 9}}}
    (config / "consumerOffset.json").write_text(json.dumps(offsets))
    (config / "delayOffset.json").write_text(json.dumps({"offsetTable": {1: 5}}))


def begin_name_server(
    whose: str, peer: Peer, processes: Processes, folder: Path
) -> tuple[NameServer, Callable[[], NameServer]]:
    """A name server, and how its next run begins."""
    if whose == "ours":
        ours = OurNameServer.begin(processes, folder)
        return ours, ours.again
    jars = peer.jars()
    java = NameServer.start(processes, jars, folder)
    return java, lambda: NameServer.start(processes, jars, folder, java.port)


def pair_up(
    peer: Peer, slave_is: str, name_server_is: str, folder: Path, processes: Processes
) -> Pairing:
    """All three run and nobody has been killed."""
    name_server, again = begin_name_server(name_server_is, peer, processes, folder / "ns")
    roles = {"brokerId": 1, "brokerRole": "SLAVE"} if slave_is == "java" else {}
    broker = broker_of(peer, folder / "java", name_server.port, processes, **roles)
    java = Side(broker, JAVA_ADDRESS, broker.listen_port)
    port = free_ports(-2, hosts=[OUR_ADDRESS])
    group: dict[str, object] = {"broker_port": port, "store_version": f'"{peer.version}"'}
    if slave_is == "java":
        nodes = {"n0": OUR_ADDRESS, "n1": JAVA_ADDRESS}
        group |= {"master": '"n0"', "slaves": '[{ node = "n1", kind = "java" }]', "copies": 1}
        group["port"] = free_ports(hosts=[OUR_ADDRESS])
    else:  # the file says that the master is where nobody is: only the name server knows
        nodes = {"j": NOBODY, "n1": OUR_ADDRESS}
        group |= {"master": '{ node = "j", kind = "java" }', "slaves": '["n1"]'}
        group["port"] = free_ports(hosts=[NOBODY])
    path = write_cluster(folder / "ours", nodes, group)
    path.write_text(f'namesrv_addr = ["127.0.0.1:{name_server.port}"]\n' + path.read_text())
    node = Node("n0" if slave_is == "java" else "n1", path, processes)
    ours = Side(node, OUR_ADDRESS, port)
    master, slave = (ours, java) if slave_is == "java" else (java, ours)
    pairing = Pairing(name_server, master, slave, again)
    if isinstance(master.it, Node):
        give_offsets(master)
    pairing.start(master)
    if isinstance(slave.it, Node):
        slave.it.start()
        slave.it.wait_until_it_follows()  # with nothing: later it would be sent the last file only
    else:
        wait_for(
            lambda: name_server.addresses(GROUP).get("0") == master.address,
            "our master at the name server",
            timeout_s=PEER_S,
            alive=[node.process] if node.process else [],
        )
        pairing.start(slave)
    return pairing


def through(pairing: Pairing) -> None:
    for number, killed in enumerate(KILLED):
        began_s = time.monotonic()
        pairing.round(number)
        print(f"{killed} killed: equal after {time.monotonic() - began_s:.1f} s")
    assert pairing.ours.stop() == 0


@beside("rocketmq")
@pytest.mark.parametrize("name_server_is", ["ours", "java"])
@pytest.mark.parametrize("slave_is", ["java", "ours"])
def test_each_party_is_killed(
    peer: Peer, slave_is: str, name_server_is: str, tmp_path: Path, processes: Processes
) -> None:
    through(pair_up(peer, slave_is, name_server_is, tmp_path, processes))


@beside("older brokers")
@pytest.mark.parametrize("slave_is", ["java", "ours"])
def test_each_party_is_killed_beside_an_older_broker(
    peer: Peer, slave_is: str, tmp_path: Path, processes: Processes
) -> None:
    pairing = pair_up(peer, slave_is, "ours", tmp_path, processes)
    # A killed 3.2.6 gives a queue offset again that an older record has.
    pairing.queues_are_equal = numbers(peer.version) >= (4,)
    through(pairing)
