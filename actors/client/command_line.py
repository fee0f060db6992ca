"""What `python -m actors.client TARGET append|read|tail|status|bench` does.

A user's mistake is one line on stderr and exit code 2; what ran and failed is one line and exit
code 1. The first Ctrl-C or SIGTERM is an ordered end, the second hurries.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import assert_never

import trio
from rich.console import Console

from actors.api.failures import RequestRefused
from actors.client import reading, report
from actors.client.appending import Appending, Rules, Summary, summary_lines
from actors.client.arguments import Append, Arguments, Bench, Read, Status, Tail, parse
from actors.client.bench import Connect, Figures, measure
from actors.client.connection import Client
from actors.client.lines import open_missing_streams, open_source, write_out
from actors.client.progress import Bar
from actors.client.targets import Target, connect_target, parse_target, pick_group
from actors.config.command_line import OutputFailed, complain, stop_signals, with_output
from actors.errors import ConfigError, TriologError
from actors.quiet_imports import INTERRUPTED
from wire import api

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
OUTPUT = 1


def run_command_line(words: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    open_missing_streams()
    return with_output(partial(_main, sys.argv[1:] if words is None else words))


def _main(words: Sequence[str]) -> int:
    try:
        arguments = parse(words)
        target = parse_target(arguments.target)
        return trio.run(_run, arguments, target)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseExceptionGroup as group:
        return _explain(tuple(_leaves(group)))
    except (TriologError, OSError) as error:
        return _explain((error,))


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _explain(errors: tuple[BaseException, ...]) -> int:
    """One line for each error. What is not foreseen keeps its traceback: it is our mistake."""
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
    lines = dict.fromkeys(line for error in errors for line in _words(error))
    for line in lines:
        complain(f"triolog: {line}")
    return EXIT_USAGE if all(map(_is_mistake, errors)) else EXIT_FAILED


def _is_mistake(error: BaseException) -> bool:
    """Whether the user's words were wrong, by our reading or by the node's."""
    if isinstance(error, RequestRefused):
        return error.error in (api.ERROR_BAD_REQUEST, api.ERROR_UNKNOWN_GROUP)
    return isinstance(error, ConfigError)


def _words(error: BaseException) -> list[str]:
    if isinstance(error, ConfigError):
        return [" ".join(problem.split()) for problem in error.problems]
    return [report.error_text(error)]


async def _run(arguments: Arguments, target: Target) -> int:
    command = arguments.command
    group: str | None = None  # the node says which it has
    if target.config is not None and not isinstance(command, Status):
        group = pick_group(tuple(target.config.groups), command.group, arguments.target)
    connect = partial(
        connect_target,
        target,
        group,
        master_only=isinstance(command, Append | Bench),
        name=f"client {type(command).__name__.lower()}",
    )
    async with connect() as client:
        if isinstance(command, Status):
            return await _status(client, command)
        group = pick_group(client.identity.groups, command.group or group, client.identity.node)
        match command:
            case Append():
                return await _append(client, group, command)
            case Read():
                return await _read(client, group, command)
            case Tail():
                return await _tail(client, group, command)
            case Bench():
                return await _bench(connect, group, command)
            case _:
                assert_never(command)


async def _obey_signals(
    stop: Callable[[], None], hurry: Callable[[], None], *, task_status: trio.TaskStatus[None]
) -> None:
    """The first signal is an ordered end, the second hurries."""
    with trio.open_signal_receiver(*stop_signals()) as received:
        task_status.started()
        async for _ in received:
            stop()
            stop = hurry


async def _status(client: Client, command: Status) -> int:
    status = await client.status()
    text = report.as_json(status) if command.json else "\n".join(report.status_lines(status))
    await write_out(OUTPUT, text.encode() + b"\n")
    return EXIT_OK


async def _append(client: Client, group: str, command: Append) -> int:
    descriptor = open_source(command.file, "FILE")
    rules = Rules.of(await client.status(), group)
    appending = Appending(client.log(group), client.identity.node, descriptor, rules)
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
        complain("triolog: hurried: the last lines may be stored, or not")
        return INTERRUPTED
    *notes, last = summary_lines(summary)
    for line in notes:
        complain(f"triolog: {line}")
    await write_out(OUTPUT, (report.as_json(summary) if command.json else last).encode() + b"\n")
    return EXIT_OK if summary.error is None else EXIT_FAILED


async def _read(client: Client, group: str, command: Read) -> int:
    last = await reading.read(
        client,
        group,
        partial(write_out, OUTPUT),
        start=command.start,
        count=command.count,
        fresh=command.fresh,
        json=command.json,
    )
    if reading.knows_nothing(last):
        complain(
            f"triolog: {client.identity.node} holds {group} up to position {last.end}, but does not"
            " know what of it is acknowledged: who follows learns it from its master or leader, and"
            " these from who follows"
        )
        return EXIT_FAILED
    return EXIT_OK


async def _tail(client: Client, group: str, command: Tail) -> int:
    async with trio.open_nursery() as nursery:
        end = nursery.cancel_scope.cancel
        await nursery.start(_obey_signals, end, end)
        write = partial(write_out, OUTPUT)
        await reading.tail(client, group, write, start=command.start, json=command.json)
    return EXIT_OK


async def _bench(connect: Connect, group: str, command: Bench) -> int:
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
                    group,
                    window=window,
                    size_bytes=command.size_bytes,
                    batch_count=command.batch_count,
                    seconds=command.seconds,
                )
            )
            if found[-1].first_error is not None:
                break
        nursery.cancel_scope.cancel()
    text = report.as_json(found) if command.json else "\n".join(report.bench_lines(found))
    await write_out(OUTPUT, text.encode() + b"\n")
    failed = len(found) < len(command.windows) or found[-1].first_error is not None
    return EXIT_FAILED if failed else EXIT_OK
