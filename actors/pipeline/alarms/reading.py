"""How far each log is read, what the next batch takes, and the time up to which all logs are read.

Spark drops what is older than its watermark, and its timers wait for the watermark. So all rows of
a batch have one time, the batch's: the time up to which every log is read. Then nothing is ever
late, however far apart the nodes' clocks are, or however old a log that appears later is; and a
timer fires only when all events that could answer it have been read.

- A batch takes files, one at a time, of the log that is furthest behind: a backlog of several logs
  is read as if they had grown together.
- A log with unread files holds the time back. A log without them does so until the newest event
  elsewhere is `silent_us` younger; then its node counts as dead, or its clock as wrong. `silent_us`
  has to be longer than a node keeps a file open, 10 s unless its configuration sets another time.
- A log that ends with NodeStopped does not hold the time back.
- A log begins anew if the file that was read last is gone and older ones are there, for retention
  takes the oldest first; or if it ends at another moment. Then all of its files are new. Those of
  an earlier generation that were left beside the new ones are no such case, and hide them.

  A clock that is set far ahead moves the time with it. Until the other clocks have reached that
  time, failures are reported at once.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence

import attrs

from actors.pipeline.alarms.event_logs import Ending, Published

_US_PER_MS = 1000


@attrs.frozen(kw_only=True)
class LogRead:
    """How far one log is read.

    Attributes:
        boot, first_seq: those of the last file that was taken.
        reached_us: the time of its last event; None if no file had an event.
        last: boot and seq of that event; None likewise, or if an older version read it.
        stopped: whether that event is NodeStopped.
        groups: the node's groups, as its last boot named them.
        lives: how often the log has begun anew.
    """

    boot: int
    first_seq: int
    reached_us: int | None = None
    stopped: bool = False
    groups: tuple[str, ...] = ()
    lives: int = 0
    last: tuple[int, int] | None = None

    @property
    def key(self) -> tuple[int, int]:
        return self.boot, self.first_seq


@attrs.frozen(kw_only=True)
class Position:
    """How far all logs are read.

    Attributes:
        time_ms: the time up to which each log is read; it rises with every batch.
        logs: by the log's name, how far it is read.
    """

    time_ms: int = 0
    logs: Mapping[str, LogRead] = attrs.field(factory=dict)


def left(files: Sequence[Published], read: LogRead | None) -> list[Published]:
    """Return the files of a log that are not read yet."""
    if read is None:
        return list(files)
    return list(files[bisect.bisect_right(files, read.key, key=_key) :])


def is_begun_anew(
    files: Sequence[Published], read: LogRead | None, look: Callable[[Published], Ending]
) -> bool:
    """Return whether another log has replaced the one that was read; see the module's text."""
    if read is None or not files:
        return False
    at = bisect.bisect_left(files, read.key, key=_key)
    if at == len(files) or files[at].key != read.key:
        return at > 0
    return look(files[at]).last_us not in (None, read.reached_us)


def _key(file: Published) -> tuple[int, int]:
    return file.key


def next_position(
    start: Position,
    files: Mapping[str, Sequence[Published]],
    look: Callable[[Published], Ending],
    *,
    files_max: int,
    silent_us: int,
) -> Position:
    """Return where the next batch ends; `start` if there is nothing to read.

    Args:
        files: by log, all its files, in order, also those that are read.
        look: reads how a file ends; it is called for the last read file of each log each time.
        files_max: how many files a batch may have.
    """
    logs = dict(start.logs)
    anew = {name for name in files if is_begun_anew(files[name], logs.get(name), look)}
    todo = {
        name: left(files[name], None if name in anew else logs.get(name)) for name in sorted(files)
    }
    for _ in range(files_max):
        waiting = [name for name in todo if todo[name]]
        if not waiting:
            break
        name = min(waiting, key=lambda each: _reached(logs.get(each)))
        file = todo[name].pop(0)
        logs[name] = _after(logs.get(name), file, look(file), is_anew=name in anew)
        anew.discard(name)
    if logs == start.logs:
        return start
    more = [name for name in todo if todo[name]]
    reached = _common_us(logs, more, silent_us) // _US_PER_MS
    return Position(time_ms=max(start.time_ms + 1, reached), logs=logs)


def _reached(read: LogRead | None) -> int:
    return -1 if read is None or read.reached_us is None else read.reached_us


def _after(before: LogRead | None, file: Published, end: Ending, *, is_anew: bool) -> LogRead:
    known = before.groups if before is not None else ()
    return LogRead(
        boot=file.boot,
        first_seq=file.first_seq,
        reached_us=end.last_us if end.last_us is not None else _reached(before),
        stopped=end.stopped,
        groups=known if end.groups is None else end.groups,
        lives=(before.lives if before is not None else 0) + is_anew,
        last=end.last if end.last is not None or before is None else before.last,
    )


def _common_us(logs: Mapping[str, LogRead], more: Sequence[str], silent_us: int) -> int:
    newest = max(map(_reached, logs.values()))
    times = [_reached(logs.get(name)) for name in more]
    for name, read in logs.items():
        if name not in more and not read.stopped:
            times.append(max(_reached(read), newest - silent_us))
    return max(0, min(times, default=newest))
