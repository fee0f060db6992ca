"""What `triolog follow HOST:HA_PORT --into DIR` does.

Each copy has its tree and its folder; when one ends, the others go on. The first Ctrl-C or SIGTERM
is an ordered stop, and the second hurries it. On a terminal, the last rows show the status of the
copies. Otherwise a line is printed when a copy's state changes, and every LINE_S while it catches
up.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from functools import partial

import attrs
import trio

from actors.config.command_line import (
    OUTPUT,
    NoteHandler,
    OutputFailed,
    complain,
    folded,
    say,
    stop_signals,
    tell,
    width_of,
    with_output,
)
from actors.env import Env
from actors.env.protocols import Address
from actors.env.real import real_env
from actors.errors import ConfigError, CorruptLog, TriologError, leaves
from actors.follow.arguments import Follow, parse
from actors.follow.copy import Copy, CopyStatus, open_copy
from actors.follow.folder import take_folder
from actors.follow.lines import (
    AWAY,
    damage_text,
    final_text,
    json_of,
    late_text,
    line_of,
    nothing_text,
    start_text,
    state_of,
)
from actors.own_process import INTERRUPTED, file_size_limit_bytes, naming
from actors.readable import readable
from actors.trees.group_setup import CopyRules

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
LOOK_S = 0.5
LINE_S = 10.0
DERIVE_S = 60.0
SILENT_S = 20.0
"""The seconds without any bytes after which a connected master counts as unreachable. A stock
master ends a silent connection after the same time."""
SILENT = "the master says nothing"


def run_command_line(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    words = sys.argv[1:] if argv is None else argv
    with naming("FILE"):
        return with_output(partial(_main, words))


def _main(argv: Sequence[str]) -> int:
    try:
        return trio.run(run, parse(argv))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseExceptionGroup as group:
        if failed := group.subgroup(OutputFailed):
            raise next(leaves(failed)) from None
        raise
    except (TriologError, OSError) as error:
        return _explain(error)


def _explain(error: Exception) -> int:
    """Print one line for each problem, and return the exit code."""
    if isinstance(error, OutputFailed):
        raise error
    if not isinstance(error, ConfigError):
        text = damage_text(error) if isinstance(error, CorruptLog) else str(error)
        complain(f"triolog: {text}")
        return EXIT_FAILED
    for problem in error.problems:
        complain(f"triolog: {problem}")
    return EXIT_USAGE


async def run(follow: Follow) -> int:
    """Run all copies until each has ended, and return the exit code."""
    env, screen = real_env(), Screen(follow)
    runs = [
        Run(follow, master, folder, metadata, env, screen)
        for (master, folder), metadata in zip(follow.copies, follow.metadata, strict=True)
    ]
    handler, logger = NoteHandler(screen.note), logging.getLogger("triolog")
    logger.addHandler(handler)
    try:
        async with trio.open_nursery() as outer:
            await outer.start(_obey_signals, runs)
            async with trio.open_nursery() as nursery:
                for each in runs:
                    nursery.start_soon(each.run)
            screen.clear()
            outer.cancel_scope.cancel()
    finally:
        logger.removeHandler(handler)
    return max(each.code for each in runs)


async def _obey_signals(runs: Sequence[Run], *, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(*stop_signals()) as received:
        task_status.started()
        async for _ in received:
            for each in runs:
                each.end()


@attrs.define(eq=False)
class Run:
    """One copy, from its start to its end.

    Attributes:
        code: the exit code, once the copy has ended.
        target: with `--once`, the offset at which the copy ends, or None before the master's end
            is known.
    """

    follow: Follow
    master: Address
    folder: str
    metadata: Address | None
    env: Env
    screen: Screen
    code: int = EXIT_OK
    target: int | None = None
    _stop: trio.Event = attrs.field(factory=trio.Event)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _copy: Copy | None = None  # while it runs

    def end(self) -> None:
        """Stop the copy in order, and at a second call at once."""
        if self._copy is None:
            self._scope.cancel()  # it is being opened, or has ended
        elif self._stop.is_set():
            self.code = INTERRUPTED
            self._copy.system.hurry()
        self._stop.set()

    async def run(self) -> None:
        """Run the copy, and set `code`."""
        with self._scope:
            try:
                code = await self._run()
                self.code = self.code or code
            except* (TriologError, OSError) as group:
                self.code = max([self._failed(error) for error in leaves(group)])
        self._copy = None
        if self._scope.cancelled_caught:
            self.code = self._stopped()

    def _failed(self, error: BaseException) -> int:
        assert isinstance(error, TriologError | OSError)
        self.screen.clear()
        return _explain(error)

    async def _run(self) -> int:
        limit_bytes = file_size_limit_bytes()
        shape = self.follow.shape
        taken = take_folder(self.env.disk, self.folder, self.master, shape, limit_bytes)
        self.screen.note(start_text(self.master, self.folder, passive=self.follow.passive))
        rules = CopyRules(
            passive=self.follow.passive,
            bytes_per_s=self.follow.bytes_per_s,
            metadata=self.metadata,
        )
        self.screen.show(self, None, self.env.wall_clock_ms())
        async with open_copy(self.env, taken, self.master, rules) as copy:
            self._copy = copy
            return await self._watch(copy, was_empty=taken.was_empty)

    async def _watch(self, copy: Copy, *, was_empty: bool) -> int:
        """Watch a copy until it ends or is to end, and return the exit code.

        A master that takes connections and sends nothing counts as unreachable as well.
        """
        away_s, before = trio.current_time(), None
        while True:
            status = await copy.status()
            now_s = trio.current_time()
            self.screen.show(self, status, self.env.wall_clock_ms())
            if status is not None and was_empty and status.end > status.begin:
                was_empty = False
                if status.begin:
                    self.screen.note(f"{self.folder}: {late_text(status)}")
            if status is not None and status.final is not None:
                self.screen.note(f"{self.folder}: {final_text(status)}")
                return EXIT_FAILED
            if status is not None and status.another:
                self.screen.note(f"{self.folder}: {status.another}")
                return EXIT_FAILED
            has_log = self.follow.once and self._has_all(status)
            lacks = "" if status is None else status.metadata or ""
            if has_log and status is not None and status.unwritten:
                lacks = lacks or "the metadata is not in its files yet"
            if has_log and not lacks:
                if status is not None and status.good < (self.target or 0):
                    self.screen.note(f"{self.folder}: {nothing_text(status)}")
                await self._derive(copy, status)
                self.screen.show(self, status, self.env.wall_clock_ms(), ends=True)
                return EXIT_OK
            is_here = status is None or bool(status.no_room) or status.moved(before)
            before, wait_s = status, self.follow.wait_s
            if status is not None and status.connected and not has_log:
                wait_s = max(wait_s, SILENT_S)
            if is_here and not has_log:
                away_s = now_s
            elif self.follow.once and now_s - away_s >= wait_s:
                assert status is not None
                self.screen.note(f"{self.folder}: {lacks if has_log else status.error or SILENT}")
                return EXIT_FAILED
            if self._stop.is_set():
                await self._derive(copy, status)
                return self._stopped()
            with trio.move_on_after(LOOK_S):
                await self._stop.wait()

    async def _derive(self, copy: Copy, status: CopyStatus | None) -> None:
        """Wait until the queues have all units of the log, at most DERIVE_S.

        A broker that is started on the copy derives only units behind the furthest one of all
        queues. Queues that lack earlier ones, as they can after a kill, would never get them.
        """
        wanted = 0 if status is None else status.good
        with trio.move_on_after(DERIVE_S):
            while status is not None and status.dispatched < wanted and not status.no_room:
                await trio.sleep(LOOK_S / 10)
                status = await copy.status()

    def _has_all(self, status: CopyStatus | None) -> bool:
        """Return whether the copy has all that the master had when its end was first seen.

        An empty copy may have nothing, see `nothing_text`.
        """
        if status is None:
            return False
        if self.target is None:
            self.target = status.master_end
        if self.target is None:
            return False
        is_empty = status.end == status.begin and status.nothing_sent
        return status.good >= self.target or is_empty

    def _stopped(self) -> int:
        if not self.follow.once:
            return EXIT_OK
        self.screen.note(f"{self.folder}: stopped before it had all; the same command goes on")
        return EXIT_FAILED


@attrs.define
class Screen:
    """Where the status of the copies is shown: the last rows of a terminal, or lines.

    Attributes:
        shown: the line about each copy, by its folder.
    """

    follow: Follow
    shown: dict[str, str] = attrs.field(factory=dict)
    _said: dict[str, tuple[str, float]] = attrs.field(factory=dict)  # a copy's last state, and when
    _rows: int = 0

    @property
    def _draws(self) -> bool:
        return not self.follow.json and os.isatty(OUTPUT)

    def note(self, text: str) -> None:
        """Print a message above the status."""
        self.clear()
        complain(f"triolog: {text}")

    def show(self, run: Run, status: CopyStatus | None, now_ms: int, *, ends: bool = False) -> None:
        """Show the status of a copy.

        Without a terminal, a line is printed only if the state changed, every LINE_S while the copy
        is not yet following, or if `ends` is true.
        """
        line = line_of(status, now_ms)
        name = f"{os.path.basename(run.folder)}: " if len(self.follow.copies) > 1 else ""
        self.shown[run.folder] = name + line
        if self._draws:
            self._draw()
            return
        now_s, state = trio.current_time(), state_of(status)
        before, said_s = self._said.get(run.folder, ("", 0.0))
        moves = state in ("catches up", "waits for room", AWAY) or self.follow.json
        if state == before and not ends and not (moves and now_s - said_s >= LINE_S):
            return
        self._said[run.folder] = (state, now_s)
        if self.follow.json:
            say(json_of(status, run.master, run.folder, now_ms))
        else:
            tell(name + line)

    def _draw(self) -> None:
        width = (width_of(OUTPUT) or 80) - 1
        self.clear()
        rows = [
            row[start : start + width]  # a longer word than a row is broken anywhere
            for line in self.shown.values()
            for row in folded(readable(line), width).split("\n")
            for start in range(0, len(row), width)
        ]
        sys.stdout.write("\n".join(rows))
        sys.stdout.flush()
        self._rows = len(rows)

    def clear(self) -> None:
        """Remove the drawn status from the terminal."""
        if self._rows:
            up = f"\x1b[{self._rows - 1}A" if self._rows > 1 else ""
            sys.stdout.write(f"\r{up}\x1b[J")
            sys.stdout.flush()
            self._rows = 0
