"""Brokers' properties files as a cluster's configuration, which `load_broker_conf` gives."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
from cattrs import BaseValidationError

from actors.config import semantics, strict
from actors.config.brokerconf.brokers import (
    COMMIT_LOG,
    OWN_FOLDER,
    Addresses,
    Broker,
    broker_of,
    problems_of,
)
from actors.config.brokerconf.files import BrokerFile, Given, found_files, parse_file, read_file
from actors.config.brokerconf.groups import PROPERTIES, SET_ALONE, GroupTable
from actors.config.model import FORMAT_VERSION, ClusterConfig
from actors.config.problems import Problem, describe, dotted
from actors.errors import ConfigError

_API_PORT: Final = "triolog.apiPort"
_KEY: Final = re.compile(r"\bkey groups\.[\w-]+\.(\w+)")
_NODE: Final = re.compile(r"\bkey nodes\.([\w-]+)")
_NAMED: Final = re.compile(r"\b(" + "|".join(sorted(SET_ALONE, key=len, reverse=True)) + r")\b")


@attrs.frozen(kw_only=True)
class StoreFolders:
    """Where a node's store lies, as a broker has it.

    Attributes:
        node, group: whose it is.
        root: storePathRootDir.
        commit_log: storePathCommitLog.
    """

    node: str
    group: str
    root: str
    commit_log: str

    @property
    def own(self) -> str:
        """The folder of what is the node's and no broker's."""
        return os.path.join(self.root, OWN_FOLDER, self.node)

    @property
    def default_commit_log(self) -> str:
        return os.path.join(self.root, COMMIT_LOG)


@attrs.frozen(kw_only=True)
class KeyUse:
    """One key that a file gives, for people.

    Attributes:
        file, key, value: the file's name, the key and the value, as they are written.
        does: what it does here.
    """

    file: str
    key: str
    value: str
    does: str


@attrs.frozen(kw_only=True)
class BrokerConf:
    """What the files mean.

    Attributes:
        config: the cluster.
        stores: where its nodes' stores lie.
        uses: every key that the files give.
        unknown: the keys that mean nothing here, by file.
        notes: what is not as a broker has it, one line each.
        toml: a cluster file that means the same.

    The order of the files makes no difference.
    """

    config: ClusterConfig
    stores: tuple[StoreFolders, ...]
    uses: tuple[KeyUse, ...]
    unknown: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]
    toml: str


def load_broker_conf(named: Sequence[str | None]) -> BrokerConf:
    """Read the files that `--broker-conf` names, of one node each.

    Args:
        named: as typed; None: the one that is looked for.

    Raises:
        ConfigError: with one line for each problem: file, line, key, expected, found.
    """
    files, problems = [], list[str]()
    for path in found_files(named):
        try:
            files.append(read_file(path))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(tuple(problems))
    return broker_conf(files)


def parse_broker_conf(data: bytes, path: str) -> BrokerConf:
    """As `load_broker_conf`, of one file that was read."""
    return broker_conf([parse_file(data, path)])


def broker_conf(files: Sequence[BrokerFile]) -> BrokerConf:
    """Raises: ConfigError, as `load_broker_conf`."""
    brokers, problems = list[Broker](), list[str]()
    for file in files:
        try:
            brokers.append(broker_of(file))
        except ConfigError as error:
            problems += error.problems
    brokers.sort(key=lambda each: (each.group, each.number))  # however they were named
    problems = problems or list(problems_of(brokers))
    if problems:
        raise ConfigError(tuple(problems))
    return _Made.of(brokers).result()


@attrs.define
class _Made:
    """A cluster in the making.

    Attributes:
        brokers: with their addresses.
        groups: the group tables.
        table: as a cluster file would have it.
        notes, problems: one line each.
    """

    brokers: tuple[Broker, ...]
    groups: tuple[GroupTable, ...]
    table: dict[str, Any]
    notes: list[str]
    problems: list[str]

    @classmethod
    def of(cls, brokers: Sequence[Broker]) -> _Made:
        addresses = Addresses()
        placed = addresses.with_addresses(brokers)
        names = dict.fromkeys(each.group for each in placed)
        groups = tuple(
            GroupTable.of(name, [each for each in placed if each.group == name]) for name in names
        )
        nodes = {each.node: each.address for each in placed}
        first = placed[0]
        for group in groups:
            nodes |= group.others
        table = {
            "version": FORMAT_VERSION,
            "name": first.cluster,
            "data_dir": os.path.join(first.root, OWN_FOLDER),
            "nodes": nodes,
            "groups": {group.name: group.table for group in groups},
        }
        made = cls(
            brokers=placed,
            groups=groups,
            table=table,
            notes=[*addresses.notes, *(line for group in groups for line in group.notes)],
            problems=[*addresses.problems, *(line for group in groups for line in group.problems)],
        )
        made._set_api_port()
        made._set_name_servers()
        made._set_advertised()
        return made

    def _set_api_port(self) -> None:
        given = [
            each.file.given[_API_PORT] for each in self.brokers if _API_PORT in each.file.given
        ]
        for other in given[1:]:
            if other.value != given[0].value:
                self.problems.append(other.problem(f"{given[0].value}, as {given[0].where} has it"))
        if given:
            self.table["api_port"] = given[0].value

    def _set_name_servers(self) -> None:
        """Those of all files, as name servers are a cluster's here."""
        servers = [one for each in self.brokers for one in each.file.value("namesrvAddr", ())]
        if not servers:
            return
        self.table["namesrv_addr"] = list(dict.fromkeys(servers))
        places = {
            node: place
            for group in self.groups
            for place, node in enumerate(
                (each.node for each in self.brokers if each.group == group.name and each.number), 1
            )
        }
        ids = {each.node: each.number for each in self.brokers if each.number}
        if others := {node: number for node, number in ids.items() if number != places[node]}:
            self.table["broker_ids"] = others

    def _set_advertised(self) -> None:
        """Where clients reach nodes that slaves reach elsewhere."""
        if apart := [each for each in self.brokers if each.for_clients]:
            self.table["advertised"] = {each.node: each.for_clients for each in apart}
            self.table["advertised_ha"] = {each.node: each.address for each in apart}

    def result(self) -> BrokerConf:
        """Raises: ConfigError."""
        if self.problems:
            raise ConfigError(tuple(self.problems))
        config = self._config()
        paths = tuple(os.path.abspath(each.file.path) for each in self.brokers)
        config = attrs.evolve(config, path=paths[0], broker_files=paths)
        return BrokerConf(
            config=config,
            stores=tuple(
                StoreFolders(
                    node=each.node, group=each.group, root=each.root, commit_log=each.commit_log
                )
                for each in self.brokers
            ),
            uses=tuple(use for each in self.brokers for use in self._uses(each)),
            unknown={each.file.path: each.file.unknown for each in self.brokers},
            notes=tuple(self._all_notes()),
            toml=toml_text(self.table),
        )

    def _config(self) -> ClusterConfig:
        try:
            config = strict.structure(self.table)
        except BaseValidationError as error:
            found = strict.problems_of(error)
        else:
            found = semantics.problems(config)
            found += self._apart(config)
        if found:
            raise ConfigError(tuple(dict.fromkeys(self._line(problem) for problem in found)))
        return config

    def _apart(self, config: ClusterConfig) -> list[Problem]:
        """Nodes of ours on several machines cannot ask each other without a port for it."""
        together = any(len(config.neighbours_of(node)) > 0 for node in config.python_nodes)
        if config.api_port is not None or config.on_one_machine or not together:
            return []
        expected = "a port at which nodes of ours on different machines ask each other"
        return [Problem(("api_port",), expected, "nothing")]

    def _line(self, problem: Problem) -> str:
        """A problem of the cluster file that was made, in the words of the files that made it."""
        unit = ", in seconds" if dotted(problem.key).endswith("_s") else ""
        expected = _named(problem.expected)
        return f"{self._where(problem)}: expected {expected}, found {problem.found}{unit}"

    def _where(self, problem: Problem) -> str:
        first = self.brokers[0].file
        match problem.key:
            case ("groups", str() as name, str() as key, *_):
                return next(group for group in self.groups if group.name == name).where(key)
            case ("nodes" | "advertised" | "advertised_ha", str() as node):
                file = next((each.file for each in self.brokers if each.node == node), first)
                is_told = problem.key[0] == "advertised" and node in self.table.get(
                    "advertised", {}
                )
                key = "brokerIP1" if is_told or "brokerIP2" not in file.given else "brokerIP2"
                return _where(file, key)
            case ("broker_ids", str() as node):
                file = next((each.file for each in self.brokers if each.node == node), first)
                return _where(file, "brokerId")
            case ("api_port",):
                return _where(first, _API_PORT)
            case ("data_dir",):
                return _where(first, "storePathRootDir")
            case ("name",):
                return _where(first, "brokerClusterName")
            case _:
                return f"{first.path}: key {dotted(problem.key)}"

    def _all_notes(self) -> list[str]:
        found = [line for each in self.brokers for line in each.file.notes] + self.notes
        for each in self.brokers:
            for given in each.file.given.values():
                if not given.key.acts and given.value != given.key.default:
                    found.append(given.note(f"not acted on: {given.key.does}"))
                elif given.key.later and given.value is not False:
                    found.append(given.note(f"not done yet: {given.key.later}"))
        return found

    def _uses(self, broker: Broker) -> list[KeyUse]:
        group = next(group for group in self.groups if group.name == broker.group)
        return [
            KeyUse(
                file=broker.file.path,
                key=given.key.name,
                value=given.text.strip(),
                does=_does(given, broker, group),
            )
            for given in broker.file.given.values()
        ]


def _does(given: Given, broker: Broker, group: GroupTable) -> str:
    key = given.key
    if not key.acts:
        return key.does
    decides = group.decides
    if not key.of_node and broker is not decides:
        return f"nothing here: the group has what {decides.file.path} says"
    origins = group.origins if broker is decides else {}
    set_here = [name for name, origin in origins.items() if origin == key.name]
    values = [f"{name} = {_toml(group.table[name])}" for name in set_here]
    later = [f"not done yet: {key.later}"] if key.later and given.value is not False else []
    return "; ".join(filter(None, [*values, key.does, *later]))


def _where(file: BrokerFile, key: str) -> str:
    return f"{file.given[key].where if key in file.given else file.path}: key {key}"


def in_properties(line: str) -> str:
    """A line about a cluster file's key, with the property that sets it in the key's place."""
    line = _NODE.sub(r"key brokerIP1 or brokerIP2 of \1", line)
    line = line.replace("key data_dir:", "key storePathRootDir:")
    return _KEY.sub(lambda found: f"key {PROPERTIES.get(found[1], found[1])}", line)


def _named(text: str) -> str:
    return _NAMED.sub(lambda found: SET_ALONE[found[1]], text)


def toml_text(table: Mapping[str, Any]) -> str:
    """A cluster file with this content."""
    plain = [f"{key} = {_toml(value)}" for key, value in table.items() if not _is_table(value)]
    blocks = ["\n".join(plain), _table_text(("nodes",), table["nodes"])]
    for key in ("advertised", "advertised_ha", "broker_ids"):
        if key in table:
            blocks.append(_table_text((key,), table[key]))
    for name, group in table["groups"].items():
        blocks.append(_table_text(("groups", name), group))
    return "\n\n".join(blocks) + "\n"


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _table_text(key: tuple[str, ...], table: Mapping[str, Any]) -> str:
    lines = [f"{dotted((name,))} = {_toml(value)}" for name, value in table.items()]
    return "\n".join([f"[{dotted(key)}]", *lines])


def _toml(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Mapping():
            inner = ", ".join(f"{key} = {_toml(one)}" for key, one in value.items())
            return f"{{ {inner} }}"
        case list() | tuple():
            return "[" + ", ".join(_toml(one) for one in value) + "]"
        case _:
            return describe(value)
