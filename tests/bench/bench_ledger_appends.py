"""The appends of `bench_ledger.py`: who takes part in which table, the rounds, the bare cost."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import bench_ledger_goals as goals
from bench_kit import Figures, compiled, settle
from bench_ledger_groups import Group, JavaGroup, OurGroup
from bench_ledger_rivals import RivalGroup

ENTRY_BYTES = 256
COLUMNS = ("k_per_s", "p50_ms", "p99_ms", "leader_us", "follower_us", "client_us", "refused")
FIRST_S = 5.0
"""Load before anything is measured, for Java, which gets faster with time."""
WARM_S = 1.0
"""Load of each contender before the rounds of each table."""
ROUND_TRIPS = 1000
PRODUCER = "producer"
Shape = int | str
"""So many outstanding, or one producer with the room that it has by default."""
Figure = dict[str, float]
Bare = Callable[[], Figure]


def shape_of(text: str) -> Shape:
    """For argparse."""
    return int(text) if text != PRODUCER else text


@attrs.frozen
class Row:
    """One contender of the tables.

    Attributes:
        group: whose turn it is.
        run: measures so many outstanding for so many seconds.
        shapes: whether it takes part in a table.
        inside: its callers are part of the leader's process.
    """

    group: str
    run: Callable[[Shape, float], Figure]
    shapes: Callable[[Shape], bool]
    inside: bool


def counted(shape: Shape) -> bool:
    return shape != PRODUCER


def pipelined(shape: Shape) -> bool:
    return shape in goals.PIPELINED


def rows_of(found: dict[str, Group], size: int = ENTRY_BYTES) -> dict[str, Row]:
    """Everyone, with entries of so many bytes."""
    ours = found["ours"]
    assert isinstance(ours, OurGroup)
    rows: dict[str, Row] = {}
    for name, interface in (("ours", ours.inside), ("ours, client", ours.over_api)):
        inside = name == "ours"
        rows[name] = Row("ours", tasks_or_producer(interface, size), lambda _: True, inside)
        rows[f"{name}, pipelined"] = Row("ours", producer(interface, size), pipelined, inside)
    rows["ours, wire"] = Row("ours", over_wire(ours, size), counted, inside=False)
    for name, group in found.items():
        if name == "ours":
            continue
        inside = isinstance(group, RivalGroup) and not group.rival.outside
        rows[name] = Row(name, over_wire(group, size), counted, inside)
        if isinstance(group, JavaGroup) and not group.in_memory:
            row = name.replace("Java", "Java, inside")
            rows[row] = Row(name, inside_java(group, size), counted, inside=True)
    return rows


def over_wire(group: Group, size: int) -> Callable[[Shape, float], Figure]:
    return lambda shape, seconds: group.load(int(shape), seconds, size)


def inside_java(group: JavaGroup, size: int) -> Callable[[Shape, float], Figure]:
    return lambda shape, seconds: group.inside(int(shape), seconds, size)


def producer(interface: Callable[..., Figure], size: int) -> Callable[[Shape, float], Figure]:
    """One task; so many is the room of its appender."""
    return lambda shape, seconds: interface(
        "producer", seconds=seconds, size=size, outstanding=None if shape == PRODUCER else shape
    )


def tasks_or_producer(
    interface: Callable[..., Figure], size: int
) -> Callable[[Shape, float], Figure]:
    one = producer(interface, size)

    def run(shape: Shape, seconds: float) -> Figure:
        if shape == PRODUCER:
            return one(shape, seconds)
        return interface("tasks", count=shape, batch=1, seconds=seconds, size=size)

    return run


def bare_cost(folder: Path, how: str) -> Bare:
    """Two round trips on loopback, one after the other, and one sync, if `how` is "synced"."""
    program = compiled("roundtrip", folder)
    words = [str(word) for word in (program, folder, ROUND_TRIPS, ENTRY_BYTES, how, "relayed")]

    def run() -> Figure:
        settle()
        done = subprocess.run(words, capture_output=True, check=True, text=True)
        p50_ms, p99_ms = map(float, done.stdout.split())
        return {"p50_ms": p50_ms, "p99_ms": p99_ms}

    return run


@contextlib.contextmanager
def turn_of(group: Group) -> Iterator[None]:
    group.wake()
    settle()
    yield
    group.rest()


def show_lost(name: str, why: Exception) -> None:
    """Followers of a Java group without a file can stay behind for good: the others go on."""
    told = (str(why) or repr(why)).splitlines()[0]
    print(f"{name} left out from here on: {told}")
    print("JSON " + json.dumps({"row": name, "left out": told}), flush=True)


@attrs.define
class Appends:
    """The tables of one durability.

    Attributes:
        found: the groups that still take part.
        bare: see `bare_cost`.
    """

    found: dict[str, Group]
    how: str
    bare: Bare
    rows: dict[str, Row] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.rows = rows_of(self.found)

    def begin(self) -> None:
        """Java's first load, and what idle groups take from the others."""
        idle = Figures(f"ledger, idle groups, {self.how}", ("core_percent", "stands_still"))
        for name, group in list(self.found.items()):
            with self.may_lose(name), turn_of(group):
                idle.add(name, core_percent=group.idle_percent(), stands_still=group.rests)
                if isinstance(group, JavaGroup) and not group.in_memory:  # that one begins again
                    group.load(16, FIRST_S, ENTRY_BYTES)
        idle.show()

    def table(self, shape: Shape, rounds: int, seconds: float) -> None:
        what = f"{shape} outstanding" if counted(shape) else f"one {shape} task"
        figures = Figures(f"ledger appends, {self.how}, {what}", COLUMNS)
        self.warm_up(shape)
        for _ in range(rounds):
            for name, row in self.turns_of(shape):
                with self.may_lose(row.group), turn_of(self.found[row.group]):
                    figures.add(name, **row.run(shape, seconds))
            if shape == 1:
                figures.add("bare", **self.bare())
        self.show(figures, shape)

    def those_of(self, shape: Shape) -> dict[str, Row]:
        return {name: row for name, row in self.rows.items() if row.shapes(shape)}

    def turns_of(self, shape: Shape) -> Iterator[tuple[str, Row]]:
        """One round. Whose group falls apart in it has no further turn."""
        for name, row in self.those_of(shape).items():
            if name in self.rows:
                yield name, row

    def warm_up(self, shape: Shape) -> None:
        """So that the first round finds everyone as warm as the last one does."""
        renewed = {}
        for name, group in list(self.found.items()):
            with self.may_lose(name), turn_of(group):
                renewed[name] = group.renew()
        for _, row in self.turns_of(shape):
            with self.may_lose(row.group), turn_of(self.found[row.group]):
                row.run(shape, FIRST_S if renewed[row.group] else WARM_S)

    def show(self, figures: Figures, shape: Shape) -> None:
        if not isinstance(shape, int):
            figures.show()
            return
        rows = self.those_of(shape)
        legs = goals.Legs.of(rows, lambda name: rows[name].inside)
        figures.show(
            *goals.of_appends(legs, shape, self.how, lambda row: figures.median(row, "k_per_s"))
        )

    @contextlib.contextmanager
    def may_lose(self, name: str) -> Iterator[None]:
        """Without ours there is nothing to compare; another that falls apart is left out.

        That is: it ended, answered nothing for so long, or did not come to one log (PeerFailed).
        """
        try:
            yield
        except (AssertionError, OSError) as failed:
            if name == "ours":
                raise
            show_lost(name, failed)
            self.found.pop(name).stop()
            self.rows = {each: row for each, row in self.rows.items() if row.group != name}
