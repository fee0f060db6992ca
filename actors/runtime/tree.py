"""A snapshot of a running tree, and its picture."""

from __future__ import annotations

import enum

import attrs

from actors.runtime.mailbox import MailboxStatistics


class State(enum.Enum):
    """What a child is doing between its start and its end."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    WAITING = "waiting"  # for its restart: back-off, or its elder siblings
    STOPPED = "stopped"  # ended and not to be restarted by itself


@attrs.frozen(kw_only=True)
class TreeNode:
    """One actor or supervisor at one moment.

    Attributes:
        kind: "actor", "supervisor" or "dynamic".
        type: the actor's class, or the supervisor's strategy.
        incarnation: the number of the one that runs, or of the last one; 0 before the first.
        restarts: how often its supervisor has restarted it after its end, without those on request.
        mailbox: the figures of its mailbox; None if it has none, or does not run.
    """

    path: str
    kind: str
    type: str
    incarnation: int
    state: State
    restarts: int
    mailbox: MailboxStatistics | None
    children: tuple[TreeNode, ...]

    def find(self, path: str) -> TreeNode | None:
        """Return the node of that path in this subtree; None if there is none."""
        if self.path == path:
            return self
        for child in self.children:
            if path == child.path or path.startswith(child.path + "/"):
                return child.find(path)
        return None


def render_tree(node: TreeNode) -> str:
    """Return the snapshot as text, one line for each node."""
    return "\n".join([_line(node, node.path), *_below(node, "")])


def _below(node: TreeNode, indent: str) -> list[str]:
    lines: list[str] = []
    for number, child in enumerate(node.children, 1):
        last = number == len(node.children)
        name = child.path.rpartition("/")[2]
        lines.append(f"{indent}{'└─ ' if last else '├─ '}{_line(child, name)}")
        lines += _below(child, indent + ("   " if last else "│  "))
    return lines


def _line(node: TreeNode, name: str) -> str:
    words = [f"{name}#{node.incarnation}", f"[{node.type}]"]
    if node.state is not State.RUNNING:
        words.append(node.state.value)
    if node.restarts:
        words.append(f"restarts={node.restarts}")
    box = node.mailbox
    if box is not None:
        words.append(f"depth={box.depth} peak={box.peak} received={box.received}")
        if box.size_bytes:
            words.append(f"bytes={box.size_bytes}")
        if box.senders_waiting:
            words.append(f"senders_waiting={box.senders_waiting}")
        if box.conflated:
            words.append(f"conflated={box.conflated}")
        if box.refused:
            words.append(f"refused={box.refused}")
    return " ".join(words)
