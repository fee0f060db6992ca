"""One properties file: every key that it gives, read by its kind, and what is wrong with it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from actors.config.bounds import CONFIG_BYTES_MAX, Mismatch
from actors.config.brokerconf.keys import KEYS, OLD_NAMES, Key
from actors.config.brokerconf.properties import Entry, parse_properties
from actors.config.problems import describe
from actors.errors import ConfigError

DEFAULT_FILES = ("broker.properties", os.path.join("conf", "broker.conf"))
"""Where a file is looked for that is not named, below the working directory."""

NEAR = 0.85
"""How like a known key another one is that is taken for a slip."""
UNKNOWN_NAMED_MAX = 10


@attrs.frozen(kw_only=True)
class Given:
    """What a file says for one key that we know.

    Attributes:
        key: which.
        value: the value, as `key.kind` has read it.
        text: the value's text in the file.
        where: `FILE:LINE`.
    """

    key: Key
    value: Any
    text: str
    where: str

    def problem(self, expected: str, found: str | None = None) -> str:
        """The one line that the user reads. Args: found: in words; None: the file's own text."""
        found = describe(self.text) if found is None else found
        return f"{self.where}: key {self.key.name}: expected {expected}, found {found}"

    def note(self, text: str) -> str:
        """One line that is no mistake."""
        return f"{self.where}: key {self.key.name}: {text}"


@attrs.frozen(kw_only=True)
class BrokerFile:
    """One file.

    Attributes:
        path: the file's path, as the user typed it.
        given: the values by key, in the file's order.
        unknown: the keys that mean nothing here, each with the one that it is near to.
        notes: keys that come again, and unknown ones.
    """

    path: str
    given: Mapping[str, Given]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]

    def value(self, name: str, default: Any = None) -> Any:
        """What the file says for a key, or the default."""
        found = self.given.get(name)
        return default if found is None else found.value

    def problem(self, name: str, expected: str, found: str = "nothing") -> str:
        """One line about a key that the file may not have."""
        given = self.given.get(name)
        if given is not None:
            return given.problem(expected)
        return f"{self.path}: key {name}: expected {expected}, found {found}"


def found_files(named: Sequence[str | None]) -> tuple[str, ...]:
    """The files that `--broker-conf` names; None: the first of DEFAULT_FILES that is there.

    Raises: ConfigError: none of them is, or one is named twice.
    """
    files = tuple(_default_file() if name is None else name for name in named)
    for number, file in enumerate(files):
        if os.path.abspath(file) in map(os.path.abspath, files[:number]):
            raise ConfigError(f"--broker-conf: expected each file once, found {file} again")
    return files


def _default_file() -> str:
    for file in DEFAULT_FILES:
        if os.path.exists(file):
            return file
    raise ConfigError(
        f"--broker-conf: expected a FILE, or {' or '.join(DEFAULT_FILES)}, found none"
    )


def read_file(path: str) -> BrokerFile:
    """Raises: ConfigError: one line for each value that is not what its key expects."""
    return parse_file(_bytes_of(path), path)


def parse_file(data: bytes, path: str) -> BrokerFile:
    """As `read_file`, of what was read."""
    entries = parse_properties(data, path)
    problems: list[str] = []
    given: dict[str, Given] = {}
    for name, entry in {_name(entry): entry for entry in entries if _name(entry) in KEYS}.items():
        key, where = KEYS[name], f"{path}:{entry.line}"
        try:
            value = key.kind.read(entry.value)
        except Mismatch as error:
            line = f"{where}: key {entry.key}: expected {error.expected}"
            problems.append(f"{line}, found {describe(entry.value)}")
        else:
            given[name] = Given(key=key, value=value, text=entry.value, where=where)
    if problems:
        raise ConfigError(tuple(problems))
    unknown = tuple(_unknown(entries))
    notes = (*_repeated(entries, path), *_about_unknown(unknown, path))
    return BrokerFile(path=path, given=given, unknown=unknown, notes=notes)


def _name(entry: Entry) -> str:
    return OLD_NAMES.get(entry.key, entry.key)


def _repeated(entries: Sequence[Entry], path: str) -> Iterator[str]:
    lines: dict[str, list[int]] = {}
    for entry in entries:
        lines.setdefault(_name(entry), []).append(entry.line)
    for name, at in lines.items():
        if len(at) > 1:
            before = ", ".join(map(str, at[:-1]))
            yield f"{path}:{at[-1]}: key {_shown(name)}: counts; given before, line {before}"


def _unknown(entries: Sequence[Entry]) -> Iterator[str]:
    for name in dict.fromkeys(entry.key for entry in entries if _name(entry) not in KEYS):
        near = difflib.get_close_matches(name, KEYS, n=1, cutoff=NEAR)
        yield _shown(name) + (f" (did you mean {near[0]}?)" if near else "")


def _about_unknown(unknown: tuple[str, ...], path: str) -> Iterator[str]:
    """One line, also for the file of a broker that was changed while it ran: it writes down all
    that it could be given.
    """
    named = unknown[:UNKNOWN_NAMED_MAX]
    named += tuple(one for one in unknown[len(named) :] if one.endswith(")"))
    if unknown:
        more = len(unknown) - len(named)
        others = f" and {more} more, which `check` names" * (more > 0)
        yield f"{path}: keys that mean nothing here: {', '.join(named)}{others}"


def _shown(name: str) -> str:
    return name if name.isprintable() and name else describe(name)


def _bytes_of(path: str) -> bytes:
    try:
        with open(path, "rb") as source:
            data = source.read(CONFIG_BYTES_MAX + 1)
    except (FileNotFoundError, ValueError):
        raise ConfigError(
            f"{_shown(path)}: expected a broker's properties, found no such file"
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{path}: expected a broker's properties, found {reason}") from None
    if len(data) > CONFIG_BYTES_MAX:
        raise ConfigError(f"{path}: expected at most {CONFIG_BYTES_MAX} bytes, found more")
    return data
