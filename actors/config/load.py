"""Read a cluster file: TOML, then the types and limits of every key, then how they fit together.

All problems of the file are collected, so that a user corrects it once. Paths in the file are
relative to the file.
"""

from __future__ import annotations

import errno
import os
import sys
import tomllib
from collections.abc import Mapping
from typing import Any

import attrs
from cattrs import BaseValidationError

from actors.config import controllers, semantics, strict
from actors.config.bounds import CONFIG_BYTES_MAX
from actors.config.model import ClusterConfig, DemoConfig
from actors.config.problems import KeyPath, Problem, describe
from actors.errors import ConfigError


def load(path: str | os.PathLike[str]) -> ClusterConfig:
    """Read and check a cluster file.

    Args:
        path: the file's path; relative to the working directory.

    Raises:
        ConfigError: with one line for each problem: file, key, expected, found. The user's fault.
    """
    file = os.fspath(path)
    return loads(_read(file), file)


def loads(text: str, path: str) -> ClusterConfig:
    """The configuration in a text, as `load`.

    Args:
        path: names the file in problems; relative paths in the text are relative to its folder.
    """
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{path}: expected TOML, found tables nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: expected TOML, found {_one_line(error)}") from None
    except ValueError:
        raise ConfigError(f"{path}: expected TOML, found a number with too many digits") from None
    table, found = controllers.as_group(table)
    try:
        config = strict.structure(table)
    except BaseValidationError as error:
        found += strict.problems_of(error)
        found += _semantic_problems_of_the_rest(table, found)
    else:
        found += semantics.problems(config) + _names_in_another_encoding(config)
    if not found:
        config = _absolute(config, path)
        found = _names_in_no_encoding(config)
    if found:
        raise ConfigError(tuple(controllers.as_written(each).line(path) for each in found))
    return config


def validate(config: ClusterConfig) -> None:
    """Check a configuration that a program made; the classes have checked each value already.

    Raises:
        ConfigError: as `load`.
    """
    found = semantics.problems(config)
    if found:
        path = config.path or "<config>"
        raise ConfigError(tuple(controllers.as_written(each).line(path) for each in found))


def _read(file: str) -> str:
    try:
        with open(file, "rb") as source:
            data = source.read(CONFIG_BYTES_MAX + 1)
    except FileNotFoundError:
        raise ConfigError(
            f"{_printable(file)}: expected a cluster file, found no such file"
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.ENXIO:
            reason = "a node's socket: only the client takes it"
        raise ConfigError(f"{file}: expected a cluster file, found {reason.lower()}") from None
    except ValueError:
        raise ConfigError(
            f"{_printable(file)}: expected a cluster file, found no such file"
        ) from None
    if len(data) > CONFIG_BYTES_MAX:
        raise ConfigError(f"{file}: expected at most {CONFIG_BYTES_MAX} bytes, found more")
    try:
        return data.decode("utf-8-sig")  # some editors begin a file with a mark of its encoding
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: expected UTF-8, found other bytes at {error.start}") from None


def _names_in_another_encoding(config: ClusterConfig) -> list[Problem]:
    """Names of files that this process would write as other bytes than the file has, or not at all.

    Its locale says how. Found by one locale and not by the next, a node's data would be taken for
    lost.
    """
    encoding = sys.getfilesystemencoding()
    names: dict[KeyPath, str] = {("data_dir",): config.data_dir}
    if config.demo.feed is not None:
        names["demo", "feed", "file"] = config.demo.feed.file
    return [
        Problem(key, _in_ascii(), describe(name))
        for key, name in names.items()
        if encoding != "utf-8" and not name.isascii()
    ]


def _in_ascii() -> str:
    encoding = sys.getfilesystemencoding()
    return f"a name in ASCII while the locale's encoding is {encoding} (or set LC_ALL=C.UTF-8)"


def _names_in_no_encoding(config: ClusterConfig) -> list[Problem]:
    """A folder whose bytes this process has no characters for: nodes could not write of it."""
    try:
        config.data_dir.encode()
    except UnicodeEncodeError:
        return [Problem(("data_dir",), _in_ascii(), describe(config.data_dir))]
    return []


def _printable(file: str) -> str:
    return file if file.isprintable() else describe(file)


def _one_line(error: ValueError) -> str:
    return " ".join(str(error).split())


def _semantic_problems_of_the_rest(table: dict[str, Any], found: list[Problem]) -> list[Problem]:
    """Look at how the parts fit even when some keys are wrong: once without the wrong keys.

    What depends on a wrong key, or on a default in place of one that may have been mistyped, is not
    reported.
    """
    rest: Any = table
    for key in sorted((problem.key for problem in found), key=_for_removal, reverse=True):
        rest = _without(rest, key)
    try:
        config = strict.structure(rest)
    except BaseValidationError:
        return []
    return [
        problem
        for problem in semantics.problems(config)
        if all(
            _present(rest, key) and not any(one.key[: len(key)] == key for one in found)
            for key in (problem.key, *problem.depends_on)
        )
    ]


def _for_removal(key: KeyPath) -> tuple[tuple[int, int, str], ...]:
    """Sorts list positions as numbers, so that later ones can be removed first."""
    return tuple((0, p, "") if isinstance(p, int) else (1, 0, p) for p in key)


def _without(table: Any, key: KeyPath) -> Any:
    head, rest = key[0], key[1:]
    if isinstance(table, list) and isinstance(head, int) and head < len(table):
        kept = [_without(table[head], rest)] if rest else []
        return [*table[:head], *kept, *table[head + 1 :]]
    if isinstance(table, Mapping) and head in table:
        copy = dict(table)
        if rest:
            copy[str(head)] = _without(copy[str(head)], rest)
        else:
            del copy[str(head)]
        return copy
    return table


def _present(table: Any, key: KeyPath) -> bool:
    for part in key:
        in_list = isinstance(table, list) and isinstance(part, int) and part < len(table)
        if not in_list and not (isinstance(table, Mapping) and part in table):
            return False
        table = table[part]
    return True


def _absolute(config: ClusterConfig, path: str) -> ClusterConfig:
    folder = os.path.dirname(os.path.abspath(path))

    def resolve(name: str) -> str:
        return os.path.normpath(os.path.join(folder, name))

    feed = config.demo.feed
    if feed is not None:
        feed = attrs.evolve(feed, file=resolve(feed.file))
    return attrs.evolve(
        config,
        data_dir=resolve(config.data_dir),
        demo=DemoConfig(feed=feed),
        path=os.path.abspath(path),
    )
