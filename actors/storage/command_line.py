"""What `python -m actors.storage check|dump|truncate|backup|seed` does.

A user's mistake is one line on stderr and exit code 2; what ran and failed has exit code 1, damage
that a check finds too. Every command may be interrupted at any time and run again.

A running node: check and dump read what lies below its synced mark, which never changes while it
runs; backup asks it, over its API socket, how far its log is acknowledged and synced; truncate
refuses. On a stopped one its locks are held, so that it does not start meanwhile.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar, assert_never

import attrs
import trio

from actors.api.socket_file import read_pointer
from actors.client.connection import connect
from actors.client.lines import open_missing_streams, write_out
from actors.client.report import as_json, error_text
from actors.client.targets import parse_target
from actors.config import ClusterConfig
from actors.config.bounds import NAME
from actors.config.command_line import OUTPUT, OutputFailed, complain, with_output
from actors.env.protocols import Disk, Env
from actors.env.real import real_env
from actors.errors import ConfigError, StorageError, TriologError
from actors.storage.side_file import read_side_file
from actors.storage.tools import arguments, report, seed
from actors.storage.tools.backup import (
    Limit,
    copy_groups,
    make_manifest,
    open_backup,
    read_raw_identity,
    stopped_limit,
    verify_group,
)
from actors.storage.tools.check import CheckOptions, check_store
from actors.storage.tools.dump import Wanted, dump_store
from actors.storage.tools.findings import StoreReport
from actors.storage.tools.manifest import write_manifest
from actors.storage.tools.steps import Work
from actors.storage.tools.target import (
    GroupStore,
    InUse,
    Kind,
    Target,
    find_target,
    one_store,
    take_locks,
)
from actors.storage.tools.truncate import (
    derived_group,
    high_water,
    marks_of,
    plan_truncation,
    truncate_store,
)
from wire.message_record import RECORD_OVERHEAD_MAX

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
INTERRUPTED = 130
"""What a shell gives a program that Ctrl-C ended."""
PROGRESS_INTERVAL_S = 0.2
T = TypeVar("T")


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
            return await _backup(env, command)
        case arguments.Seed():
            return await _seed(env, command)
        case _:
            assert_never(command)


async def _drive(work: Work[T], output: list[bytes] | None = None) -> T:
    """Run work to its end; a terminal's stderr shows how far it is.

    Args:
        output: what the work has to say, written and emptied at each step.
    """
    shows = sys.stderr.isatty() and (output is None or not os.isatty(OUTPUT))
    begin = drawn = trio.current_time()
    seen: dict[str, int] = {}
    try:
        while True:
            try:
                step = next(work)
            except StopIteration as done:
                await _write_all(output)
                result: T = done.value
                return result
            await _write_all(output)
            now = trio.current_time()
            first = seen.setdefault(step.what, step.done_bytes)
            if len(seen) > 1:
                seen, begin = {step.what: first}, now
            if shows and now - drawn > PROGRESS_INTERVAL_S:
                drawn = now
                line = report.step_line(step, now - begin, step.done_bytes - first)
                sys.stderr.write(f"\r{line}\x1b[K")
                sys.stderr.flush()
            await trio.lowlevel.checkpoint()
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


async def _answer(as_object: Any, lines: Sequence[str], *, json: bool) -> None:
    text = as_json(as_object) + "\n" if json else report.words(lines)
    await write_out(OUTPUT, text.encode("utf-8", "backslashreplace"))


def _held(disk: Disk, target: Target) -> tuple[ExitStack, bool]:
    """The locks of a target that is only read from, and whether a node runs on it.

    Raises: InUse: another program runs on it, which does not say what is safe to read.
    """
    try:
        return take_locks(disk, target, may_write=False), False
    except InUse:
        if target.node_dir is None:
            raise
        return ExitStack(), True


# ---- check, dump ----


async def _check(env: Env, command: arguments.Check) -> int:
    target = find_target(env.disk, _absolute(command.folder), command.group)
    body = command.max_message_bytes
    locks, is_running = _held(env.disk, target)
    options = CheckOptions(
        is_running=is_running,
        is_backup=target.kind is Kind.BACKUP,
        index_slots=command.index_slots,
        record_bytes_max=None if body is None else body + RECORD_OVERHEAD_MAX,
    )
    reports: list[StoreReport] = []
    with locks:
        for store in target.stores:
            found = await _drive(check_store(env.disk, store, options))
            if target.manifest is not None:
                for group in target.manifest.groups:
                    if group.name == store.name:
                        for line in await _drive(verify_group(env.disk, target.top, group)):
                            found.findings.hurt(line)
            if target.node_dir is not None and not is_running:
                _compare_with_identity(env.disk, target.node_dir, found)
            reports.append(found)
    good = all(each.is_good for each in reports)
    result = {"path": target.path, "good": good, "groups": reports}
    await _answer(result, report.check_lines(reports), json=command.json)
    return EXIT_OK if good else EXIT_FAILED


def _compare_with_identity(disk: Disk, node_dir: str, found: StoreReport) -> None:
    """What the node has promised for a group, and whether it knows the group at all."""
    raw = read_raw_identity(disk, node_dir)
    for promised in high_water(raw, found.group).values():
        if promised > found.end_bytes:
            found.findings.hurt(
                f"{node_dir}/identity.json: all below {promised} was acknowledged or reported, but"
                f" the log ends at {found.end_bytes}"
            )
    if found.group not in raw["groups"]:
        found.findings.note(f"{node_dir}/identity.json: does not name this group")


async def _dump(env: Env, command: arguments.Dump) -> int:
    target = find_target(env.disk, _absolute(command.folder), command.group)
    store = one_store(target)
    wanted = Wanted(
        start=command.start,
        topic=command.topic,
        queue_id=command.queue_id,
        key=command.key,
        count_max=command.count,
    )
    locks, is_running = _held(env.disk, target)
    output: list[bytes] = []
    with locks:
        limit = _synced_mark(env.disk, store) if is_running else None
        work = dump_store(env.disk, store, wanted, output.append, limit=limit)
        done = await _drive(work, output)
    if done.expired:
        complain(f"triolog: {done.expired} files expired before they were read")
    for problem in done.problems:
        complain(f"triolog: {problem}")
    return EXIT_FAILED if done.problems else EXIT_OK


def _synced_mark(disk: Disk, store: GroupStore) -> int:
    values = read_side_file(disk, store.layout.synced, 1)
    return 0 if values is None else values[0]


# ---- truncate ----


async def _truncate(env: Env, command: arguments.Truncate) -> int:
    target = find_target(env.disk, _absolute(command.folder), command.group)
    if target.kind is Kind.BACKUP:
        raise ConfigError(f"{target.path}: expected a node or a store, found a backup")
    store = one_store(target)
    with take_locks(env.disk, target, may_write=True):
        marks = marks_of(env.disk, store)
        if target.node_dir is not None:
            marks |= high_water(read_raw_identity(env.disk, target.node_dir), store.name)
        derived = derived_group(env.disk, store, command.index_slots)
        plan = await _drive(plan_truncation(env.disk, store, command.offset, marks))
        lines = report.plan_lines(plan, store.layout.root)
        if plan.lost is not None and not command.force:
            raise ConfigError(f"OFFSET: {plan.lost}; --force cuts it all the same")
        if (plan.cut_bytes or plan.unfinished is not None) and not command.yes:
            sys.stderr.write(report.words(lines))
            if not await _agreed("Cut?"):
                complain("triolog: nothing was changed")
                return EXIT_FAILED
        kept = await _drive(truncate_store(env, store, plan, derived))
    end = [] if kept is None else [f"{store.name}: kept in {kept}"]
    result = {**attrs.asdict(plan), "cut_bytes": plan.cut_bytes, "kept": kept}
    await _answer(result, [*(lines if command.yes else []), *end], json=command.json)
    return EXIT_OK


async def _agreed(question: str) -> bool:
    """Raises: ConfigError: nobody is there to be asked."""
    if not sys.stdin.isatty():
        raise ConfigError("--yes: expected where standard input is no terminal, found nothing")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# ---- backup, seed ----


async def _backup(env: Env, command: arguments.Backup) -> int:
    disk, folder = env.disk, _absolute(command.target)
    target = find_target(disk, _absolute(command.folder), command.group)
    locks, is_running = _held(disk, target)
    with locks:
        limits: dict[str, Limit] = {}
        for store in target.stores:
            if is_running:
                limits[store.name] = await _running_limit(disk, target, store)
            else:
                limits[store.name] = await _drive(stopped_limit(disk, store))
        open_backup(disk, target, folder)
        done = await _drive(copy_groups(disk, target, folder, limits))
        if is_running:
            for store in target.stores:
                now = await _running_limit(disk, target, store)
                if now.end_bytes < limits[store.name].end_bytes:
                    raise StorageError(f"{store.name}: its log was cut while it was copied; again")
        manifest = make_manifest(disk, target, done.groups, env.wall_clock_ms())
        write_manifest(disk, folder, manifest)
    result = report.backup_object(done, folder)
    await _answer(result, report.backup_lines(done, folder), json=command.json)
    return EXIT_OK


async def _running_limit(disk: Disk, target: Target, store: GroupStore) -> Limit:
    """What a running node says of a group; what is synced there if it does not answer.

    Raises: TriologError: it does not know yet what is acknowledged.
    """
    assert target.node_dir is not None
    assert target.identity is not None
    try:
        async with connect(read_pointer(disk, target.node_dir), name="backup") as client:
            status = (await client.status())["groups"][store.name]
    except (OSError, TriologError, KeyError, ExceptionGroup):
        return Limit(_synced_mark(disk, store), "the synced mark of a node that did not answer")
    synced, acknowledged = status["synced_bytes"], status["acknowledged_bytes"]
    if synced and not acknowledged:
        raise TriologError(
            f"{target.identity.node} does not know yet what of {store.name} is acknowledged: try "
            "again while its master runs, or stop it"
        )
    return Limit(min(synced, acknowledged), "acknowledged and synced on a running node")


async def _seed(env: Env, command: arguments.Seed) -> int:
    plan, config = _seed_plan(env.disk, command)
    if config is not None:
        seed.check_fit(plan, config)
    seed.check_free(env.disk, plan)
    copied = await _drive(seed.seed_node(env.disk, plan))
    ends = {name: group.end_bytes for name, group in plan.groups}
    lines = [f"{name}: ends at {end}" for name, end in ends.items()]
    lines.append(
        f"{plan.node_dir}: node {plan.node} of {plan.cluster}, {copied} bytes; start it as a slave"
    )
    result = {"path": plan.node_dir, "cluster": plan.cluster, "node": plan.node, "ends": ends}
    await _answer(result, lines, json=command.json)
    return EXIT_OK


def _seed_plan(disk: Disk, command: arguments.Seed) -> tuple[seed.Seed, ClusterConfig | None]:
    """What is meant, and the cluster file if one was named. Raises: ConfigError."""
    source = find_target(disk, _absolute(command.folder))
    if source.manifest is None:
        raise ConfigError(f"{source.path}: expected a backup with a manifest, found none")
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
        node_dir, cluster = _absolute(text), source.manifest.cluster
        node = command.node or os.path.basename(node_dir)
        _check_name("--node", node)
    if not cluster:
        raise ConfigError("TARGET: expected CLUSTER.toml:NODE, for the backup names no cluster")
    if command.group is not None:
        _check_name("--group", command.group)
        if len(source.manifest.groups) != 1:
            raise ConfigError(f"--group: expected a backup of one group, found {source.top}")
    plan = seed.Seed(
        backup=source.top,
        manifest=source.manifest,
        node_dir=node_dir,
        cluster=cluster,
        node=node,
        group=command.group,
    )
    return plan, config


def _absolute(path: str) -> str:
    """Of the user's words. Raises: ConfigError: no path."""
    if not path or "\0" in path:
        raise ConfigError(f"DIR: expected a folder, found {path!r}")
    return os.path.abspath(path)


def _check_name(what: str, name: str) -> None:
    if re.fullmatch(NAME.pattern, name) is None:
        raise ConfigError(f"{what}: expected {NAME.expected}, found {name!r}")
