"""Faults as data: a script is drawn from a seed, and then carried out. Any part of a script is a
script, too.

Each line names an action, its time, its nodes and its duration, after which the action is undone.
Lines overlap: a line that finds nothing to break (because the node is off already) does nothing and
is not counted. As text, the form in which scripts are checked in:

    at 12.5 cut n0 n1 for 3.25
    at 14.0 eio_write n1 for 2.0 in commitlog extra 3.0
"""

from __future__ import annotations

from typing import TypeAlias

import attrs


@attrs.frozen(kw_only=True)
class Fault:
    """One line of a script.

    Attributes:
        at_s: the virtual time since the script's beginning, in seconds.
        kind: the name of the action.
        node: the node that is hit; of a pair, the one from which the direction counts.
        others: further nodes: the other one of a pair, or more that are hit as well.
        for_s: after how many seconds it is undone.
        extra: another number; the action says what it means.
        where: for disk faults, a part of the paths of the files; "" is any. Other actions say what
            it means.
    """

    at_s: float
    kind: str
    node: str
    others: tuple[str, ...] = ()
    for_s: float = 0.0
    extra: float = 0.0
    where: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        return (self.node, *self.others)

    @property
    def text(self) -> str:
        """Describe the fault for people, without its time and kind."""
        extra = f" extra {self.extra:.3f}" if self.extra else ""
        where = f" in {self.where}" if self.where else ""
        return f"{' '.join(self.nodes)} for {self.for_s:.2f} s{where}{extra}"

    def __str__(self) -> str:
        return f"{self.kind} {self.text}"


Script: TypeAlias = tuple[Fault, ...]


def dump_fault(fault: Fault) -> str:
    """Format a fault as one line that `parse_fault` reads back exactly."""
    words = [f"at {fault.at_s!r} {fault.kind} {' '.join(fault.nodes)}"]
    if fault.for_s:
        words.append(f"for {fault.for_s!r}")
    if fault.where:
        words.append(f"in {fault.where}")
    if fault.extra:
        words.append(f"extra {fault.extra!r}")
    return " ".join(words)


def parse_fault(line: str) -> Fault:
    """Parse a line of a script.

    Raises: ValueError: it is no such line; its text has the line.
    """
    words = line.split()
    try:
        at, at_s, kind, *rest = words
        if at != "at":
            raise ValueError("it does not begin with 'at'")
        nodes: list[str] = []
        options = {"for": "0.0", "in": "", "extra": "0.0"}
        while rest:
            word = rest.pop(0)
            if word in options:
                options[word] = rest.pop(0)
            else:
                nodes.append(word)
        return Fault(
            at_s=float(at_s),
            kind=kind,
            node=nodes[0],
            others=tuple(nodes[1:]),
            for_s=float(options["for"]),
            extra=float(options["extra"]),
            where=options["in"],
        )
    except (ValueError, IndexError) as error:
        raise ValueError(f"no line of a script: {line!r} ({error})") from error
