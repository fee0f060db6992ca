"""Runs `python -m actors.storage check|dump|pending|truncate|backup|seed`.

A user's mistake is one line on stderr and exit code 2. A command that ran and failed has exit code
1, also a check that found damage; a check has 3 if a node mends all that it found. Every command
may be interrupted at any time and run again.

Of a running node, check, dump and pending read what lies below its synced mark, which does not
change while it runs; of a DLedger member, what its checkpoint calls committed, which is never cut.
Backup asks the node, over its API socket, how far its log is acknowledged and synced. Truncate
refuses. If a node is stopped, its locks are held, so that it does not start meanwhile.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar, assert_never

import attrs
import trio

from actors.api.socket_file import api_socket_path
from actors.client.connection import connect
from actors.client.lines import open_missing_streams, write_out
from actors.client.report import as_json, error_text
from actors.client.targets import parse_target
from actors.config import ClusterConfig
from actors.config.bounds import NAME
from actors.config.command_line import (
    OUTPUT,
    OutputFailed,
    absolute,
    columns,
    complain,
    folded,
    width_of,
    with_output,
)
from actors.config.kinds import KINDS as CONFIG_KINDS
from actors.env.protocols import Disk, Env
from actors.env.real import real_env
from actors.errors import ConfigError, StorageError, TriologError
from actors.group_status import GroupStatus, group_status
from actors.metadata.config_folder import ConfigFolder
from actors.own_process import INTERRUPTED, as_typed, naming
from actors.readable import counted, duration, readable, readable_lines
from actors.storage.files.stepping import Running, Step, Work
from actors.storage.kinds import KINDS, by_key, tools_of
from actors.storage.tools import arguments
from actors.storage.tools import seed as seeding
from actors.storage.tools.backup import copy_stores, held_backup, make_manifest
from actors.storage.tools.commitlog.check import CheckOptions
from actors.storage.tools.commitlog.dump import Wanted
from actors.storage.tools.commitlog.pending import Cursors, DelayLevel, HalfQueue, Pending
from actors.storage.tools.commitlog.truncate import TruncationPlan
from actors.storage.tools.copying import BackedUp, Limit
from actors.storage.tools.findings import Report
from actors.storage.tools.manifest import write_manifest
from actors.storage.tools.stores import FoundStore
from actors.storage.tools.target import (
    InUse,
    Kind,
    Target,
    find_target,
    one_store,
    one_to_cut,
    take_locks,
)
from wire.files.message_record import RECORD_OVERHEAD_MAX

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
EXIT_MENDS = 3
"""Only for a check: a node on the store mends everything that it found."""
PROGRESS_INTERVAL_S = 0.2
MIB = 1 << 20
HEAD = ("result", "state")
"""The headings after the group's, which is the unit of the positions."""
T = TypeVar("T")


def run_command_line(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    open_missing_streams()
    with naming("FILE"):
        return with_output(partial(_main, sys.argv[1:] if argv is None else argv))


def _main(argv: Sequence[str]) -> int:
    command: arguments.Command | None = None
    try:
        command = arguments.parse(argv)
        return trio.run(_run, command)
    except KeyboardInterrupt:
        read_only = arguments.Check | arguments.Dump | arguments.Pending
        reads = command is None or isinstance(command, read_only)
        hint = "" if reads else "; run the same command again to finish it"
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
        case arguments.Pending():
            return await _pending(env, command)
        case arguments.Truncate():
            return await _truncate(env, command)
        case arguments.Backup():
            return await _backup(env, command)
        case arguments.Seed():
            return await _seed(env, command)
        case _:
            assert_never(command)


# ---- check, dump, pending ----


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
    lines = check_lines(reports)
    if target.identity is not None:
        lines += cure_lines(reports, target.identity.node)
    await answer(result, lines, json=command.json)
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
        complain(f"triolog: {counted(done.expired, 'file')} expired unread")
    for problem in done.problems:
        complain(f"triolog: {problem}")
    return EXIT_FAILED if done.problems else EXIT_OK


async def _pending(env: Env, command: arguments.Pending) -> int:
    disk = env.disk
    target = find_target(disk, absolute(command.folder), command.group)
    if target.kind is Kind.BACKUP:
        raise ConfigError(
            f"{target.path}: expected a node or a store, found a backup, without queues"
        )
    able = [
        (store, find)
        for store in target.stores
        if not isinstance(find := tools_of(store).pending, str)
    ]
    if not able and target.stores:
        raise ConfigError(f"{target.path}: {tools_of(target.stores[0]).pending}")
    locks, is_running = held(disk, target)
    found: list[Pending] = []
    with locks:
        for store, find in able:
            tables = ConfigFolder(disk, f"{store.layout.root}/config", store.name).read()
            cursors = Cursors.of(tables.delay_offsets, tables.consumer_offsets)
            limit = tools_of(store).stays_up_to(disk, store) if is_running else None
            found.append(await drive(find(disk, store, cursors, limit)))
    lines = [line for each in found for line in pending_lines(each, env.wall_clock_ms())]
    result = {"path": target.path, "groups": [attrs.asdict(each) for each in found]}
    await answer(result, lines, json=command.json)
    return EXIT_FAILED if any(each.problems for each in found) else EXIT_OK


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
        lines = plan_lines(plan, store.layout.root)
        if plan.lost is not None and not command.force:
            raise ConfigError(f"OFFSET: {plan.lost}; --force cuts it all the same")
        if (plan.cut_bytes or plan.unfinished is not None) and not command.yes:
            sys.stderr.write(readable_lines(_as_text(lines)))
            if not await _agreed("Cut?"):
                complain("triolog: nothing was changed")
                return EXIT_FAILED
        kept = await drive(found.carry_out())
    end = [] if kept is None else [f"{store.name}: kept in {kept}"]
    result = {**attrs.asdict(plan), "cut_bytes": plan.cut_bytes, "kept": kept}
    await answer(result, [*(lines if command.yes else []), *end], json=command.json)
    return EXIT_OK


async def _agreed(question: str) -> bool:
    """Ask the user. Raises: ConfigError: standard input is no terminal."""
    if not sys.stdin.isatty():
        raise ConfigError("--yes: expected where standard input is no terminal, found nothing")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# ---- what the commands share ----


async def drive(work: Work[T], output: list[bytes] | None = None) -> T:
    """Run work to its end. If stderr is a terminal, it shows the progress.

    Args:
        output: what the work appends to is written to standard output, and emptied, at each step.
    """
    shows = sys.stderr.isatty() and (output is None or not os.isatty(OUTPUT))
    begin = drawn = trio.current_time()
    seen: dict[str, int] = {}
    running = Running(work)
    try:
        for step in running:
            await _write_all(output)
            now = trio.current_time()
            first = seen.setdefault(step.what, step.done_bytes)
            if len(seen) > 1:
                seen, begin = {step.what: first}, now
            if shows and now - drawn > PROGRESS_INTERVAL_S:
                drawn = now
                line = step_line(step, now - begin, step.done_bytes - first)
                sys.stderr.write(f"\r{readable(line)}\x1b[K")
                sys.stderr.flush()
            await trio.lowlevel.checkpoint()
        await _write_all(output)
        return running.result
    finally:
        work.close()
        if shows and drawn != begin:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


async def _write_all(output: list[bytes] | None) -> None:
    if output:
        data = b"".join(output)
        output.clear()
        await write_out(OUTPUT, data)


async def answer(as_object: Any, lines: Sequence[str], *, json: bool) -> None:
    """Print the result of a command, as JSON or for people."""
    people = folded(as_typed(_as_text(lines)), width_of(OUTPUT))
    text = as_json(as_object) + "\n" if json else people
    await write_out(OUTPUT, readable_lines(text).encode())


def held(disk: Disk, target: Target) -> tuple[ExitStack, bool]:
    """Take the locks of a target that is only read. Returns: the locks, and whether a node runs on
    it.

    Raises: InUse: another program runs on it, so it is unknown what may be read.
    """
    try:
        return take_locks(disk, target, may_write=False), False
    except InUse:
        if target.node_dir is None:
            raise
        return ExitStack(), True


# ---- backup, seed ----


async def _backup(env: Env, command: arguments.Backup) -> int:
    """Copy the groups of a node or a store. Returns the exit code."""
    disk, folder = env.disk, absolute(command.target)
    target = find_target(disk, absolute(command.folder), command.group)
    locks, is_running = held(disk, target)
    with locks:
        limits: dict[str, Limit] = {}
        for store in target.stores:
            if is_running:
                limits[store.name] = await _running_limit(disk, target, store)
            else:
                limits[store.name] = await drive(tools_of(store).stopped_limit(disk, store))
        locks.enter_context(held_backup(disk, target, folder))
        done = BackedUp()
        await drive(copy_stores(disk, target, folder, limits, done))
        if is_running:
            for store in [each for each in target.stores if not limits[each.name].is_sure]:
                now = await _running_limit(disk, target, store)
                if now.end_bytes < limits[store.name].end_bytes:
                    raise StorageError(
                        f"{store.name}: its log was cut while it was copied: run it again"
                    )
        write_manifest(disk, folder, make_manifest(disk, target, done, env.wall_clock_ms()))
    result = backup_object(done, folder)
    await answer(result, backup_lines(done, folder), json=command.json)
    return EXIT_OK


async def _status(target: Target, group: str) -> GroupStatus | None:
    """Ask a running node for its status of a group; None if it does not answer."""
    assert target.node_dir is not None
    try:
        async with connect(api_socket_path(target.node_dir), name="backup") as client:
            return group_status(await client.status(), group)
    except (OSError, TriologError, ExceptionGroup):
        return None


async def _running_limit(disk: Disk, target: Target, store: FoundStore) -> Limit:
    """Return the end of a running node's copy; see `StoreTools.running_limit`."""
    assert target.identity is not None
    status = await _status(target, store.name)
    return tools_of(store).running_limit(disk, store, status, target.identity.node)


async def _seed(env: Env, command: arguments.Seed) -> int:
    """Make a node's data directory from a backup. Returns the exit code."""
    plan, config = _seed_plan(env.disk, command)
    if config is not None:
        seeding.check_fit(plan, config)
    seeding.check_free(env.disk, plan)
    copied = await drive(seeding.seed_node(env.disk, plan))
    ends = {name: copied.log.end_bytes for name, copied in plan.groups}
    lines = [f"{name}: ends at {end}" for name, end in ends.items()]
    lines.append(
        f"{plan.node_dir}: node {plan.node} of {plan.cluster}, {copied} bytes; start it as a slave"
    )
    result = {"path": plan.node_dir, "cluster": plan.cluster, "node": plan.node, "ends": ends}
    await answer(result, lines, json=command.json)
    return EXIT_OK


def _seed_plan(disk: Disk, command: arguments.Seed) -> tuple[seeding.Seed, ClusterConfig | None]:
    """Return what to seed, and the cluster file if one was named. Raises: ConfigError."""
    source = find_target(disk, absolute(command.folder))
    if source.manifest is None:
        raise ConfigError(f"{source.path}: expected a backup with a manifest, found none")
    able = seeding.seedable(source.manifest)
    others = {
        store.name: why for store in source.stores if isinstance(why := tools_of(store).seed, str)
    }
    if not able:
        every = {mode: kind.tools().seed for mode, kind in KINDS.items()}
        modes = " or ".join(mode for mode, duty in every.items() if not isinstance(duty, str))
        names, why = ", ".join(others), next(iter(others.values()), "nothing is in it")
        raise ConfigError(f"{source.path}: expected a {modes} group, found {names}: {why}")
    for name, why in others.items():
        complain(f"triolog: {name} is passed over: {why}")
    text, config = command.target, None
    if text.endswith(".toml") or text.rpartition(":")[0].endswith(".toml"):
        found = parse_target(text)
        config, node = found.config, command.node or found.node
        if config is None or node is None:
            raise ConfigError(f"TARGET: expected CLUSTER.toml:NODE or a folder, found {text}")
        if node not in config.python_nodes:
            known = ", ".join(config.python_nodes)
            raise ConfigError(f"--node: expected one of {known}, found {node}")
        node_dir, cluster = config.node_dir(node), config.name
    else:
        node_dir, cluster = absolute(text), source.manifest.cluster
        node = command.node or os.path.basename(node_dir)
        _check_name("--node", node)
    if not cluster:
        raise ConfigError("TARGET: expected CLUSTER.toml:NODE, for the backup names no cluster")
    if command.group is not None:
        _check_name("--group", command.group)
        if len(able) != 1:
            raise ConfigError(f"--group: expected a backup of one group, found {source.top}")
    plan = seeding.Seed(
        backup=source.top,
        manifest=source.manifest,
        node_dir=node_dir,
        cluster=cluster,
        node=node,
        group=command.group,
    )
    return plan, config


def _check_name(what: str, name: str) -> None:
    if re.fullmatch(NAME.pattern, name) is None:
        raise ConfigError(f"{what}: expected {NAME.expected}, found {name!r}")


# ---- what they print, for people ----


def check_lines(reports: Sequence[Report]) -> list[str]:
    """Make a table for each mode, with one row per group, and below them a line for each
    finding; what needs something to be done stands last.
    """
    if not reports:
        return ["no groups"]
    lines: list[str] = []
    for of_mode in filter(None, by_key(reports).values()):
        rows = [(one.group, one.result, one.state, *one.row) for one in of_mode]
        unit = f"in {CONFIG_KINDS[of_mode[0].mode].terms.unit}"
        lines += columns([(unit, *HEAD, *of_mode[0].columns), *rows], left=len(HEAD) + 1)
    for report in reports:
        findings = report.findings
        for kind, found, count in (
            ("note", findings.notes, findings.note_count),
            ("mends", findings.mends, findings.mend_count),
            ("damage", findings.damage, findings.damage_count),
        ):
            lines += [f"{report.group}: {kind}: {line}" for line in found]
            if count > len(found):
                lines.append(f"{report.group}: {kind}: {count} in all")
    return lines


def cure_lines(reports: Sequence[Report], node: str) -> list[str]:
    """Say what to do about the damage of a node's groups, one line each."""
    return [
        f"{one.group}: while the node runs, `repair {node} {one.group}` mends what another member"
        f" has. If it does not start: {one.cure}"
        for one in reports
        if one.cure and any(one.cure not in line for line in one.findings.damage)
    ]


def pending_lines(found: Pending, now_ms: int) -> list[str]:
    """Describe what a broker has to do, for people."""
    reach = "as far as its queues reach"
    if found.derived_bytes is not None:
        reach = f"of what its log has below {found.derived_bytes}"
    messages = sum(level.messages for level in found.delayed)
    undecided = sum(queue.undecided for queue in found.half)
    lines = [
        f"{found.group}: {counted(messages, 'delayed message')}, "
        f"{counted(undecided, 'undecided half message')}, {reach}"
    ]
    rows = [
        (f"level {level.level}", *_cursor_cells(level), str(level.messages), *_due(level, now_ms))
        for level in found.delayed
    ]
    rows += [
        (f"half messages {queue.queue_id}", *_cursor_cells(queue), str(queue.undecided), "", "")
        for queue in found.half
    ]
    if rows:
        head = ("", "cursor", "next", "end", "pending", "next due", "last due")
        lines += columns([head, *rows])
    for queue in found.half:
        lines += [
            f"{queue.queue_id}/{each.queue_offset} at {each.offset}: for {each.topic}, "
            f"{duration(now_ms - each.born_ms)} old, asked {counted(each.checks, 'time')}, "
            f"{each.transaction_id}"
            for each in queue.messages
        ]
        if queue.undecided > len(queue.messages):
            lines.append(f"{queue.queue_id}: the first {len(queue.messages)} of {queue.undecided}")
    return [*lines, *(f"{found.group}: {problem}" for problem in found.problems)]


def _cursor_cells(queue: DelayLevel | HalfQueue) -> tuple[str, str, str]:
    cursor = "none" if queue.cursor is None else str(queue.cursor)
    return cursor, str(queue.next_offset), str(queue.end_offset)


def _due(level: DelayLevel, now_ms: int) -> tuple[str, str]:
    if level.due_ms is None or level.last_due_ms is None:
        return "", ""
    times = [level.due_ms - now_ms, level.last_due_ms - now_ms]
    first, last = (f"in {duration(ms)}" if ms > 0 else f"{duration(-ms)} ago" for ms in times)
    return first, last


def plan_lines(plan: TruncationPlan, root: str) -> list[str]:
    """Describe what a truncation would change, for people."""
    lines = []
    if plan.unfinished is not None:
        lines.append(f"{plan.group}: ends the truncation to {plan.unfinished} that was interrupted")
    if plan.cut_bytes:
        lines.append(
            f"{plan.group}: the log will end at {plan.offset}:"
            f" {counted(plan.cut_bytes, 'byte')} with {counted(plan.records, 'record')} are cut and"
            f" kept in {root}/truncated/"
        )
        if plan.files:
            lines.append(
                f"{plan.group}: {counted(plan.files, 'log file is', 'log files are')} deleted"
            )
    else:
        lines.append(f"{plan.group}: nothing lies behind {plan.offset}")
    if plan.lost is not None:
        lines.append(f"{plan.group}: {plan.lost}")
    elif plan.known_bytes is None and plan.cut_bytes:
        lines.append(f"{plan.group}: it is unknown how much of it was acknowledged")
    return lines


def backup_lines(done: BackedUp, folder: str) -> list[str]:
    """Describe what was copied, for people."""
    lines = list(done.notes)
    lines += [copied.line for copied in done.copies]
    reused = f", {_mib(done.reused_bytes)} were there already" if done.reused_bytes else ""
    lines.append(f"{folder}: whole, {_mib(done.copied_bytes)} copied{reused}")
    return lines


def backup_object(done: BackedUp, folder: str) -> dict[str, Any]:
    """Describe what was copied, as an object for JSON; the manifest lists the files."""
    return {
        **{
            key: [_copy_object(each) for each in found]
            for key, found in by_key(done.copies).items()
        },
        "notes": done.notes,
        "copied_bytes": done.copied_bytes,
        "reused_bytes": done.reused_bytes,
        "path": folder,
    }


def _copy_object(copied: Any) -> dict[str, Any]:
    own = attrs.asdict(copied, recurse=False)
    own.pop("log", None)
    log = attrs.asdict(copied.log, recurse=False)
    return {**own, **log, "files": len(copied.log.files)}


def step_line(step: Step, seconds: float, bytes_done: int) -> str:
    """Make a line about the progress of a step.

    Args:
        seconds: the time since the step began.
        bytes_done: the bytes done in that time.
    """
    speed = bytes_done / 1e6 / max(seconds, 0.001)
    of = f" of {_mib(step.total_bytes)}" if step.total_bytes else ""
    return f"{step.what}: {_mib(step.done_bytes)}{of}, {speed:.0f} MB/s"


def _mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"


def _as_text(lines: Iterable[str]) -> str:
    """Join lines to a text."""
    return "".join(f"{line}\n" for line in lines)
