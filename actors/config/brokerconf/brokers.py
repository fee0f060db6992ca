"""The brokers of one or more properties files: who each is, which group it is in, its address.

No address is guessed: what is not given is a loopback address, and the files must not need another.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from ipaddress import ip_address

import attrs

from actors.config.bounds import NAME, is_loopback
from actors.config.brokerconf.files import BrokerFile
from actors.config.brokerconf.keys import HA_PORT_OFFSET, LISTEN_PORT
from actors.config.brokerconf.values import ROLES
from actors.errors import ConfigError

CLUSTER_DEFAULT = "DefaultCluster"
ROLE_DEFAULT = "ASYNC_MASTER"
OWN_FOLDER = "triolog"
"""Below storePathRootDir: what of a node is ours and no broker's."""
COMMIT_LOG = "commitlog"


@attrs.frozen(kw_only=True)
class Broker:
    """What one file says of itself.

    Attributes:
        file: which.
        cluster, group: brokerClusterName and brokerName.
        number: brokerId.
        role: brokerRole.
        address: where it listens and what it connects from; "" until `with_addresses`.
        for_clients: brokerIP1 beside another brokerIP2; "": `address`.
    """

    file: BrokerFile
    cluster: str
    group: str
    number: int
    role: str
    address: str = ""
    for_clients: str = ""

    @property
    def node(self) -> str:
        """Its name in a cluster file."""
        return node_name(self.group, self.number)

    @property
    def is_master(self) -> bool:
        return ROLES[self.role]

    @property
    def ha_port(self) -> int:
        """Where it takes slaves, as 5.1.1 and later has it."""
        found: int = self.file.value("haListenPort", self.listen_port + HA_PORT_OFFSET)
        return found

    @property
    def listen_port(self) -> int:
        found: int = self.file.value("listenPort", LISTEN_PORT)
        return found

    @property
    def root(self) -> str:
        """Its store."""
        default = os.path.join(os.path.expanduser("~"), "store")
        found: str = self.file.value("storePathRootDir", default)
        return found

    @property
    def commit_log(self) -> str:
        found: str = self.file.value("storePathCommitLog", os.path.join(self.root, COMMIT_LOG))
        return found


def node_name(group: str, number: int) -> str:
    """`broker-a-0` for the master of broker-a."""
    return f"{group}-{number}"


def broker_of(file: BrokerFile) -> Broker:
    """Raises: ConfigError: what it says of itself does not fit together."""
    role = file.value("brokerRole", ROLE_DEFAULT)
    number = file.value("brokerId", 0)
    group = file.value("brokerName", platform.node())
    problems = []
    if ROLES[role] and number != 0:
        hint = "" if "brokerRole" in file.given else ", as brokerRole is not given"
        problems.append(file.problem("brokerId", f"0, the id of masters ({role}{hint})"))
    if not ROLES[role] and number == 0:
        problems.append(file.problem("brokerId", "a slave's id, from 1 on", "nothing, which is 0"))
    if not _is_name(group):
        problems.append(file.problem("brokerName", NAME.expected, f"the host's name, {group!r}"))
    if problems:
        raise ConfigError(tuple(problems))
    return Broker(
        file=file,
        cluster=file.value("brokerClusterName", CLUSTER_DEFAULT),
        group=group,
        number=number,
        role=role,
    )


def _is_name(text: str) -> bool:
    try:
        NAME(None, None, text)
    except ValueError:
        return False
    return True


def problems_of(brokers: Sequence[Broker]) -> Iterator[str]:
    """What keeps these files from being those of one cluster, a line each."""
    first = brokers[0]
    for number, each in enumerate(brokers):
        before = brokers[:number]
        if each.cluster != first.cluster:
            yield each.file.problem(
                "brokerClusterName",
                f"{first.cluster}, as {first.file.path} has it",
                f"nothing, which is {each.cluster}",
            )
        for other in before:
            if other.node == each.node:
                key = "brokerName" if each.number == 0 else "brokerId"
                expected = f"another than that of {other.file.path}, {other.node}"
                yield each.file.problem(key, expected, f"nothing, which makes it {each.node}")
            elif _same_store(other, each) and not _on_two_machines(other, each):
                expected = f"another folder than that of {other.file.path}"
                yield each.file.problem(
                    "storePathRootDir", expected, f"nothing, which is {each.root}"
                )


def _same_store(one: Broker, other: Broker) -> bool:
    """One folder cannot be two stores, nor lie in the other's."""
    folders = [(each.root, each.commit_log) for each in (one, other)]
    return any(mine == theirs for mine in folders[0] for theirs in folders[1])


def _on_two_machines(one: Broker, other: Broker) -> bool:
    """Whether their addresses say so: then equal paths are two folders, as in a stock pair."""
    found = [_address_of(each) for each in (one, other)]
    return found[0] != found[1] and not any(not each or is_loopback(each) for each in found)


@attrs.define
class Addresses:
    """Gives the brokers their addresses.

    Attributes:
        given: the addresses that files and `with_addresses` have used.
        notes: what an operator has to know, one line each.
        problems: one line each.
    """

    given: list[str] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)

    def with_addresses(self, brokers: Sequence[Broker]) -> tuple[Broker, ...]:
        """The same brokers, each with an address."""
        named = [_address_of(each) for each in brokers]
        others = [address for each in brokers for address in _others_of(each, brokers)]
        self.given = [*others]
        far = [each for each in (*named, *others) if each and not is_loopback(each)]
        return tuple(
            attrs.evolve(
                each,
                address=self._one(each, address, far),
                for_clients=self._for_clients(each, brokers),
            )
            for each, address in zip(brokers, named, strict=True)
        )

    def _for_clients(self, broker: Broker, brokers: Sequence[Broker]) -> str:
        """brokerIP1 beside another brokerIP2, of the first in a group to have it: a name server
        tells brokers apart by it, as all of a group have one port.
        """
        given = broker.file.given.get("brokerIP1")
        if given is None or given.value == _address_of(broker):
            return ""
        for other in brokers[: brokers.index(broker)]:
            if other.group == broker.group and other.file.value("brokerIP1") == given.value:
                text = f"told to nobody, as {other.node} has it; this node is where brokerIP2 says"
                self.notes.append(given.note(text))
                return ""
        found: str = given.value
        return found

    def _one(self, broker: Broker, named: str, far: Sequence[str]) -> str:
        file = broker.file
        if named and not (is_loopback(named) and named in self.given):
            self.given.append(named)
            return named
        if not named and far:
            expected = f"the address of {broker.node}, as others have addresses such as {far[0]}"
            self.problems.append(file.problem("brokerIP1", expected))
            return ""
        found = self._free(named)
        key = "brokerIP2" if "brokerIP2" in file.given else "brokerIP1"
        if named:
            text = f"{found} stands for it, as slaves are told apart by addresses"
            self.notes.append(file.given[key].note(text))
        else:
            text = f"not given: {found}, which is reached from this machine only"
            self.notes.append(f"{file.path}: key brokerIP1: {text}")
        return found

    def _free(self, like: str) -> str:
        """A loopback address that nobody has; the one that is named, where it is the only one."""
        if like and ip_address(like).version == 6:
            return like
        number = 1
        while f"127.0.0.{number}" in self.given:
            number += 1
        self.given.append(f"127.0.0.{number}")
        return f"127.0.0.{number}"


def _address_of(broker: Broker) -> str:
    found: str = broker.file.value("brokerIP2", broker.file.value("brokerIP1", ""))
    return found


def _others_of(broker: Broker, brokers: Sequence[Broker]) -> tuple[str, ...]:
    """The addresses that its file gives of brokers whose files are not among these."""
    slaves: tuple[str, ...] = broker.file.value("triolog.slaves", ())
    if broker.is_master:
        return slaves
    is_alone = master_of(broker.group, brokers) is None
    master = broker.file.value("haMasterAddress")
    return (master[0],) if is_alone and master is not None else ()


def master_of(group: str, brokers: Sequence[Broker]) -> Broker | None:
    """The master of a group, if its file is among these."""
    return next((each for each in brokers if each.group == group and each.is_master), None)
