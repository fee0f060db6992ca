"""Runs `python -m actors.cluster FILE [COMMAND ...]`.

A user's mistake is one line on stderr and exit code 2; a command that ran and failed has exit code
1.

Each command imports its own modules, when it is run: what a node is made of takes longest to
import, and `status`, `stop` and a wrong command line do not need it.
"""

from __future__ import annotations

import io
import logging
import os
import random
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, assert_never

import trio

from actors.client.lines import open_missing_streams
from actors.cluster.arguments import BROKER_CONF, Arguments, parse
from actors.cluster.explain import EXIT_OK, EXIT_USAGE, explain
from actors.collector import collect_less
from actors.config import ClusterConfig, Group, load
from actors.config.command_line import OutputFailed, complain, say, tell, with_output
from actors.config.kinds import kind_of
from actors.config.problems import one_of
from actors.env import Env
from actors.env.local_disk import LocalDisk
from actors.env.tcp import TcpNetwork
from actors.errors import ConfigError
from actors.own_process import INTERRUPTED, naming, quiet_imports
from actors.readable import with_article
from actors.runtime import Registry, render_spec
from actors.service import build_tree, new_node

if TYPE_CHECKING:
    from actors.cluster.commands import Answer
    from actors.config.brokerconf import BrokerConf

SWITCHES = ("promote", "resync", "repair", "transfer-leader")


DAMAGE = ("CorruptLog", "LostVote")
"""`NodeStopped` reasons begin so if the log is damaged."""


def trees_of(config: ClusterConfig) -> dict[str, str]:
    """Return the supervision tree of every node of ours. Nothing is opened: a specification is a
    value.
    """
    return {name: _tree_of(config, name) for name in config.python_nodes}


def _tree_of(config: ClusterConfig, name: str) -> str:
    env = Env(
        network=TcpNetwork(),
        disk=LocalDisk(),
        rng=random.Random(name),
        wall_clock_ms=lambda: 0,
        events=_ignore,
    )
    node, sink = new_node(config, name, env, directory=None)
    registry = Registry(rng=env.rng, event_sink=_ignore)
    return render_spec(build_tree(node, sink, env, registry), name)


def _ignore(path: str, incarnation: int, event: object) -> None:
    """Ignore an event; a tree that does not run has none."""


def ended_how(config: ClusterConfig, node: str) -> str:
    """Describe, for people, how a node that does not run has ended, by the last of its events.

    Returns: "" if the node was asked to stop, could not write its last event, or has run elsewhere.
    """
    # Imported here, because few callers need it, and all would wait for it.
    from actors.events.codec import EventFormatError
    from actors.events.node import ORDERED
    from actors.storage.node.event_reader import last_stop
    from actors.storage.node.identity import events_path

    try:
        stop = last_stop(LocalDisk(), events_path(config.node_dir(node)), node)
    except (OSError, EventFormatError):
        return ""
    if stop is None or stop.reason == ORDERED:
        return ""
    kind, _, words = stop.reason.partition(": ")
    if kind in DAMAGE:
        return f"ended by damage: {words}"
    return f"ended itself: {words if kind.isidentifier() and words else stop.reason}"


def run_command_line(argv: Sequence[str] | None = None, command: str = "") -> int:
    """Run the command line; returns the exit code.

    Args:
        argv: the arguments without the program's name; None: those of this process, which does
            nothing else.
        command: the first argument, if they are those of `triolog`; "": they are FILE [COMMAND
            ...].
    """
    open_missing_streams()
    words = sys.argv[1:] if argv is None else argv
    return with_output(partial(_run, words, argv is None, command))


def _run(argv: Sequence[str], is_own: bool, command: str) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a terminal that lacks some characters is no reason to fail
    with ExitStack() as stack:
        return _run_named(argv, is_own, command, stack)


def _run_named(argv: Sequence[str], is_own: bool, command: str, stack: ExitStack) -> int:
    """Run the command line with its file's name in messages.

    Args:
        stack: open for as long as this process prints.
    """
    arguments: Arguments | None = None
    config: ClusterConfig | None = None
    try:
        arguments = parse(argv[1:], command) if command else parse(argv)
        stack.enter_context(
            naming(*_named(arguments)) if arguments.child_of is None else naming(None)
        )
        if arguments.child_of is not None:
            with quiet_imports():
                from actors.cluster.child import die_with_parent
            die_with_parent(arguments.child_of)
        conf = _broker_conf(arguments)
        config = load(arguments.file) if conf is None else conf.config
        exit_code = _do(arguments, config, is_own, conf)
    except KeyboardInterrupt:
        exit_code = INTERRUPTED
    except OutputFailed:
        raise
    except Exception as error:
        explained = explain(error, config)
        if explained.exit_code != EXIT_USAGE and not _is_answer(error, arguments):
            logging.getLogger("triolog.cluster").error("failed", exc_info=error)
        for line in explained.lines:
            complain(_as_typed(line, arguments, config))
        exit_code = explained.exit_code
    if arguments is not None and arguments.report_end is not None:
        from actors.cluster.child import report_end

        report_end(arguments.report_end, exit_code)
    return exit_code


def _named(arguments: Arguments) -> tuple[str, ...]:
    """What commands in texts name, as typed."""
    if not arguments.broker_confs:
        return (arguments.file,)
    files = (
        (BROKER_CONF,) if file is None else (BROKER_CONF, file) for file in arguments.broker_confs
    )
    return tuple(word for words in files for word in words)


def _broker_conf(arguments: Arguments) -> BrokerConf | None:
    """What stands for the cluster file; None: the file itself."""
    if not arguments.broker_confs:
        return None
    from actors.config.brokerconf import load_broker_conf

    return load_broker_conf(arguments.broker_confs)


def _is_answer(error: Exception, arguments: Arguments | None) -> bool:
    """Whether a node answered with this error, or was lost, during a switch, so it is no bug of
    ours.
    """
    if arguments is None or arguments.command not in SWITCHES:
        return False
    from actors.cluster.links import LOST

    return isinstance(error, LOST)


def _as_typed(line: str, arguments: Arguments | None, config: ClusterConfig | None) -> str:
    """Return a line with the file named as the user named it."""
    if arguments is None or config is None:
        return line
    if config.broker_files:
        from actors.config.brokerconf import in_properties

        if arguments.child_of is not None:
            return in_properties(line)  # its parent names the files
        typed = {os.path.abspath(file): file for file in arguments.broker_confs if file}
        files = (typed.get(file, os.path.relpath(file)) for file in config.broker_files)
        return in_properties(line.replace(config.path, ", ".join(files)))
    return line.replace(config.path, arguments.file)


def _do(arguments: Arguments, config: ClusterConfig, is_own: bool, conf: BrokerConf | None) -> int:
    nodes = _nodes(arguments, config)
    match arguments.command:
        case "run":
            if conf is not None and arguments.child_of is None:
                _prepare(arguments, conf, nodes)
            return _run_nodes(arguments, config, nodes, is_own)
        case "check":
            answer = _check(arguments, config, conf)
        case "status" | "stop":
            answer = _ask(arguments, config, nodes)
        case "promote" | "resync" | "repair" | "transfer-leader":
            answer = _switch(arguments, config)
        case _:
            assert_never(arguments.command)
    (say if arguments.json or arguments.toml else tell)(answer.text)
    return answer.exit_code


def _run_nodes(
    arguments: Arguments, config: ClusterConfig, nodes: tuple[str, ...], is_own: bool
) -> int:
    with quiet_imports():
        from actors.cluster.links import connect_own
        from actors.cluster.session import run_session

        if arguments.processes:
            from actors.cluster.in_processes import in_processes as backend
        else:
            from actors.cluster.in_process import in_process as backend
    if is_own:
        collect_less()
    opened = partial(backend, config, nodes)
    return run_session(arguments, config, nodes, partial(connect_own, config), opened)


def _prepare(arguments: Arguments, conf: BrokerConf, nodes: tuple[str, ...]) -> None:
    """Say what an acknowledgement means, and what is not as a broker has it; then make what nodes
    of ours need in a broker's store.
    """
    with quiet_imports():
        from actors.cluster.broker_stores import prepare_stores
        from actors.cluster.session import promises
    said = promises(conf.config) if arguments.json else ()  # the views show them
    for line in (*said, *conf.notes):
        _say(line)
    prepare_stores(LocalDisk(), conf.config, conf.stores, nodes)


def _check(arguments: Arguments, config: ClusterConfig, conf: BrokerConf | None) -> Answer:
    with quiet_imports():
        from actors.cluster.checking import check
        from actors.cluster.commands import Answer
    if arguments.toml and conf is not None:
        return Answer(conf.toml.rstrip("\n"), EXIT_OK)
    shown = {} if arguments.json else trees_of(config)
    return check(config, LocalDisk(), shown, conf, as_json=arguments.json)


def _ask(arguments: Arguments, config: ClusterConfig, nodes: tuple[str, ...]) -> Answer:
    with quiet_imports():
        from actors.cluster import commands
        from actors.cluster.in_use import data_holder
        from actors.cluster.links import connect_own
        from actors.cluster.starts import starts_how
    connect, holder = partial(connect_own, config), partial(data_holder, config)
    starts = partial(starts_how, config)
    if arguments.command == "stop":
        return trio.run(commands.stop, config, nodes, connect, holder, starts)
    ended = partial(ended_how, config)
    ask = partial(commands.status, config, nodes, connect, holder, ended, starts)
    return trio.run(partial(ask, as_json=arguments.json, trees=arguments.trees))


def _switch(arguments: Arguments, config: ClusterConfig) -> Answer:
    """Ask for a switch. Raises: ConfigError: there is no such group or node."""
    with quiet_imports():
        from actors.cluster import switching, transferring
        from actors.cluster.links import connect_own
    connect = partial(connect_own, config)
    group, node = arguments.group, arguments.member
    if group is not None:
        _check_name("GROUP", group, tuple(config.groups))
        _check_kind(arguments.command, config.groups[group])
    if arguments.command in ("promote", "transfer-leader"):
        assert group is not None
        if node is not None:
            _check_name("NODE", node, config.groups[group].members)
        ask = (
            partial(transferring.transfer_leader, say=_say)
            if arguments.command == "transfer-leader"
            else partial(switching.promote, force=arguments.force)
        )
        return trio.run(partial(ask, config, group, node, connect, as_json=arguments.json))
    assert node is not None
    _check_name("NODE", node, config.python_nodes)
    is_repair = arguments.command == "repair"
    groups = tuple(one.name for one in config.groups_of(node) if is_repair or one.election is None)
    if not groups:
        raise ConfigError(f"NODE: expected a member of a group for this command, found {node}")
    if group is not None:
        _check_name("GROUP", group, groups)
        groups = (group,)
    what = partial(switching.resync)
    if arguments.command == "repair":
        if arguments.source is not None:
            _check_name("--from", arguments.source, config.python_nodes)
        what = partial(switching.repair, source=arguments.source, say=_say)
    return trio.run(partial(what, config, node, groups, connect, as_json=arguments.json))


def _say(line: str) -> None:
    complain(f"triolog: {line}")


def _check_kind(command: str, group: Group) -> None:
    """Check that a command fits a group's mode.

    An operator chooses the master of a classic group, and of an auto-switch group through its
    controllers. In a DLedger group the leader is not chosen. What a replica drops is chosen in a
    classic group alone.
    """
    elects = group.election is not None
    leads = elects and kind_of(group).terms.leader != "master"
    fits = {"promote": not leads, "resync": not elects, "transfer-leader": leads}
    if fits.get(command, True):
        return
    transfers = command == "transfer-leader"
    kind = "whose members elect their leader" if transfers else "whose master is promoted"
    instead = {
        "promote": f"its members elect their leader, `transfer-leader {group.name}` changes it",
        "resync": "a follower's log is made like its leader's by itself",
        "transfer-leader": f"`promote {group.name}` changes its master",
    }[command]
    found = f"{group.name}, {with_article(group.mode)} group: {instead}"
    raise ConfigError(f"{command}: expected a group {kind}, found {found}")


def _check_name(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ConfigError(f"{what}: expected {one_of(name, known)}, found {name}")


def _nodes(arguments: Arguments, config: ClusterConfig) -> tuple[str, ...]:
    """Return the nodes that are meant: those that were named, or else all of ours.

    Raises:
        ConfigError: there is no such node, or it is a Java broker.
    """
    for name in arguments.nodes:
        if name not in config.python_nodes:
            java = " (a Java broker, not run by us)" if name in config.nodes else ""
            expected = one_of(name, config.python_nodes)
            raise ConfigError(f"--node: expected {expected}, found {name}{java}")
    return arguments.nodes or config.python_nodes
