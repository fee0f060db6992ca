"""The live view: from a `ClusterView` to lines, with rich; and plain lines for everything else.

Pure functions; `painter.py` has the thread that writes.
"""

from __future__ import annotations

import io
from collections.abc import Mapping

import attrs
from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from actors.cluster.cells import STATE_NARROW_CHARS, STATE_WIDE_CHARS, STYLES, clock, line, offset
from actors.cluster.ledger_terminal import ledger_line, ledger_lines, ledger_table
from actors.cluster.rates import Rates
from actors.cluster.view import ClusterView, FeedView, GroupView, NodeView, SlaveView, TreeView
from actors.config.sizes import size

TREE_COLUMN_CHARS = 24
"""Below this width per node, trees stand below each other."""
WIDE_CHARS = 110
"""From here on, positions are shown to the byte and with more columns."""
CATCHING_UP_BYTES = 1 << 20
"""A lag above this gets a progress bar; less is data on its way."""
BAR_CHARS = 10
MANY_CLIENTS = "/api/connections"
"""Clients come and go: the picture counts them."""
NOTES_SHOWN = 5
PROMISES_WHOLE = 2
"""With more of them, each gets one line, cut at the edge."""
CONNECTED = "TRANSFER"
"""A slave's state while its link is up; its last error is then history."""
NO_CONNECTION = "SHUTDOWN"


def frame(
    view: ClusterView,
    rates: Mapping[str, Rates],
    promises: tuple[str, ...],
    *,
    width: int,
    height: int,
    colour: bool = True,
) -> str:
    """One picture of `height` lines at most, ready for a terminal.

    Args:
        promises: what the groups guarantee, one line each; shown under the head.
    """
    parts: list[RenderableType] = [_head(view, width >= WIDE_CHARS)]
    whole = len(promises) <= PROMISES_WHOLE
    parts += [Text(each, "dim") if whole else line(each, "dim") for each in promises]
    parts += _tables(view, rates, width >= WIDE_CHARS)
    parts += [line(_feed_words(feed)) for feed in view.feeds]
    parts += [line(note, "yellow") for note in view.notes[-NOTES_SHOWN:]]
    parts.append(_trees(view, width))
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
    with console.capture() as captured:
        console.print(Group(*parts))
    lines = captured.get().splitlines()
    if len(lines) > height:
        lines = [*lines[: height - 1], f"... {len(lines) - height + 1} more lines"[:width]]
    return "\n".join(lines)


def _head(view: ClusterView, wide: bool) -> Text:
    text = line("")
    text.append(f"triolog {view.cluster}", style="bold")
    text.append(f"  {view.phase} {clock(view.at_s)}  ")
    for node in view.nodes:
        again = f" x{node.process_restarts}" if node.process_restarts else ""
        text.append(f" {node.node} {node.state}{again} ", style=STYLES.get(node.state, ""))
    if wide:
        hint = "Ctrl-C again hurries" if view.phase == "stopping" else "Ctrl-C stops in order"
        text.append(f"  {hint}", style="dim")
    return text


_LEFT = ("group", "node", "role")
_OFFSETS = ("first", "written", "synced", "acked", "lag")
_RATES = ("rec/s", "MB/s")
_ONLY_WIDE = ("first", "synced")


def _tables(view: ClusterView, rates: Mapping[str, Rates], wide: bool) -> list[Table]:
    """One for each kind of group, as their positions are no like numbers."""
    ledgers = [group for group in view.groups if view.is_ledger(group)]
    classic = [group for group in view.groups if group not in ledgers]
    tables = [_groups(view, classic, rates, wide)] if classic or not ledgers else []
    return [*tables, ledger_table(view, ledgers, rates, wide)] if ledgers else tables


def _groups(view: ClusterView, groups: list[str], rates: Mapping[str, Rates], wide: bool) -> Table:
    gap = 2 if wide else 1
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, gap, 0, 0))
    shown = [name for name in _OFFSETS if wide or name not in _ONLY_WIDE]
    for name in (*_LEFT, *shown, *_RATES):
        table.add_column(name, justify="left" if name in _LEFT else "right", no_wrap=True)
    state_chars = STATE_WIDE_CHARS if wide else STATE_NARROW_CHARS
    table.add_column("state", no_wrap=True, max_width=state_chars)
    for group in groups:
        for position, node in enumerate(_in_order(view, group)):
            found = node.groups[group]
            cells = _cells(view, group, node, rates.get(group, Rates()))
            offsets = [offset(cells.offsets.get(name), wide) for name in shown]
            head = group if position == 0 else ""
            table.add_row(head, node.node, found.role, *offsets, *cells.rates, cells.state)
    return table


def _in_order(view: ClusterView, group: str) -> list[NodeView]:
    """The master first."""
    members = [node for node in view.nodes if group in node.groups]
    return sorted(members, key=lambda node: node.groups[group].role != "master")


@attrs.frozen
class _Cells:
    """One row's content."""

    offsets: Mapping[str, int | None]
    rates: tuple[str, str]
    state: RenderableType


def _cells(view: ClusterView, group: str, node: NodeView, rates: Rates) -> _Cells:
    found = node.groups[group]
    offsets: dict[str, int | None] = {
        "first": found.min_bytes,
        "written": found.written_bytes,
        "synced": found.synced_bytes,
    }
    if found.role == "master":
        offsets["acked"] = found.acknowledged_bytes
        speed = (f"{rates.records_per_s:.0f}", f"{rates.bytes_per_s / 1e6:.2f}")
        if node.state == "away":  # it may have been replaced since
            speed = ("", "")
        if node.state == "running" and found.part in ("asking", "fenced"):
            return _Cells(offsets, speed, line(f"{found.part}: {found.reason}", "yellow"))
        if node.state == "running" and found.damage:
            return _Cells(offsets, speed, line(f"damaged: {found.damage}", "red"))
        return _Cells(offsets, speed, line(node.state, STYLES.get(node.state, "")))
    master = view.master_of(group)
    slave = _slave_of(master[1], node.node) if master else None
    if master is None or slave is None:
        return _Cells(offsets, ("", ""), line(_own_words(node, found)))
    offsets |= {"acked": slave.acked_bytes, "lag": slave.lag_bytes}
    speed = ("", f"{slave.bytes_per_s / 1e6:.2f}")
    state = _progress(master[1], slave) or line(_words(node, found, slave))
    return _Cells(offsets, speed, state)


def _slave_of(master: GroupView, node: str) -> SlaveView | None:
    return next((slave for slave in master.slaves if slave.node == node), None)


def _own_words(node: NodeView, found: GroupView) -> str:
    if node.state != "running":
        return node.state
    if found.part in ("diverged", "damaged"):
        return f"{found.part}: {found.reason}"
    if found.part == "connecting" and found.reason:
        return found.reason
    return found.state.lower() if found.state == CONNECTED else found.last_error or found.state


def _words(node: NodeView, found: GroupView, slave: SlaveView) -> str:
    if node.state != "running":
        return node.state
    if slave.acked_bytes is None:
        if found.part in ("diverged", "damaged"):
            return f"{found.part}: {found.reason}"
        return found.last_error or slave.last_error or _state_words(slave)
    counts = "" if slave.counts else ", written only"
    return ("in sync" if slave.in_sync else "behind") + counts


def _state_words(slave: SlaveView) -> str:
    """Upstream's name of the state of no connection sounds like the end of the slave."""
    return "not connected" if slave.state == NO_CONNECTION else slave.state.lower()


def _progress(master: GroupView, slave: SlaveView) -> RenderableType | None:
    """A bar while a connected slave catches up; None otherwise."""
    if slave.acked_bytes is None or (slave.lag_bytes or 0) < CATCHING_UP_BYTES:
        return None
    total = max(1, master.written_bytes - master.min_bytes)
    done = max(0, slave.acked_bytes - master.min_bytes)
    left = f" {(slave.lag_bytes or 0) / slave.bytes_per_s:.0f} s" if slave.bytes_per_s else ""
    grid = Table.grid(padding=(0, 1))
    grid.add_row(
        ProgressBar(total=total, completed=min(done, total), width=BAR_CHARS),
        f"{100 * done // total} %{left}",
    )
    return grid


def _feed_words(feed: FeedView) -> str:
    return (
        f"feed {feed.group} from {feed.source}: {feed.acknowledged_count} acknowledged"
        f", {feed.in_flight_count} in flight, {feed.unknown_count} unknown, {feed.state}"
    )


def _trees(view: ClusterView, width: int) -> RenderableType:
    trees = [_tree(node.tree) for node in view.nodes if node.tree is not None]
    if not trees:
        return Text("")
    if width // len(trees) < TREE_COLUMN_CHARS:
        return Group(*trees)
    grid = Table.grid(padding=(0, 2))
    for _ in trees:
        grid.add_column(no_wrap=True, overflow="ellipsis", width=width // len(trees) - 2)
    grid.add_row(*trees)
    return grid


def _tree(tree: TreeView) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    _tree_line(text, tree, "", tree.path)
    _branches(text, tree, "")
    return text


def _branches(text: Text, tree: TreeView, indent: str) -> None:
    if tree.path.endswith(MANY_CLIENTS):
        return
    for number, child in enumerate(tree.children, 1):
        last = number == len(tree.children)
        text.append("\n")
        _tree_line(text, child, indent + ("└─ " if last else "├─ "), child.name)
        _branches(text, child, indent + ("   " if last else "│  "))


def _tree_line(text: Text, tree: TreeView, lead: str, name: str) -> None:
    text.append(lead, style="dim").append(name)
    if tree.children and tree.path.endswith(MANY_CLIENTS):
        text.append(f" {len(tree.children)}", style="dim")
    if tree.depth:
        waiting = f", {size(tree.size_bytes)}" if tree.size_bytes else ""
        text.append(f" [{tree.depth}{waiting}]", style="cyan")
    if tree.restarts:
        text.append(f" restarted {tree.restarts}", style="yellow")
    if tree.state not in ("running", ""):
        text.append(f" {tree.state}", style="red")


def plain_lines(view: ClusterView, rates: Mapping[str, Rates]) -> list[str]:
    """The view as one line per group, for logs and pipes."""
    lines = []
    for group in view.groups:
        speed = rates.get(group, Rates())
        words = [f"{clock(view.at_s)} {group}:"]
        if view.is_ledger(group):
            words += [ledger_line(view, group), f"{speed.records_per_s:.0f} records/s"]
            lines.append(" ".join(words))
            continue
        master = view.master_of(group)
        if master is None:
            words.append("no master answers;")
        else:
            role = f"master{_part_words(master[1])}"
            words.append(f"{master[0]} {role} at {master[1].written_bytes}")
            words.append(f"acknowledged {master[1].acknowledged_bytes};")
            words += [f"{_plain_slave(slave)};" for slave in master[1].slaves]
        words.append(f"{speed.records_per_s:.0f} records/s {speed.bytes_per_s / 1e6:.2f} MB/s")
        lines.append(" ".join(words))
    return lines


def _plain_slave(slave: SlaveView) -> str:
    if slave.acked_bytes is None:
        return f"{slave.node} {slave.last_error or _state_words(slave)}"
    return f"{slave.node} at {slave.acked_bytes} behind {slave.lag_bytes}"


def _part_words(group: GroupView) -> str:
    """What is not as the cluster file has it, or not as it should be."""
    words = ""
    if group.promotion:
        of = "" if group.role == "master" else f" of {group.master}"
        words = f"{of} by promotion {group.promotion}"
    if group.damage != group.reason and group.damage:
        words += f", damaged: {group.damage}"
    usual = group.part in ("", "open", "following", "connecting") and not group.reason
    return words if usual else f"{words}, {group.part}: {group.reason}"


def node_lines(node: NodeView, *, trees: bool = False) -> list[str]:
    """One node for `status`: a line for it, lines for its groups, and what is odd in its tree.

    Args:
        trees: all of its tree instead.
    """
    lines = [f"{node.node}: {node.state}"]
    for name, group in node.groups.items():
        offsets = f"{group.min_bytes} to {group.written_bytes}, synced to {group.synced_bytes}"
        own = f", {group.state.lower()}" if group.role == "slave" else ""
        lost = group.last_error and group.state != CONNECTED
        said = group.reason and group.reason in group.last_error  # what a diverged slave is told
        why = f" ({group.last_error})" if lost and not said else ""
        acknowledged = f", acknowledged to {group.acknowledged_bytes}"
        if group.role == "master" and group.ack_policy != "copies":
            acknowledged += f" by the policy of {group.ack_policy}"
        if group.role == "master" and group.fresh_needed is not None and group.fresh_others:
            of = f"{group.fresh_needed} of {group.fresh_others} others"
            acknowledged += f", fresh reads confirmed by {of}"
        role = f"{group.role}{_part_words(group)}"
        lines.append(f"  {name}: {role}, {offsets}{acknowledged}{own}{why}")
        lines += [f"    {_plain_slave(slave)}" for slave in group.slaves]
        if group.refused_count:
            lines.append(f"    refused, from addresses that are no slave's: {group.refused_count}")
    for name, ledger in node.ledgers.items():
        lines += ledger_lines(name, ledger)
    if node.tree is None:
        return lines
    shown = _tree(node.tree).plain.split("\n") if trees else _odd_parts(node.tree)
    return [*lines, *(f"  {each}" for each in shown)]


def _odd_parts(tree: TreeView) -> list[str]:
    """The parts of a tree that have restarted or do not run, by their paths."""
    found = []
    for part in tree.walk():
        if part.restarts or part.state not in ("running", ""):
            text = Text()
            _tree_line(text, attrs.evolve(part, children=()), "", part.path)
            found.append(text.plain)
    return found
