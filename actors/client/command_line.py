"""Runs `python -m actors.client TARGET append|read|tail|status|bench`.

A user's mistake is one line on stderr and exit code 2; a command that ran and failed has one line
and exit code 1. The first Ctrl-C or SIGTERM ends a command in order, the second ends it at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import assert_never

import attrs
import trio
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from actors.api.failures import RequestRefused
from actors.client import appending, reading, report
from actors.client.appending import Appending, Rules, Summary, summary_lines
from actors.client.arguments import Append, Arguments, Bench, Read, Status, Tail, parse
from actors.client.bench import Connect, Figures, measure
from actors.client.connection import Client
from actors.client.group_backend import GroupBackend, open_backend
from actors.client.lines import open_missing_streams, open_source, write_out
from actors.client.members import MemberFinder, members_of
from actors.client.targets import Target, connect_target, file_of, parse_target, pick_group
from actors.config.command_line import (
    OutputFailed,
    complain,
    folded,
    stop_signals,
    width_of,
    with_output,
)
from actors.config.kind import Terms
from actors.errors import ConfigError, TriologError, leaves
from actors.group_status import group_status
from actors.log import Log
from actors.own_process import INTERRUPTED, as_typed, naming
from actors.readable import counted, readable_lines, readable_values
from wire.api import frames

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
OUTPUT = 1


class Bar:
    """A progress bar for lines that are appended, shown between entry and exit.

    Only calls of `show` draw it; there is no thread.

    Args:
        console: the terminal on which it is drawn.
    """

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(show_speed=False),
            TimeElapsedColumn(),
            console=console,
            auto_refresh=False,
            transient=True,
        )
        self._task = self._progress.add_task("connecting", total=None)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def show(self, progress: appending.Progress) -> None:
        """Draw the present progress."""
        total = progress.total_bytes
        self._progress.update(
            self._task,
            description=f"{progress.acknowledged:,} of {counted(progress.lines, 'line')}"
            " acknowledged",
            total=total,
            completed=progress.read_bytes if total is None else min(progress.read_bytes, total),
        )
        self._progress.refresh()


def run_command_line(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    open_missing_streams()
    words = sys.argv[1:] if argv is None else argv
    with naming(file_of(words[0] if words else "")):
        return with_output(partial(_main, words))


def _main(argv: Sequence[str]) -> int:
    try:
        arguments = parse(argv)
        target = parse_target(arguments.target)
        return trio.run(_run, arguments, target)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseExceptionGroup as group:
        return _explain(tuple(leaves(group)))
    except (TriologError, OSError) as error:
        return _explain((error,))


def _explain(errors: tuple[BaseException, ...]) -> int:
    """Write one line for each error, and return the exit code. An unforeseen error is raised: it is
    a bug.
    """
    for error in errors:
        match error:
            case OutputFailed():
                raise error
            case KeyboardInterrupt():
                return INTERRUPTED
            case ConfigError() | TriologError() | OSError():
                pass
            case _:
                raise error
    lines = dict.fromkeys(line for error in errors for line in _lines_of(error))
    for line in lines:
        complain(f"triolog: {line}")
    return EXIT_USAGE if all(map(_is_mistake, errors)) else EXIT_FAILED


def _is_mistake(error: BaseException) -> bool:
    """Whether the command line was wrong, as this program or the node decides."""
    if isinstance(error, RequestRefused):
        return error.error in (frames.ERROR_BAD_REQUEST, frames.ERROR_UNKNOWN_GROUP)
    return isinstance(error, ConfigError)


def _lines_of(error: BaseException) -> list[str]:
    if isinstance(error, ConfigError):
        return [" ".join(problem.split()) for problem in error.problems]
    return [report.error_text(error)]


async def _run(arguments: Arguments, target: Target) -> int:
    command = arguments.command
    name = f"client {type(command).__name__.lower()}"
    if isinstance(command, Status):
        async with connect_target(target, name=name) as client:
            return await _status(client, command)
    async with _opened(target, command, name) as (backend, connect):
        match command:
            case Append():
                return await _append(backend, command)
            case Read():
                return await _read(backend, command)
            case Tail():
                return await _tail(backend, command)
            case Bench():
                return await _bench(backend, connect, command)
            case _:
                assert_never(command)


@asynccontextmanager
async def _opened(
    target: Target, command: Append | Read | Tail | Bench, name: str
) -> AsyncIterator[tuple[GroupBackend, Connect]]:
    """Open the backend of the group, and yield it with a function that connects to the node that
    takes appends.

    If the user named a node, no other is used. Raises: ConfigError; OSError, RequestRefused.
    """
    config, group = target.config, command.group
    if config is not None:
        group = pick_group(tuple(config.groups), group, target.text)
    if config is not None and group is not None and target.node is None:
        leads = isinstance(command, Append | Bench)
        members = partial(members_of, config, group, name=name, wait_s=command.wait_s, note=_note)
        leading = members(leads=leads)
        async with open_backend(leading, members(leads=False)) as backend:
            yield backend, leading.leader
        return
    connect = partial(connect_target, target, name=name, wait_s=command.wait_s)
    async with connect() as client:
        group = pick_group(client.identity.groups, group, client.identity.node)
        only = MemberFinder.only(client, group)
        async with open_backend(only, only) as backend:
            yield backend, connect


def _note(text: str) -> None:
    complain(f"triolog: {text}")


async def _obey_signals(
    stop: Callable[[], None], hurry: Callable[[], None], *, task_status: trio.TaskStatus[None]
) -> None:
    """Call `stop` at the first signal, and `hurry` at each later one."""
    with trio.open_signal_receiver(*stop_signals()) as received:
        task_status.started()
        async for _ in received:
            stop()
            stop = hurry


async def _print(text: str) -> None:
    await write_out(OUTPUT, readable_lines(text).encode() + b"\n")


async def _show(data: bytes) -> None:
    await write_out(OUTPUT, readable_lines(data.decode("utf-8", "backslashreplace")).encode())


def _writer() -> reading.Write:
    """Return the function that prints records: to files and pipes as they are, to a terminal made
    harmless.
    """
    return _show if os.isatty(OUTPUT) else partial(write_out, OUTPUT)


async def _status(client: Client, command: Status) -> int:
    status = readable_values(await client.status())
    if command.json:
        await _print(report.as_json(status))
    else:
        width = width_of(OUTPUT)
        text = as_typed("\n".join(report.status_lines(status, width)))
        await _print(folded(text, width))
    return EXIT_OK


async def _append(backend: GroupBackend, command: Append) -> int:
    descriptor, leading = open_source(command.file, "FILE"), backend.leading
    group = leading.members.group
    rules = Rules.of(await leading.ask(lambda client: client.status()), group)
    appending = Appending(
        Log(backend, group),
        leading.node,
        descriptor,
        rules,
        again=command.again,
        goes_on=lambda failure: leading.members.heed(leading.node, failure),
    )
    summary: Summary | None = None
    with ExitStack() as stack:
        if sys.stderr.isatty() and not os.isatty(descriptor):
            appending.show = stack.enter_context(Bar(Console(stderr=True))).show
        async with trio.open_nursery() as nursery:
            hurry = nursery.cancel_scope.cancel
            await nursery.start(_obey_signals, appending.stop, hurry)
            summary = await appending.run()
            nursery.cancel_scope.cancel()
    if summary is None:
        line = appending.unanswered_from
        complain(
            f"triolog: hurried: line {line} of the input and those after it may be stored, or not"
        )
        return INTERRUPTED
    summary = attrs.evolve(summary, node=leading.node)
    *notes, last = summary_lines(summary)
    for line in notes:
        complain(f"triolog: {line}")
    await _print(report.as_json(summary) if command.json else last)
    return EXIT_OK if summary.error is None and not summary.in_doubt else EXIT_FAILED


async def _read(backend: GroupBackend, command: Read) -> int:
    group, write, printed = backend.reading.members.group, _writer(), 0

    async def counting(data: bytes) -> None:
        nonlocal printed
        printed += len(data)
        await write(data)

    last = await reading.read(
        backend,
        group,
        counting,
        start=command.start,
        count=command.count,
        fresh=command.fresh,
        json=command.json,
    )
    own = group_status(await backend.reading.ask(lambda client: client.status()), group)
    terms = Terms() if own is None else own.terms
    if own is not None and (why := reading.why_not_open(own, last)):
        node = backend.reading.node
        complain(f"triolog: {group} is not open at {node}, and not all may have been shown: {why}")
        return EXIT_FAILED
    if reading.knows_nothing(last):
        complain(
            f"triolog: {backend.reading.node} holds {group} up to {terms.up_to(last.end)}, but does"
            " not know what of it is acknowledged: a follower learns it from its master or leader,"
            " and these from a follower"
        )
        return EXIT_FAILED
    shown, why = min(last.acknowledged, last.end), ""
    if command.start > shown:
        up_to = terms.up_to(shown)
        why = f"{backend.reading.node} shows {group} up to {up_to}, before {command.start}"
    elif not printed and command.count != 0:
        why = reading.why_nothing(group, terms, command.start, shown)
    if why:
        complain(f"triolog: {why}")
    return EXIT_OK


async def _tail(backend: GroupBackend, command: Tail) -> int:
    group = backend.reading.members.group
    async with trio.open_nursery() as nursery:
        end = nursery.cancel_scope.cancel
        await nursery.start(_obey_signals, end, end)
        write = _writer()
        await reading.tail(backend, group, write, start=command.start, json=command.json)
    return EXIT_OK


async def _bench(backend: GroupBackend, connect: Connect, command: Bench) -> int:
    members = backend.leading.members
    if not command.size_bytes:
        rules = Rules.of(await backend.leading.ask(lambda client: client.status()), members.group)
        if not rules.takes_empty:
            raise ConfigError(
                f"--size: expected 1 or more, as {members.group} takes no empty records, found 0"
            )
    found: list[Figures] = []
    async with trio.open_nursery() as nursery:
        end = nursery.cancel_scope.cancel
        await nursery.start(_obey_signals, end, end)
        for window in command.windows:
            if sys.stderr.isatty():
                complain(f"window {window}: {command.seconds:g} s ...")
            found.append(
                await measure(
                    connect,
                    members.group,
                    window=window,
                    size_bytes=command.size_bytes,
                    batch_count=command.batch_count,
                    seconds=command.seconds,
                    members=members,
                )
            )
            if found[-1].ended_early:
                break
        nursery.cancel_scope.cancel()
    text = report.as_json(found) if command.json else "\n".join(report.bench_lines(found))
    await _print(text)
    unanswered = not all(one.appends for one in found)
    failed = unanswered or len(found) < len(command.windows) or found[-1].ended_early
    return EXIT_FAILED if failed else EXIT_OK
