"""Scripts with golden output: commands, and below each what it prints under both settings.

    # A line of comment.
    command word key=value
    ----
    a line that both settings print
    upstream | a line that only `compat = "upstream"` prints
    ours     | a line that only the default prints

An output ends with an empty line. Comments before the first command are the script's head; of
these, lines `# upstream: ...` and `# ours: ...` (or `# both: ...`, where the outcomes are equal,
with the reason) say in a sentence what the outputs show. Model: etcd-io/raft, testdata/*.txt.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

RULE = "----"
SETTINGS = ("upstream", "ours")


@attrs.frozen(kw_only=True)
class Step:
    """One command.

    Attributes:
        lead: comment lines in front of it.
        line: the command as written.
        output: what it is expected to print, settings marked.
    """

    lead: tuple[str, ...]
    line: str
    output: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Script:
    """A whole file.

    Attributes:
        head: its first comment lines, without "# ".
        steps: in order.
    """

    head: tuple[str, ...]
    steps: tuple[Step, ...]

    def says(self, who: str) -> str:
        """The head's sentence for "upstream", "ours" or "both"; "" if it has none."""
        return next(
            (line.partition(": ")[2] for line in self.head if line.startswith(f"{who}: ")), ""
        )


def parse(text: str) -> Script:
    """Read a script. Raises: ValueError, which names the line."""
    head: list[str] = []
    lead: list[str] = []
    steps: list[Step] = []
    lines = iter(enumerate([*text.split("\n"), ""], 1))
    for number, line in lines:
        if line.startswith("#"):
            lead.append(line)
        elif not line and lead and not steps and not head:
            head, lead = [each.removeprefix("#").strip() for each in lead], []
        elif line:
            _, rule = next(lines)
            if rule != RULE:
                raise ValueError(f"line {number}: {RULE} is missing below {line!r}")
            output = []
            for _, printed in lines:
                if not printed:
                    break
                output.append(printed)
            steps.append(Step(lead=tuple(lead), line=line, output=tuple(output)))
            lead = []
    return Script(head=tuple(head), steps=tuple(steps))


def render(script: Script) -> str:
    """The text that `parse` reads."""
    blocks = ["\n".join(f"# {line}".rstrip() for line in script.head)]
    blocks += ["\n".join((*step.lead, step.line, RULE, *step.output)) for step in script.steps]
    return "\n\n".join(blocks) + "\n"


def side_by_side(upstream: Sequence[str], ours: Sequence[str]) -> tuple[str, ...]:
    """One output from two: marked where they differ."""
    if list(upstream) == list(ours):
        return tuple(ours)
    marked = [f"{'upstream':8} | {line}" for line in upstream or ["(nothing)"]]
    return (*marked, *(f"{'ours':8} | {line}" for line in ours or ["(nothing)"]))


def differs(script: Script) -> bool:
    """Whether any output is marked."""
    return any(line.startswith(("upstream |", "ours ")) for s in script.steps for line in s.output)
