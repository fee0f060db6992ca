"""What `python -m actors.storage check|dump|truncate|backup|seed` does.

A user's mistake is one line on stderr and exit code 2; what ran and failed has exit code 1, damage
that a check finds too; 3 if the next start mends all that it found. Every command may be
interrupted at any time and run again.

A running node: check and dump read what lies below its synced mark, which never changes while it
runs, of a DLedger group's member what its checkpoint calls committed, which is never cut; backup
asks it, over its API socket, how far its log is acknowledged and synced; truncate refuses. On a
stopped one its locks are held, so that it does not start meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import assert_never

import attrs
import trio

from actors.client.lines import open_missing_streams
from actors.client.report import error_text
from actors.config.command_line import OutputFailed, complain, with_output
from actors.env.protocols import Env
from actors.env.real import real_env
from actors.errors import ConfigError, TriologError
from actors.quiet_imports import INTERRUPTED
from actors.readable import readable_lines
from actors.storage.kinds import by_key, tools_of
from actors.storage.tools import arguments, command_copies, report
from actors.storage.tools.command_steps import (
    EXIT_FAILED,
    EXIT_MENDS,
    EXIT_OK,
    EXIT_USAGE,
    absolute,
    answer,
    drive,
    held,
)
from actors.storage.tools.commitlog.check import CheckOptions
from actors.storage.tools.commitlog.dump import Wanted
from actors.storage.tools.findings import Report
from actors.storage.tools.target import Kind, find_target, one_store, one_to_cut, take_locks
from wire.files.message_record import RECORD_OVERHEAD_MAX


def run_command_line(words: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    open_missing_streams()
    return with_output(partial(_main, sys.argv[1:] if words is None else words))


def _main(words: Sequence[str]) -> int:
    command: arguments.Command | None = None
    try:
        command = arguments.parse(words)
        return trio.run(_run, command)
    except KeyboardInterrupt:
        reads = command is None or isinstance(command, arguments.Check | arguments.Dump)
        hint = "" if reads else "; run the same again, it does what is left"
        complain(f"triolog: interrupted{hint}")
        return INTERRUPTED
    except OutputFailed:
        raise
    except ConfigError as error:
        for problem in error.problems:
            complain(f"triolog: {' '.join(problem.split())}")
        return EXIT_USAGE
    except (TriologError, OSError) as error:
        complain(f"triolog: {error_text(error)}")
        return EXIT_FAILED


async def _run(command: arguments.Command) -> int:
    env = real_env()
    match command:
        case arguments.Check():
            return await _check(env, command)
        case arguments.Dump():
            return await _dump(env, command)
        case arguments.Truncate():
            return await _truncate(env, command)
        case arguments.Backup():
            return await command_copies.backup(env, command)
        case arguments.Seed():
            return await command_copies.seed(env, command)
        case _:
            assert_never(command)


# ---- check, dump ----


async def _check(env: Env, command: arguments.Check) -> int:
    target = find_target(env.disk, absolute(command.folder), command.group)
    body = command.max_message_bytes
    locks, is_running = held(env.disk, target)
    options = CheckOptions(
        is_running=is_running,
        is_backup=target.kind is Kind.BACKUP,
        index_slots=command.index_slots,
        record_bytes_max=None if body is None else body + RECORD_OVERHEAD_MAX,
        node_dir=None if is_running else target.node_dir,
    )
    reports: list[Report] = []
    with locks:
        for store in target.stores:
            copied = None if target.manifest is None else target.manifest.copy_of(store)
            own = attrs.evolve(options, copied=copied)
            reports.append(await drive(tools_of(store).check(env.disk, store, own)))
    good = all(each.is_good for each in reports)
    is_damaged = any(each.findings.damage_count for each in reports)
    result = {"path": target.path, "good": good, **by_key(reports)}
    await answer(result, report.check_lines(reports), json=command.json)
    if is_damaged:
        return EXIT_FAILED
    return EXIT_OK if good else EXIT_MENDS


async def _dump(env: Env, command: arguments.Dump) -> int:
    target = find_target(env.disk, absolute(command.folder), command.group)
    store = one_store(target)
    tools = tools_of(store)
    wanted = Wanted(
        start=command.start,
        topic=command.topic,
        queue_id=command.queue_id,
        key=command.key,
        count_max=command.count,
    )
    locks, is_running = held(env.disk, target)
    output: list[bytes] = []
    with locks:
        limit = tools.stays_up_to(env.disk, store) if is_running else None
        work = tools.dump(env.disk, store, wanted, output.append, limit)
        done = await drive(work, output)
    if done.expired:
        complain(f"triolog: {done.expired} files expired before they were read")
    for problem in done.problems:
        complain(f"triolog: {problem}")
    return EXIT_FAILED if done.problems else EXIT_OK


# ---- truncate ----


async def _truncate(env: Env, command: arguments.Truncate) -> int:
    target = find_target(env.disk, absolute(command.folder), command.group)
    if target.kind is Kind.BACKUP:
        raise ConfigError(f"{target.path}: expected a node or a store, found a backup")
    store, prepare = one_to_cut(target)
    with take_locks(env.disk, target, may_write=True):
        preparing = prepare(env, store, command.offset, command.index_slots, target.node_dir)
        found = await drive(preparing)
        plan = found.plan
        lines = report.plan_lines(plan, store.layout.root)
        if plan.lost is not None and not command.force:
            raise ConfigError(f"OFFSET: {plan.lost}; --force cuts it all the same")
        if (plan.cut_bytes or plan.unfinished is not None) and not command.yes:
            sys.stderr.write(readable_lines(report.words(lines)))
            if not await _agreed("Cut?"):
                complain("triolog: nothing was changed")
                return EXIT_FAILED
        kept = await drive(found.carry_out())
    end = [] if kept is None else [f"{store.name}: kept in {kept}"]
    result = {**attrs.asdict(plan), "cut_bytes": plan.cut_bytes, "kept": kept}
    await answer(result, [*(lines if command.yes else []), *end], json=command.json)
    return EXIT_OK


async def _agreed(question: str) -> bool:
    """Raises: ConfigError: nobody is there to be asked."""
    if not sys.stdin.isatty():
        raise ConfigError("--yes: expected where standard input is no terminal, found nothing")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
