"""A cattrs converter that coerces nothing, and the walk from its errors to one line per problem.

Plain cattrs calls the target type: `fsync = "no"` becomes True and `"3"` becomes 3 (tried). Here
every scalar has a hook that only accepts TOML's own type; the one widening is an integer where a
number is expected. The limits are the attrs validators of the classes, applied while the key is
still known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin

import attrs
from cattrs import (
    AttributeValidationNote,
    BaseValidationError,
    ClassValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, override

from actors.config.bounds import (
    BROKER_ID,
    NAME,
    NO_KEY,
    PORT,
    EachNumber,
    Mismatch,
    Rule,
    address_of,
    host_of,
)
from actors.config.dledger import ControllerSettings
from actors.config.group import Group
from actors.config.kinds import KINDS
from actors.config.members import MasterNode, MemberNode, SlaveNode
from actors.config.model import ClusterConfig, DemoConfig, EventsConfig, FeedConfig
from actors.config.problems import NOTHING, KeyPath, Problem, describe, suggestion

MEMBER_EXPECTED = 'a node\'s name or { node = "NAME", kind = "java" }'
_KINDS: dict[type, str] = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a string",
}
_MEMBERS = (MasterNode, MemberNode, SlaveNode)
_ORIGIN = ("path", "broker_files")
"""Of a configuration: where it came from, which no file says."""
MODE_DEFAULT = "classic"
"""The mode of a group whose table does not name one."""
_SELF_NAME = "name "
"""Stands for a key `name` inside a group, which is none: the group's name is its table's key."""


def _scalar(kind: type) -> Callable[[Any, Any], Any]:
    def structure(value: Any, _: Any) -> Any:
        if type(value) is kind:
            return value
        if kind is float and type(value) is int:
            return value
        raise Mismatch(_KINDS[kind], value)

    return structure


def _literal(value: Any, kind: Any) -> Any:
    choices = get_args(kind)
    if not isinstance(value, str) or value not in choices:
        listed = " or ".join(describe(choice) for choice in choices)
        hint = suggestion(value, choices) if isinstance(value, str) else ""
        raise Mismatch(listed + hint, value)
    return value


def _note(error: Exception, index: Any, kind: Any) -> Exception:
    error.add_note(IterableValidationNote(f"at {index!r}", index, kind))
    return error


class _Strict:
    """Builds the hooks; one instance makes the one converter."""

    def __init__(self) -> None:
        self.converter = Converter(detailed_validation=True, forbid_extra_keys=True)
        origin: Callable[[Any], Any] = get_origin
        register = self.converter.register_structure_hook
        for scalar in _KINDS:
            register(scalar, _scalar(scalar))
        self.converter.register_structure_hook_func(lambda kind: origin(kind) is Literal, _literal)
        self.converter.register_structure_hook_func(lambda kind: origin(kind) is tuple, self._tuple)
        for cls in (*_MEMBERS, EventsConfig, FeedConfig, DemoConfig, ControllerSettings):
            register(cls, self._table(cls))
        self._group_tables: dict[type, Callable[[Any, Any], Any]] = {}
        register(
            ClusterConfig,
            self._table(
                ClusterConfig,
                nodes=self._hosts(host_of),
                groups=self._groups,
                name_servers=self._numbers(PORT),
                advertised=self._hosts(address_of),
                advertised_ha=self._hosts(address_of),
                broker_ids=self._numbers(BROKER_ID),
            ),
        )

    def _table(self, cls: type[Any], **hooks: Any) -> Callable[[Any, Any], Any]:
        """A hook for one class: a table, known keys only, each value with its limits."""
        attrs.resolve_types(cls)
        overrides: dict[str, Any] = {}
        for field in attrs.fields(cls):
            hook = hooks.get(field.name) or self._limited(field)
            # "master" in the file is the field master_node: attrs' alias is the key's name.
            name = field.alias if field.alias != field.name else None
            hidden = (cls is ClusterConfig and field.name in _ORIGIN) or field.metadata == NO_KEY
            overrides[field.name] = override(struct_hook=hook, rename=name, omit=hidden or None)
        build = make_dict_structure_fn(cls, self.converter, **overrides)
        return lambda value, kind: build(_require_table(value), kind)

    def _limited(self, field: attrs.Attribute[Any]) -> Callable[[Any, Any], Any]:
        kind, rule = field.type, field.validator
        if isinstance(rule, EachNumber):
            return self._numbers(rule.each)

        def structure(value: Any, _: Any) -> Any:
            try:
                result = self._member(value, kind)
            except Mismatch as error:
                raise Mismatch(expected_of(field) or error.expected, value) from None
            if rule is not None:
                rule(None, field, result)
            return float(result) if kind is float else result

        return structure

    def _member(self, value: Any, kind: Any) -> Any:
        if kind in _MEMBERS and isinstance(value, str):
            return kind(value)
        if kind in _MEMBERS and not isinstance(value, dict):
            raise Mismatch(MEMBER_EXPECTED, value)
        return self.converter.structure(value, kind)

    def _tuple(self, value: Any, kind: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise Mismatch("a list", value)
        item = get_args(kind)[0]
        return tuple(_each(enumerate(value), item, lambda _, one: self._member(one, item)))

    def _hosts(self, rule: Callable[[object], str]) -> Callable[[Any, Any], dict[str, str]]:
        """A table of one host for each node that it names."""

        def host(name: str, value: Any) -> tuple[str, str]:
            NAME(None, None, name)
            return name, rule(value)

        return lambda value, _: dict(_each(_require_table(value).items(), str, host))

    def _numbers(self, rule: Rule) -> Callable[[Any, Any], dict[str, int]]:
        """A table of one number for each node that it names."""

        def number(node: str, value: Any) -> tuple[str, int]:
            found: int = self.converter.structure(value, int)
            rule(None, None, found)
            return node, found

        return lambda value, _: dict(_each(_require_table(value).items(), int, number))

    def _groups(self, value: Any, _: Any) -> dict[str, Group]:
        def group(name: str, table: Any) -> tuple[str, Group]:
            NAME(None, None, name)
            return name, self._group(name, dict(_require_table(table)))

        return dict(_each(_require_table(value).items(), Group, group))

    def _group(self, name: str, table: dict[str, Any]) -> Group:
        mode = table.get("mode", MODE_DEFAULT)
        if not isinstance(mode, str) or mode not in KINDS:
            expected = " or ".join(describe(known) for known in KINDS)
            hint = suggestion(mode, KINDS) if isinstance(mode, str) else ""
            error = Mismatch(expected + hint, mode)
            error.add_note(AttributeValidationNote("mode", "mode", str))
            raise ClassValidationError("mode", [error], KINDS[MODE_DEFAULT].group)
        given = {_SELF_NAME: table.pop("name")} if "name" in table else {}
        cls = KINDS[mode].group
        if cls not in self._group_tables:
            self._group_tables[cls] = self._table(cls)
        group: Group = self._group_tables[cls]({**table, **given, "name": name}, cls)
        return group


def _require_table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Mismatch("a table", value)
    return value


def _each(items: Any, kind: Any, structure: Callable[[Any, Any], Any]) -> list[Any]:
    """Structure all items, and raise all errors together, each with the item's index."""
    errors: list[Exception] = []
    results: list[Any] = []
    for index, value in items:
        try:
            results.append(structure(index, value))
        except (Mismatch, BaseValidationError) as error:
            errors.append(_note(error, index, kind))
    if errors:
        raise IterableValidationError("items", errors, kind)
    return results


def expected_of(field: attrs.Attribute[Any]) -> str:
    """What a key expects, in words, from its validator or its type; "" if only the hook knows."""
    rule: Any = field.validator
    if rule is not None:
        inner: Rule = getattr(rule, "validator", rule)  # attrs' optional() wraps the rule
        return inner.expected
    if field.type is MasterNode:
        return MEMBER_EXPECTED
    if get_origin(field.type) is Mapping:
        return "a table"
    return _KINDS.get(field.type, "") if isinstance(field.type, type) else ""


def problems_of(error: BaseException, key: KeyPath = ()) -> list[Problem]:
    """Walk what the converter raised: one problem for each leaf."""
    match error:
        case ForbiddenExtraKeysError():
            return [_unknown(key, extra, error.cl) for extra in sorted(error.extra_fields)]
        case BaseValidationError():
            out: list[Problem] = []
            for one in error.exceptions:
                out += _noted(one, error, key)
            return out
        case Mismatch():
            return [Problem(key=key, expected=error.expected, found=describe(error.found))]
        case _:
            raise error


def _unknown(table: KeyPath, extra: str, cls: type[Any] | None) -> Problem:
    """A key that `cls` does not have; one that only groups of another mode have is called so."""
    key = (*table, extra.strip())
    here = next((mode for mode, kind in KINDS.items() if kind.group is cls), None)
    for mode, kind in KINDS.items():
        if here not in (None, mode) and extra in _keys_of(kind.group):
            return Problem(key, f"a key of {here} groups", f"one of {mode} groups")
    known = _keys_of(cls) if cls else set()
    return Problem(key, "a known key" + suggestion(extra, known), "an unknown one")


def _noted(error: Exception, parent: BaseException, key: KeyPath) -> list[Problem]:
    place: KeyPath = ()
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            cls = parent.cl if isinstance(parent, ClassValidationError) else None
            field = getattr(attrs.fields(cls), note.name, None) if cls else None
            place = (field.alias if field is not None else note.name,)
            if isinstance(error, KeyError) and field is not None:
                return [Problem((*key, *place), expected_of(field), describe(NOTHING))]
        elif isinstance(note, IterableValidationNote):
            place = (note.index,)
    return problems_of(error, (*key, *place))


def _keys_of(cls: type[Any]) -> set[str]:
    is_group = any(kind.group is cls for kind in KINDS.values())
    hidden = {"name"} if is_group else set(_ORIGIN) if cls is ClusterConfig else set()
    return {field.alias for field in attrs.fields(cls)} - hidden


def structure(table: Mapping[str, Any]) -> ClusterConfig:
    """Turn a parsed file into a configuration.

    Raises:
        BaseValidationError: for `problems_of`.
    """
    config: ClusterConfig = _STRICT.converter.structure(dict(table), ClusterConfig)
    return config


_STRICT = _Strict()
