"""Turns the error that ended a run into lines for the user and an exit code, without a traceback
for a user's mistake.

Exit codes: 0 done, 1 ran and failed, 2 wrong usage or configuration.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

import attrs

from actors.config import ClusterConfig
from actors.config.check import ports
from actors.env.protocols import LockedByOther, LockedByUs, process_text
from actors.errors import NO_ROOM_CODES, ConfigError, CorruptLog, TriologError

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
EXIT_DAMAGED = 3
"""Only from a node's process to its parent: its log is damaged, so no restart helps."""
EXIT_NO_ROOM = 4
"""Only from a node's process to its parent: at present its disk has no room for its start."""
LINES_MAX = 20
"""A file with hundreds of mistakes is some other kind of file."""
CAUSES_MAX = 32
"""How many causes of an error are followed."""


@attrs.frozen
class Explanation:
    """The explanation of an error: lines for stderr, and the exit code.

    Attributes:
        child_code: the exit code of a node's process, for its parent.
    """

    lines: tuple[str, ...]
    exit_code: int
    child_code: int = EXIT_FAILED


def explain(error: BaseException, config: ClusterConfig | None = None) -> Explanation:
    """Explain an error: the user's mistakes in it, in its group or its causes; or else what
    failed.
    """
    leaves = list(_leaves(error))
    mistakes = [line for leaf in leaves for line in _mistakes(leaf, config)]
    if mistakes:
        return Explanation(_bounded(mistakes), EXIT_USAGE, EXIT_USAGE)
    failures = [_failure(leaf) for leaf in leaves if not _is_repeated(leaf, leaves)]
    return Explanation(_bounded(failures), EXIT_FAILED, _child_code(leaves))


def _child_code(leaves: list[BaseException]) -> int:
    if any(isinstance(leaf, CorruptLog) for leaf in leaves):
        return EXIT_DAMAGED
    codes = [leaf.errno for leaf in leaves if isinstance(leaf, OSError)]
    return EXIT_NO_ROOM if codes and set(codes) <= set(NO_ROOM_CODES) else EXIT_FAILED


def _bounded(lines: list[str]) -> tuple[str, ...]:
    unique = list(dict.fromkeys(" ".join(line.split()) for line in lines))
    kept = [f"triolog: {line}" for line in unique[:LINES_MAX]]
    if len(unique) > LINES_MAX:
        kept.append(f"triolog: and {len(unique) - LINES_MAX} more")
    return tuple(kept)


def _leaves(error: BaseException, groups: tuple[int, ...] = ()) -> Iterator[BaseException]:
    """Yield the errors inside groups, and the causes of each, of which the first is what really
    happened.

    Args:
        groups: the ids of the groups around the error; one that is also the cause of an error
            inside it is not opened again.
    """
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one, (*groups, id(error)))
        return
    if isinstance(error, ConfigError):
        yield error
        return
    cause, steps = error.__cause__, 0
    inner: list[BaseException] = []
    while cause is not None and steps < CAUSES_MAX:
        if isinstance(cause, BaseExceptionGroup):
            if id(cause) not in groups:
                inner += _leaves(cause, groups)
            break
        inner.append(cause)
        cause, steps = cause.__cause__, steps + 1
    if any(isinstance(one, ConfigError) for one in inner):
        yield from (one for one in inner if isinstance(one, ConfigError))
        return
    yield error
    yield from inner


def _mistakes(error: BaseException, config: ClusterConfig | None) -> list[str]:
    if isinstance(error, ConfigError):
        behind = error.__cause__
        if isinstance(behind, BaseExceptionGroup):  # a start that failed: the errors below say more
            found = [line for leaf in _leaves(behind) for line in _mistakes(leaf, config)]
        else:
            found = _mistakes(behind, config) if isinstance(behind, OSError) else []
        return found or [_with_file(line, config) for line in error.problems]
    file = config.path if config is not None else "cluster"
    if isinstance(error, LockedByOther | LockedByUs):
        who = process_text(error.pid) if isinstance(error, LockedByOther) else "this process"
        place = f" ({error.filename})" if error.filename else ""
        expected = "expected a free data directory"
        hint = "; `status` asks what runs there" if isinstance(error, LockedByOther) else ""
        return [f"{file}: key data_dir: {expected}, found a lock of {who}{place}{hint}"]
    if isinstance(error, OSError) and config is not None:
        return _listening_mistakes(error, config)
    return []


def _with_file(line: str, config: ClusterConfig | None) -> str:
    """Return a line with the cluster file's name: a node names only its directory."""
    if config is not None and line.startswith(config.data_dir + "/"):
        return f"{config.path}: key data_dir: {line}"
    return line


def _listening_mistakes(error: OSError, config: ClusterConfig) -> list[str]:
    """Return the mistakes of the file that a port in use, or an address of another machine,
    shows.
    """
    for use in ports(config):
        if f"{use.address}:{use.port}" not in str(error):
            continue
        if error.errno == errno.EADDRINUSE:
            where = f"{use.address}:{use.port}"
            return [f"{config.path}: key {use.key}: expected a free port, found {where} in use"]
        if error.errno == errno.EADDRNOTAVAIL:
            expected = "expected an address of this machine"
            return [f'{config.path}: key nodes.{use.node}: {expected}, found "{use.address}"']
    return []


def _is_repeated(error: BaseException, leaves: list[BaseException]) -> bool:
    """Whether it is a system error whose text is also part of an error of ours."""
    text = str(error)
    ours = (str(leaf) for leaf in leaves if isinstance(leaf, TriologError))
    return isinstance(error, OSError) and bool(text) and any(text in each for each in ours)


def _failure(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, TriologError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
