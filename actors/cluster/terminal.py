"""Draws a `ClusterView`: as the live view, with rich, or as plain lines.

These are pure functions; `painter.py` has the thread that writes.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import attrs
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from actors.client.status_text import (
    SHORT_HEADINGS,
    end_text,
    extent_text,
    first_text,
    is_empty,
    link_text,
    peer_text,
    role_text,
    state_text,
)
from actors.cluster.summary import leads_text
from actors.cluster.view import ClusterView, FeedView, NodeView, Rates, TreeView, clock
from actors.config.command_line import folded
from actors.config.kind import Terms
from actors.group_status import DAMAGED, FOLLOWING, MENDED, STANDS_STILL, GroupStatus, Peer
from actors.own_process import as_typed
from actors.readable import counted, size

TREE_COLUMN_CHARS = 24
"""If there are fewer columns per node, trees are below each other."""
WIDE_CHARS = 110
"""From this width on, positions are shown to the byte and there are more columns."""
CATCHING_UP_BYTES = 1 << 20
"""A lag above this is shown as a progress bar; less is data under way."""
BAR_CHARS = 10
MANY_CLIENTS = "/api/connections"
"""The part of a tree whose children are only counted, because clients come and go."""
STYLES: Final[Mapping[str, str]] = {
    "running": "green",
    "starting": "yellow",
    "stopping": "yellow",
    "away": "bold red",
}
"""The colours of a node's states."""
STATE_CHARS_MIN = 12
"""The column of states may shrink to so many characters, to leave room for numbers; those of names
of groups and nodes to the length of their headings.
"""
_LETTERS = "KMGT"
NOTES_SHOWN = 5
PROMISES_WHOLE = 2
"""If there are more guarantees, each gets one line, cut at the edge."""
HIGH_LINES = 30
"""On a lower terminal, too: what is wrong is more important than what is guaranteed."""


def frame(
    view: ClusterView,
    rates: Mapping[str, Rates],
    promises: tuple[str, ...],
    *,
    width: int,
    height: int,
    colour: bool = True,
) -> str:
    """Draw one picture of at most `height` lines, ready for a terminal.

    Args:
        promises: what the groups guarantee, one line each; they are shown under the head.
    """
    head, notes = _head(view, width), _notes(view)
    groups = _groups_shown(view, rates, width, height - len(notes) - 2)  # and without a last line
    texts = [line(each, width, "yellow") for each in notes]
    texts += [line(_feed_text(feed), width) for feed in view.feeds]
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
    whole = len(promises) <= PROMISES_WHOLE and height >= HIGH_LINES
    promised = [Text(each, "dim") if whole else line(each, width, "dim") for each in promises]
    promise_lines = sum(len(each.wrap(console, width)) for each in promised)
    if groups.lines + len(texts) + promise_lines + 2 > height:
        promised = []  # `check` prints them
    parts = [head, *promised, *groups.parts, *texts, _trees(view, width)]
    with console.capture() as captured:
        console.print(Group(*parts))
    lines = captured.get().splitlines()
    if len(lines) > height:
        lines = [
            *lines[: height - 1],
            f"... {counted(len(lines) - height + 1, 'more line')}"[:width],
        ]
    return "\n".join(lines)


def _notes(view: ClusterView) -> list[str]:
    """Return the newest notes, but for those whose reason a member's state gives now."""
    said = [own.reason for group in view.groups for own in view.of(group).values() if own.troubles]
    reasons = [as_typed(reason) for reason in said if reason]
    notes = [note for note in view.notes if not any(reason in note for reason in reasons)]
    return notes[-NOTES_SHOWN:]


def _head(view: ClusterView, width: int) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"triolog {view.cluster}", style="bold")
    text.append(f"  {view.phase} {clock(view.at_s)}  ")
    for node in view.nodes:
        again = f" x{node.process_restarts}" if node.process_restarts else ""
        text.append(f" {node.node} {node.state}{again} ", style=STYLES.get(node.state, ""))
    if width >= WIDE_CHARS:
        hint = "Ctrl-C again hurries" if view.phase == "stopping" else "Ctrl-C stops in order"
        text.append(f"  {hint}", style="dim")
    return _cut(text, width)


@attrs.frozen
class _Groups:
    """Groups as they are drawn: tables, and texts below them. `lines`: how many lines it has."""

    parts: tuple[RenderableType, ...]
    lines: int


def _groups_shown(view: ClusterView, rates: Mapping[str, Rates], width: int, room: int) -> _Groups:
    """Draw all groups if they have room in so many lines. Otherwise draw those that do, and in one
    line say how many do not: who is in trouble comes first.
    """
    shown = _groups(view, view.groups, rates, width)
    if shown.lines <= room:
        return shown
    well = {group: _is_well(view, group) for group in view.groups}
    order = sorted(view.groups, key=well.__getitem__)
    shown, count = _groups(view, order[:1], rates, width), 1
    while (more := _groups(view, order[: count + 1], rates, width)).lines < room:
        shown, count = more, count + 1
    hidden = order[count:]
    if not hidden:
        return shown
    troubled = sum(not well[group] for group in hidden)
    how = f"{troubled} of them in trouble" if troubled else "all well"
    text = f"{counted(len(hidden), 'more group')}, {how}: {', '.join(hidden)}; `status` has them"
    last = line(as_typed(text), width, "yellow" if troubled else "")
    return _Groups((*shown.parts, last), shown.lines + 1)


def _is_well(view: ClusterView, group: str) -> bool:
    """Whether a leader answers and takes appends, and no member is known to be in trouble."""
    found, away = view.leader_of(group), _away(view)
    if found is None or found[0] in away or not found[1].is_open:
        return False
    said = view.of(group)
    return all(node not in away and not own.troubles for node, own in said.items()) and all(
        peer.is_well for peer in found[1].peers
    )


def _groups(
    view: ClusterView, groups: Iterable[str], rates: Mapping[str, Rates], width: int
) -> _Groups:
    """Draw one table for each kind of group, because their positions have different units. Below
    them are the whole texts of states that had no room in them.
    """
    kinds: dict[Terms, list[str]] = {}
    for group in groups:
        said = next(iter(view.of(group).values()), None)
        kinds.setdefault(Terms() if said is None else said.terms, []).append(group)
    cut: list[str] = []
    tables = [_table(view, terms, alike, rates, width, cut) for terms, alike in kinds.items()]
    texts = [folded(f"  {each}", width) for each in cut]
    lines = sum(1 + table.row_count for table in tables) + sum(
        1 + text.count("\n") for text in texts
    )
    return _Groups((*tables, *(Text(text, "yellow") for text in texts)), lines)


_LEFT = ("group", "node", "role")


def _table(
    view: ClusterView,
    terms: Terms,
    groups: list[str],
    rates: Mapping[str, Rates],
    width: int,
    cut: list[str],
) -> Table:
    """Draw a table with a row for each known member.

    The epoch is shown if there is one, and MB/s if the log is counted in bytes. `lag` is what the
    leader knows. The first heading is the unit of positions and lags.
    """
    wide = width >= WIDE_CHARS
    gap = 2 if wide else 1
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, gap, 0, 0))
    rows = [row for group in groups for row in _rows(view, group, rates, wide)]
    in_bytes = terms.unit == "bytes"
    epoch = (
        [terms.epoch]
        if (wide or not in_bytes) and any(row.get(terms.epoch) for row in rows)
        else []
    )
    ends = ["first", "written", "synced"] if wide else ["written"]
    shown = [*_LEFT, *epoch, *ends, terms.acknowledged, "lag", "rec/s", *["MB/s"] * in_bytes]
    heads = {**SHORT_HEADINGS, "group": f"in {terms.unit}"}
    cells = {
        name: [heads.get(name, name), *(str(row.get(name, "")) for row in rows)] for name in shown
    }
    chars = {name: max(map(len, found)) for name, found in cells.items()}
    state_chars = width - sum(chars.values()) - gap * (len(shown) + 1)
    for name in ("group", "node"):
        less = max(0, min(STATE_CHARS_MIN - state_chars, chars[name] - len(cells[name][0])))
        chars[name] -= less
        state_chars += less
    state_chars = max(STATE_CHARS_MIN, state_chars)
    for name in shown:
        justify: JustifyMethod = "left" if name in _LEFT else "right"
        table.add_column(cells[name][0], justify=justify, no_wrap=True, max_width=chars[name])
    table.add_column("state", no_wrap=True, max_width=state_chars)
    group = ""
    for row in rows:
        group, state = str(row.get("group", "")) or group, row["state"]
        if isinstance(state, Text):
            row["state"] = _cut(state, state_chars)
            if row["state"] is not state:
                cut.append(f"{group} {row['node']}: {state.plain}")
        table.add_row(*(row.get(name, "") for name in (*shown, "state")))
    return table


_Row: TypeAlias = dict[str, RenderableType]


def _rows(view: ClusterView, group: str, rates: Mapping[str, Rates], wide: bool) -> Iterator[_Row]:
    """Yield the rows of a group, the leader's first, as cells by the names of their columns.

    What a leader that does not answer has said of other nodes is not shown.
    """
    found, speed, away = view.leader_of(group), rates.get(group, Rates()), _away(view)
    lead = None if found is None or found[0] in away else found[1]
    peers = {} if lead is None else {peer.node: peer for peer in lead.peers}
    members = [node for node in view.nodes if group in node.groups]
    for number, node in enumerate(
        sorted(members, key=lambda node: found is None or node.node != found[0])
    ):
        own, peer = node.groups[group], peers.pop(node.node, None)
        row: _Row = {
            "group": group if number == 0 else "",
            "node": node.node,
            "role": own.role,
            own.terms.epoch: str(own.epoch) if own.epoch > 0 else "",
            "first": first_text(own),
            "written": "empty" if is_empty(own) else position(own.terms, own.written, wide),
            "synced": position(own.terms, own.synced, wide),
            own.terms.acknowledged: position(own.terms, own.acknowledged, wide),
            **_known(peer, wide),
            "state": _state(node, own, lead, peer, away),
        }
        if own.leads and node.state != "away":  # another may have replaced it since
            row["rec/s"], row["MB/s"] = _per_s(speed.records_per_s), _mb(speed.bytes_per_s)
        yield row
    for peer in peers.values():
        yield {"node": peer.node, **_known(peer, wide), "state": Text(state_text(peer))}


def _known(peer: Peer | None, wide: bool) -> _Row:
    if peer is None:
        return {}
    return {
        "lag": "-" if peer.lag is None else short(peer.lag, wide),
        "MB/s": _mb(peer.bytes_per_s),
    }


def _mb(bytes_per_s: float | None) -> str:
    return "" if bytes_per_s is None else f"{bytes_per_s / 1e6:.2f}"


def _per_s(records_per_s: float | None) -> str:
    return "" if records_per_s is None else f"{records_per_s:.0f}"


def _state(
    node: NodeView,
    own: GroupStatus,
    lead: GroupStatus | None,
    peer: Peer | None,
    away: Mapping[str, str],
) -> RenderableType:
    """Return the cell for a node's state: what the node says of itself, or else what its leader
    says of it.

    Args:
        lead, peer: what a leader that answers says of the group and of this node; None: nothing.
        away: see `_away`.
    """
    if node.state != "running" or (own.leads and not own.troubles):
        return Text(node.state, STYLES.get(node.state, ""))
    if own.troubles:
        return Text(as_typed(own.troubles[0]), "red" if DAMAGED in own.findings else "yellow")
    if own.leader in away:
        return Text(f"its {own.terms.leader} {own.leader} {away[own.leader]}", "yellow")
    if peer is not None and peer.refused:
        return Text(state_text(peer), "yellow")
    if lead is None or peer is None or not peer.is_well:
        if own.link is not None and not own.link.is_up:
            return Text(own.link.error or own.link.state)
        if peer is not None:
            return Text(state_text(peer))
    elif (bar := _progress(lead, peer)) is not None:
        return bar
    if not own.leader:
        return Text("knows no leader")
    state = "" if peer is None else peer.state
    if state and not state.startswith(FOLLOWING):
        state = f": {state}"
    return Text(f"follows {own.leader}{state.removeprefix(FOLLOWING)}")


def _away(view: ClusterView) -> dict[str, str]:
    """Return the nodes that do not answer, with a text about each."""
    words = {"away": "does not answer", "starting": "is starting"}
    return {node.node: words[node.state] for node in view.nodes if node.state in words}


def _progress(lead: GroupStatus, peer: Peer) -> RenderableType | None:
    """Draw a bar while a connected peer catches up; None otherwise."""
    if lead.terms.unit != "bytes" or (peer.lag or 0) < CATCHING_UP_BYTES:
        return None
    total = max(1, lead.written - lead.first)
    done = max(0, (peer.end or 0) - lead.first)
    left = f" {(peer.lag or 0) / peer.bytes_per_s:.0f} s" if peer.bytes_per_s else ""
    grid = Table.grid(padding=(0, 1))
    grid.add_row(
        ProgressBar(total=total, completed=min(done, total), width=BAR_CHARS),
        f"{100 * done // total} %{left}",
    )
    return grid


def _feed_text(feed: FeedView) -> str:
    return (
        f"feed {feed.group}: {feed.acknowledged_count} acknowledged"
        f", {feed.in_flight_count} in flight, {feed.unknown_count} unknown, {feed.state}"
        f", from {feed.source}"
    )


def _trees(view: ClusterView, width: int) -> RenderableType:
    trees = [_tree(node.tree) for node in view.nodes if node.tree is not None]
    if not trees:
        return Text("")
    if width // len(trees) < TREE_COLUMN_CHARS:
        return Group(*(_cut_lines(tree, width) for tree in trees))
    chars = width // len(trees) - 2
    grid = Table.grid(padding=(0, 2))
    for _ in trees:
        grid.add_column(no_wrap=True, width=chars)
    grid.add_row(*(_cut_lines(tree, chars) for tree in trees))
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


def plain_lines(
    view: ClusterView, rates: Mapping[str, Rates], shown: dict[str, str] | None = None
) -> list[str]:
    """Describe a view in one line per group, for logs and pipes.

    Args:
        shown: by group, the reason that was last shown for why no node leads. A reason is shown
            only when it changes; this function updates it.
    """
    lines, shown = list[str](), {} if shown is None else shown
    for group in view.groups:
        speed = rates.get(group, Rates())
        words, reason = _plain_text(view, group)
        if reason and shown.get(group) != reason:
            words[0] = f"{words[0].removesuffix(';')}: {reason};"
        shown[group] = reason
        words = [f"{clock(view.at_s)} {group}:", *words]
        if speed.records_per_s is not None:
            words.append(f"{_per_s(speed.records_per_s)} records/s")
        if speed.bytes_per_s is not None:
            words.append(f"{_mb(speed.bytes_per_s)} MB/s")
        lines.append(" ".join(words).removesuffix(";"))
    return lines


def _plain_text(view: ClusterView, group: str) -> tuple[list[str], str]:
    """Describe a group. Returns: texts, and why no leader answers; "": one answers, or the reason
    is unknown.
    """
    found, said, away = view.leader_of(group), view.of(group), _away(view)
    if found is not None and found[0] not in away:
        node, own = found
        peers = (f"{peer_text(own, peer)};" for peer in own.peers)
        troubles = (f"{node}: {'; '.join(own.troubles)};",) if own.troubles else ()
        return [f"{node} {role_text(own)} {end_text(own)};", *peers, *troubles], ""
    answer = {node: own for node, own in said.items() if node not in away}
    ends = [f"{node} {end_text(own)};" for node, own in answer.items()]
    leader, epoch, is_said = view.leader_in(group)
    terms = next((own.terms for own in said.values()), Terms())
    if leader and leader not in away:
        return [f"{leads_text(leader, terms, epoch, is_said=is_said)};", *ends], ""
    lacks = [f"{node}: {'; '.join(own.troubles)}" for node, own in answer.items() if own.troubles]
    if leader:
        lacks.insert(0, f"{leader} {away[leader]}")
    return [f"no {terms.leader} answers;", *ends], ", ".join(lacks)


def node_lines(
    node: NodeView,
    *,
    trees: bool = False,
    refused: Mapping[str, str] | None = None,
    diverged: Collection[tuple[str, str]] = (),
) -> list[str]:
    """Describe one node for `status`: a line for it, lines for its groups, and the odd parts of its
    tree.

    Args:
        trees: whether to show its whole tree.
        refused: by group, why its leader refuses this node, as the leader says. The node itself
            only sees connections end.
        diverged: the groups and nodes of which a line of their own says where they diverge.
    """
    lines = [f"{node.node}: {node.state}"]
    for name, own in node.groups.items():
        why = None if (name, node.node) in diverged else (refused or {}).get(name)
        link = link_text(own) if why is None else f"refused by {own.leader}: {why}"
        words = (role_text(own), extent_text(own), *own.remarks, link)
        lines.append(f"  {name}: {', '.join(filter(None, words))}")
        lines += [f"    {trouble}" for trouble in own.troubles]
        for peer in own.peers:
            is_said = (name, peer.node) in diverged and not peer.is_well
            known = attrs.evolve(peer, state="diverged", reason="") if is_said else peer
            lines.append(f"    {peer_text(own, known)}")
        lines += [f"    {words}" for words in (*own.others, *_found_text(node.node, own))]
    lines += [f"  {node.name_server}"] if node.name_server else []
    if node.tree is None:
        return lines
    shown = _tree(node.tree).plain.split("\n") if trees else _odd_parts(node.tree)
    return [*lines, *(f"  {each}" for each in shown)]


def _found_text(node: str, own: GroupStatus) -> Iterator[str]:
    """Yield the findings of a node that no other line shows, and the command that mends damage."""
    if DAMAGED in own.findings:
        yield f"`repair {node}` mends its copy from another member's"
    yield from (own.findings[kind] for kind in (STANDS_STILL, MENDED) if kind in own.findings)


def _odd_parts(tree: TreeView) -> list[str]:
    """Return the parts of a tree that have restarted or do not run, with their paths."""
    found = []
    for part in tree.walk():
        if part.restarts or part.state not in ("running", ""):
            text = Text()
            _tree_line(text, attrs.evolve(part, children=()), "", part.path)
            found.append(text.plain)
    return found


def line(words: str, chars: int, style: str = "") -> Text:
    """Return words as one line, cut at the edge."""
    return _cut(Text(words, style=style, no_wrap=True, overflow="ellipsis"), chars)


def _cut(text: Text, chars: int) -> Text:
    """Return a text that fits: the whole, or its first words and an ellipsis. Only a word that is
    longer than all the room is cut itself.
    """
    if text.cell_len <= chars:
        return text
    end = text.plain.rfind(" ", 0, chars)
    shorter = text[: end if end > 0 else chars - 1]
    shorter.rstrip()
    shorter.append("…")
    shorter.no_wrap = True
    return shorter


def _cut_lines(text: Text, chars: int) -> Text:
    return Text("\n").join(_cut(each, chars) for each in text.split("\n"))


def position(terms: Terms, end: int | None, wide: bool) -> str:
    """Describe a position for people, to the byte only if there is room."""
    if end is None or terms.unit == "entries":
        return terms.shown(end)
    return short(end, wide)


def short(count: int, wide: bool) -> str:
    """Describe a number of bytes, to the byte only if there is room."""
    if wide or count < 1 << 10:
        return str(count)
    power = min(len(_LETTERS), (count.bit_length() - 1) // 10)
    return f"{count / (1 << 10 * power):.1f}{_LETTERS[power - 1]}"
