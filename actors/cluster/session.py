"""Turns a command line into a run, with its nodes, feed and view, and prints the result."""

from __future__ import annotations

import logging
import math
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

import attrs
import trio

from actors.api.socket_file import api_socket_path
from actors.client.lines import CHUNKS_WAITING_MAX, STDIN, Chunk, open_source, read_lines
from actors.cluster import summary as summaries
from actors.cluster.arguments import Arguments
from actors.cluster.explain import EXIT_FAILED, EXIT_OK
from actors.cluster.feed import Feed
from actors.cluster.feed_record import FeedRecord, RecordTaken
from actors.cluster.links import Connect, Links
from actors.cluster.master_finder import MasterFinder
from actors.cluster.painter import Painter
from actors.cluster.run import Feeding, OpenBackend, Reader, Run
from actors.cluster.terminal import frame, plain_lines
from actors.cluster.view import ClusterView, RateMeter, Rates, clock
from actors.config import ClusterConfig, Group
from actors.config.check import advertised
from actors.config.command_line import NoteHandler, complain, folded, say, tell, width_of
from actors.config.dledger import CONTROLLERS
from actors.config.kinds import guarantee_of
from actors.env.local_disk import LocalDisk
from actors.env.protocols import Disk
from actors.errors import ConfigError
from actors.own_process import as_typed
from actors.storage.node.identity import read_identity

LIVE_LOOK_S = 0.5
PLAIN_LOOK_S = 2.0
FEED_FOLDER = "feed"

_LOGGER = logging.getLogger("triolog.cluster")


def run_session(
    arguments: Arguments,
    config: ClusterConfig,
    nodes: tuple[str, ...],
    connect: Connect,
    backend: OpenBackend,
) -> int:
    """Run until the run ends; returns the exit code.

    Args:
        backend: opens the nodes of this run.

    Raises:
        ConfigError, or a group with one: a user's mistake; everything has stopped.
    """
    child = arguments.child_of is not None
    links = Links(names=nodes, connect=connect)
    feeding = None if child else feeding_of(arguments, config, nodes, links)
    run = Run(
        config=config,
        links=links,
        feeding=feeding,
        ends_with_feed=arguments.feed is not None,
        feed_resumes=arguments.feed != STDIN,
        for_s=arguments.for_s,
        judges=not child,
    )
    with _Display(arguments, config, run):
        found = trio.run(run.run, backend)
    for line in found.failures:
        complain(line)
    if not child:
        if arguments.json:
            say(summaries.as_json(found))
        else:
            tell(summaries.as_text(found))
    elif found.failures:
        return found.child_code
    return EXIT_FAILED if found.failures else EXIT_OK


class _Display:
    """Shows a run: as the live view, as plain lines, or only as notes on stderr."""

    def __init__(self, arguments: Arguments, config: ClusterConfig, run: Run) -> None:
        quiet = arguments.json or arguments.child_of is not None
        live = not quiet and not arguments.plain and sys.stdout.isatty()
        self._run = run
        self._promises = promises(config)
        self._meter = RateMeter()
        self._reasons: dict[str, str] = {}
        shown_on = sys.stderr if quiet else sys.stdout
        self._painter = Painter(shown_on.fileno(), live=live)
        self._width = 0 if live else width_of(shown_on.fileno())
        self._handler: logging.Handler = NoteHandler(run.note)
        if live:
            run.look, run.look_s = self._live, LIVE_LOOK_S
        else:
            run.on_note = self._show if quiet else self._note
            endless = arguments.feed is None and arguments.for_s is None
            if arguments.json and endless:  # otherwise the views show it
                run.on_ready = lambda node: run.note(ready_line(config, node))
            if not quiet:
                run.say_wait = complain
                run.look, run.look_s = self._plain, PLAIN_LOOK_S

    def __enter__(self) -> None:
        logging.getLogger("triolog").addHandler(self._handler)
        if self._run.look == self._plain:
            self._show("\n".join(self._promises))

    def __exit__(self, *_: object) -> None:
        logging.getLogger("triolog").removeHandler(self._handler)
        self._painter.close()

    def _show(self, text: str) -> None:
        shown = as_typed(text)
        self._painter.show(lambda: folded(shown, self._width))

    def _note(self, line: str) -> None:
        self._show(f"{clock(self._run.at_s)} {line}")

    def _plain(self, view: ClusterView) -> None:
        lines = plain_lines(view, self._meter.rates(view), self._reasons)
        if lines:
            self._show("\n".join(lines))

    def _live(self, view: ClusterView) -> None:
        size = shutil.get_terminal_size()
        rates: dict[str, Rates] = self._meter.rates(view)
        make = partial(
            frame, view, rates, self._promises, width=size.columns, height=size.lines - 1
        )
        self._painter.show(make)


def ready_line(config: ClusterConfig, node: str) -> str:
    """Say that a node is running, and where clients reach it."""
    address = config.nodes[node]
    port = f" or {address}:{config.api_port}" if config.api_port is not None else ""
    socket = api_socket_path(config.node_dir(node))
    return f"{node}: runs on {address}, clients reach it at {socket}{port}"


def promises(config: ClusterConfig) -> tuple[str, ...]:
    """Return what the groups guarantee, and as what they register, one line each."""
    lines = list[str]()
    for group in config.groups.values():
        promise = guarantee_of(group)
        lines.append(
            f"{group.name}: an append returns when {promise.returns_when};"
            f" then it survives {promise.holds_after}"
        )
        lines += [f"{group.name}: {note}" for note in promise.notes]
    return (*lines, *advertised(config))


def feeding_of(
    arguments: Arguments, config: ClusterConfig, nodes: tuple[str, ...], links: Links
) -> Feeding | None:
    """Return the feeds of a run of these nodes. Each sends to the node that takes its group's
    appends, wherever it runs.

    A classic group is fed if its master, the present one or the file's, is one of these nodes. A
    DLedger group is fed if one of its members is; for the file's own feed it has to be the first
    member, so that only one of several runs feeds the group.

    Raises: ConfigError: the user asked for a feed, and no group can be fed from here.
    """
    demo = config.demo.feed
    if arguments.feed is None and demo is None:
        return None
    present = present_masters(config, nodes, LocalDisk())
    places = {
        group.name: place
        for group in config.groups.values()
        if (place := _fed_from(config, group, nodes, present, arguments.feed is not None))
    }
    groups = tuple(group for group in config.groups.values() if group.name in places)
    if not groups:
        if arguments.feed is None:
            return None
        roles = (group.role_of(each) for group in config.groups.values() for each in group.members)
        who = " or ".join(sorted({role.name for role in roles if role.appends}))
        raise ConfigError(
            f"--feed: expected a group's {who} among the nodes that run here, found"
            f" {', '.join(nodes)}"
        )
    if arguments.feed is not None:
        source, rate, repeat, where = arguments.feed, 0, False, "--feed"
    else:
        assert demo is not None
        source, rate, repeat, where = demo.file, demo.rate_per_s, True, "key demo.feed.file"
        where = f"{config.path}: {where}"
    descriptors = tuple(
        open_source(source, where) for _ in (groups[:1] if source == STDIN else groups)
    )
    yields = arguments.feed is None and bool(arguments.nodes)
    first = places | present
    plan = _FeedPlan(config, groups, source, rate, repeat, descriptors, links, first, yields)
    return Feeding(tuple(dict.fromkeys(places.values())), plan.open)


def _fed_from(
    config: ClusterConfig,
    group: Group,
    nodes: tuple[str, ...],
    present: Mapping[str, str],
    anywhere: bool,
) -> str | None:
    """Return the node that has to answer before the group is fed from here; None: it is not fed."""
    if group.name == CONTROLLERS:
        return None  # it takes decisions, and no records
    ours = [node for node in _takers(group) if node in config.python_nodes]
    if group.election is not None:
        wanted = ours if anywhere else ours[:1]
    else:
        wanted = [present[group.name], *ours]
    return next((node for node in wanted if node in nodes), None)


def _takers(group: Group) -> list[str]:
    """Return the nodes that take appends by the cluster file, or may be elected to."""
    return [node for node in group.members if group.role_of(node).appends]


def present_masters(config: ClusterConfig, nodes: tuple[str, ...], disk: Disk) -> dict[str, str]:
    """Return the masters of groups that do not elect one, by the newest promotion that these nodes
    remember, or by the file.

    Raises: ConfigError: an identity file cannot be read.
    """
    newest = {
        group.name: (0, _takers(group)[0])
        for group in config.groups.values()
        if group.election is None
    }
    for node in nodes:
        identity = None
        with suppress(OSError):  # the node's start reports it
            identity = read_identity(disk, config.node_dir(node))
        for name, record in identity.records.items() if identity is not None else ():
            number, master = record.promotion_number, record.promotion_master
            if name in newest and number > newest[name][0] and master in config.python_nodes:
                newest[name] = (number, master)
    return {name: master for name, (_, master) in newest.items()}


@attrs.frozen
class _FeedPlan:
    """The feeds to be opened once the masters have answered.

    Attributes:
        descriptors: one for each group, or one for all.
        first: by group, the node to which its feed talks first.
        yields: whether a group that another run feeds is left to it; otherwise that is a user's
            mistake. After a promotion two nodes may believe that they have to feed, and the feed of
            an example must not stop a node.
    """

    config: ClusterConfig
    groups: tuple[Group, ...]
    source: str
    rate_per_s: int
    repeat: bool
    descriptors: tuple[int, ...]
    links: Links
    first: Mapping[str, str]
    yields: bool

    def open(self) -> tuple[tuple[Feed, ...], tuple[Reader, ...]]:
        feeds, targets, lines = [], [], []
        source = self.source if self.source == STDIN else os.path.abspath(self.source)
        groups, descriptors, records = self._free()
        for group, record in zip(groups, records, strict=True):
            line = record.open(source, resumable=self.source != STDIN)
            finder = self._finder(group)
            send, receive = trio.open_memory_channel[Chunk](CHUNKS_WAITING_MAX)
            feeds.append(
                Feed(
                    group=group.name,
                    source=os.path.basename(source) if source != STDIN else "standard input",
                    lines=receive,
                    connect=finder.connect,
                    heed=finder.heed,
                    watch=finder.watch,
                    record=record,
                    first_line=line,
                    rate_per_s=self.rate_per_s,
                    takes_empty=group.takes_empty,
                )
            )
            targets.append(send)
            lines.append(line)
        shared = len(descriptors) < len(targets)
        sharing = [targets] if shared else [[target] for target in targets]
        empty = [shared or group.takes_empty for group in groups]
        longest = min(group.body_bytes_max for group in self.groups)
        readers: list[Reader] = [
            partial(
                read_lines,
                descriptor,
                to,
                line_bytes_max=longest,
                skip=lines[number],
                repeat=self.repeat,
                empty=empty[number],
            )
            for number, (descriptor, to) in enumerate(zip(descriptors, sharing, strict=True))
        ]
        return tuple(feeds), tuple(readers)

    def _free(self) -> tuple[list[Group], list[int], list[FeedRecord]]:
        """Return the groups that are fed from here, their descriptors, and their records, locked.

        Raises: RecordTaken: another run feeds a group, unless `yields`.
        """
        groups, descriptors, records = [], list(self.descriptors), []
        folder = os.path.join(self.config.data_dir, FEED_FOLDER)
        for number, group in enumerate(self.groups):
            try:
                records.append(FeedRecord(folder, group.name))
                groups.append(group)
            except RecordTaken as taken:
                if not self.yields:
                    raise
                _LOGGER.warning(
                    "%s: not fed from here: another run writes %s", group.name, taken.path
                )
                os.close(self.descriptors[number])
                descriptors.remove(self.descriptors[number])
        return groups, descriptors, records

    def _finder(self, group: Group) -> MasterFinder:
        members = tuple(node for node in group.members if node in self.config.python_nodes)
        return MasterFinder(
            group=group.name,
            members=members,
            current=self.first[group.name],
            connect=self.links.connect,
            views=self.links.views,
            turns_after_s=_election_s(group),
        )


def _election_s(group: Group) -> float:
    """Return how long an election may take, with two campaigns; infinity if masters are not
    elected.
    """
    election = group.election
    if election is None:
        return math.inf
    return election.missed_after_s + 2 * election.campaign_max_s
