"""A run as a file that can be checked in: everything that is drawn from a seed, and the script.

The format is TOML. A value that is left out is as quiet as it can be: no skew, the default network
and disk, no tells that yield, tasks in the order in which they became runnable. `seed` decides
everything that the file does not fix.

    mode = "classic"                # which kind of groups; left out: this one
    expect = "LogsEqual"            # the checker that objected; "": none may object
    seed = "17"
    nodes = 3
    duration_s = 12.0
    policy = "in order"
    script = [
        "at 3.5 power_loss n1 for 0.5",
    ]
    [settings]                      # of the group
    copies = 2
    [network]                       # [disk], [load], [skews_ms] likewise
"""

from __future__ import annotations

import tomllib
from typing import Any, Final

import attrs

from actors.sim.actions.script import dump_fault, parse_fault
from actors.sim.disk import DiskOptions
from actors.sim.network import NetworkOptions
from actors.sim.plan import FAULTS_S, Plan
from actors.sim.running import PLANS
from actors.sim.workload import WorkloadOptions

NO_LIMIT: Final = "none"
"""How a missing bandwidth limit is written; TOML has no null."""


def dump_plan(plan: Plan, *, expect: str = "", comment: str = "") -> str:
    """Return the text of a run's file.

    Args:
        expect: the checker that objects; "": none.
        comment: lines for a person, which are put first.
    """
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += [
        f"mode = {_value(plan.mode)}",
        f"expect = {_value(expect)}",
        f"seed = {_value(plan.seed)}",
        f"nodes = {plan.nodes}",
        f"duration_s = {plan.duration_s!r}",
        f"policy = {_value(plan.policy)}",
        f"tell_yields = {plan.tell_yields!r}",
        "script = [",
        *(f"    {_value(dump_fault(fault))}," for fault in plan.script),
        "]",
    ]
    for name, default in _TABLES.items():
        given = getattr(plan, name)
        values = given if isinstance(given, dict) else attrs.asdict(given)
        ordinary = {} if default is None else attrs.asdict(default)
        fields = [
            f"{key} = {_value(value)}"
            for key, value in values.items()
            if key not in ordinary or ordinary[key] != value
        ]
        if fields:
            lines += ["", f"[{name}]", *fields]
    return "\n".join(lines) + "\n"


def load_plan(text: str) -> tuple[Plan, str]:
    """Return the plan in a file's text, and the checker that is expected to object.

    Raises: ValueError: the text is not a run's file.
    """
    try:
        found = tomllib.loads(text)
        plan_class = PLANS[str(found.pop("mode", "classic"))]
        expect = str(found.pop("expect", ""))
        tables = {name: _plain(found.pop(name, {})) for name in _TABLES}
        plan = plan_class(
            seed=str(found.pop("seed")),
            nodes=int(found.pop("nodes")),
            settings=tables["settings"],
            skews_ms={name: int(skew) for name, skew in tables["skews_ms"].items()},
            network=NetworkOptions(**tables["network"]),
            disk=DiskOptions(**tables["disk"]),
            policy=str(found.pop("policy", "in order")),
            tell_yields=float(found.pop("tell_yields", 0.0)),
            load=WorkloadOptions(**tables["load"]),
            script=tuple(map(parse_fault, found.pop("script"))),
            duration_s=float(found.pop("duration_s", FAULTS_S)),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no script of a run: {error!r}") from error
    if found:
        raise ValueError(f"no script of a run: it says {', '.join(found)}")
    return plan, expect


_TABLES: Final[dict[str, Any]] = {
    "settings": None,
    "skews_ms": None,
    "network": NetworkOptions(),
    "disk": DiskOptions(),
    "load": WorkloadOptions(),
}


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return f'"{NO_LIMIT}"'
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case _:
            text = str(value)
            assert '"' not in text, text
            assert "\\" not in text, text
            return f'"{text}"'


def _plain(table: dict[str, Any]) -> dict[str, Any]:
    values = {key: None if value == NO_LIMIT else value for key, value in table.items()}
    return {key: tuple(it) if isinstance(it, list) else it for key, it in values.items()}
