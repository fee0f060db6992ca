"""The settings of a group on one node that an operator changes while it runs.

Upstream: apache/rocketmq, broker/.../processor/AdminBrokerProcessor.java (updateBrokerConfig) and
common/.../Configuration.java, 5.3.3; broker.md 6.2.

The file `settings.json` in the store root has the changed settings by upstream's names, each with
the value that the cluster file, or broker.conf, had when it was changed. If that file has another
value at a later start, the file's value counts again.

Differs: only the keys of ACTING can be changed, and each change takes effect at once. All others
are refused, with the key of the file in which to change them. Upstream accepts every key for which
it has a field, even if the field has no effect, and ignores the rest.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import attrs

from actors.config import CommitLogGroup
from actors.config.bounds import Mismatch
from actors.config.brokerconf.groups import PROPERTIES
from actors.config.brokerconf.keys import KEYS, Key
from actors.config.brokerconf.values import Integer
from actors.env.protocols import Disk
from actors.storage.files.replacing import replace_file, settle_spares
from actors.storage.files.whole_files import read_bytes
from actors.storage.node.identity import UNREADABLE, json_object, unlike

PERMISSION: Final = Key("brokerPermission", Integer(2, 6, "(2 write, 4 read)", step=2), new="6")
"""The permissions that the node has: topics are registered with no others than these."""
PERMISSION_ALL: Final = int(PERMISSION.new)
ACTING: Final[Mapping[str, Key]] = {PERMISSION.name: PERMISSION} | {
    name: KEYS[name] for name in ("deleteWhen", "diskMaxUsedSpaceRatio", "fileReservedTime")
}
_FILE_BYTES_MAX: Final = 64 << 10
_MS_MAX: Final = 1 << 53
CHANGE_BYTES_MAX: Final = 64 << 10
"""The most bytes of a request that changes settings."""
_PROBLEMS_MAX: Final = 8
"""How many of a request's settings that cannot be changed are named."""
_KEYS_OF: Final = {name: key for key, name in PROPERTIES.items()}
_LOGGER = logging.getLogger("triolog.broker")


class NotChanged(ValueError):
    """A change was refused, and nothing was changed. The text is one line for people."""


@attrs.frozen
class _Changed:
    """A changed setting.

    Attributes:
        value: the new value, as text.
        instead_of: the value in the file at that time, as text.
        at_ms: when it was changed, in ms since 1970.
    """

    value: str
    instead_of: str
    at_ms: int


def _read(name: str, row: Any) -> _Changed:
    """Read a row of the file. Raises: what is in `identity.UNREADABLE`."""
    if name not in ACTING:
        raise ValueError(f"{name} is none of the settings that can be changed")
    value, instead_of, at_ms = row["value"], row["instead_of"], row["at_ms"]
    ACTING[name].kind.read(value)
    if type(at_ms) is not int or not 0 <= at_ms < _MS_MAX:
        raise ValueError(f"{name}: at_ms is {at_ms!r}")
    return _Changed(value, instead_of, at_ms)


@attrs.define(kw_only=True)
class ChangedSettings:
    """The changed settings of one group; `load` reads them from their file.

    Attributes:
        path: the path of the file.
        file_group: the group as the cluster file has it.
        source: the name of the group's table in the cluster file, for people.
    """

    disk: Disk
    path: str
    file_group: CommitLogGroup
    source: str
    now_ms: Callable[[], int]
    _changed: dict[str, _Changed] = attrs.field(init=False, factory=dict)

    def load(self) -> None:
        """Read the settings that were saved. If the file is damaged none counts, with a warning.

        A file in which a setting cannot be understood is damaged, too.
        """
        if not self.disk.has_name(self.path):
            return
        found: dict[str, _Changed] = {}
        try:
            rows = json_object(read_bytes(self.disk, self.path, _FILE_BYTES_MAX))
            for name, row in rows.items():
                found[name] = _read(name, row)
        except (OSError, *UNREADABLE) as error:
            why = str(error) if isinstance(error, OSError) else unlike(error)
            _LOGGER.warning("%s: what updateBrokerConfig changed is lost: %s", self.path, why)
            return
        for name, each in found.items():
            if each.instead_of == (now := self._in_file(name)):
                self._changed[name] = each
            else:
                text = "%s: key %s: %s counts, not %s by updateBrokerConfig, as it said %s then"
                _LOGGER.warning(text, self.source, name, now, each.value, each.instead_of)

    @property
    def group(self) -> CommitLogGroup:
        """The group with the changed settings."""
        fields = {
            ACTING[name].sets: ACTING[name].convert(ACTING[name].kind.read(each.value))
            for name, each in self._changed.items()
            if ACTING[name].sets
        }
        if "delete_when_hours" in fields:
            fields["delete_when_hours"] = tuple(fields["delete_when_hours"])
        return attrs.evolve(self.file_group, **fields)

    @property
    def permission(self) -> int:
        """The present value of brokerPermission."""
        return int(self.values[PERMISSION.name])

    @property
    def permission_ms(self) -> int:
        """The time in ms since 1970 at which brokerPermission was changed; 0 if it never was."""
        changed = self._changed.get(PERMISSION.name)
        return 0 if changed is None else changed.at_ms

    @property
    def values(self) -> dict[str, str]:
        """The present values of the keys of ACTING."""
        changed = self._changed
        return {
            name: changed[name].value if name in changed else self._in_file(name) for name in ACTING
        }

    def texts(self) -> tuple[str, ...]:
        """Return the settings whose values differ from those in the cluster file, for people."""
        return tuple(
            f"{name} {each.value} by updateBrokerConfig ({each.instead_of} in the file)"
            for name, each in sorted(self._changed.items())
            if each.value != each.instead_of
        )

    def change(self, wanted: Mapping[str, str]) -> None:
        """Change settings; they are on the disk when this returns.

        Args:
            wanted: the new values by upstream's names.

        Raises:
            NotChanged: one of them cannot be changed, or not to this value.
            OSError: the disk failed.
        """
        problems = [line for name, text in wanted.items() if (line := self._problem(name, text))]
        if problems or not wanted:
            left = len(problems) - _PROBLEMS_MAX
            more = [f"{left} more"] if left > 0 else []
            raise NotChanged("; ".join(problems[:_PROBLEMS_MAX] + more) or "nothing to change")
        before = self._changed
        at_ms = min(max(self.now_ms(), self.permission_ms + 1), _MS_MAX - 1)
        self._changed = before | {
            name: _Changed(text.strip(), self._in_file(name), at_ms)
            for name, text in wanted.items()
        }
        try:
            self._check_together()
            self._save()
        except (OSError, NotChanged):
            self._changed = before
            raise
        for name, text in wanted.items():
            _LOGGER.warning("%s: %s is %s now, by updateBrokerConfig", self.source, name, text)

    def _problem(self, name: str, text: str) -> str:
        if name in ACTING:
            with suppress(Mismatch):
                ACTING[name].kind.read(text)
                return ""
            return f"{name}: expected {ACTING[name].kind.expected}, found {text!r}"
        if name in _KEYS_OF:
            return f"{name}: change {_KEYS_OF[name]} of {self.source}, and start again"
        if name in KEYS:
            return f"{name}: change it in the file of {self.source}, and start again"
        return f"{name}: it means nothing here"

    def _check_together(self) -> None:
        group = self.group
        if group.disk_max_used_ratio > group.disk_clean_forcibly_ratio:
            most = f"{group.disk_clean_forcibly_ratio:.0%}, disk_clean_forcibly_ratio"
            raise NotChanged(f"diskMaxUsedSpaceRatio: expected at most {most} of {self.source}")

    def _save(self) -> None:
        rows = {name: attrs.asdict(each) for name, each in self._changed.items()}
        settle_spares(self.disk, self.path.rpartition("/")[0])
        replace_file(self.disk, self.path, json.dumps(rows, indent=1).encode() + b"\n")

    def _in_file(self, name: str) -> str:
        group = self.file_group
        return {
            PERMISSION.name: PERMISSION.new,
            "deleteWhen": ";".join(f"{hour:02}" for hour in group.delete_when_hours),
            "diskMaxUsedSpaceRatio": str(round(100 * group.disk_max_used_ratio)),
            "fileReservedTime": str(group.file_reserved_time_h),
        }[name]
