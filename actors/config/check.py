"""`check`: what a cluster file means, in words, before anything starts.

Pure functions from configuration to text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address

import attrs

from actors.config.bounds import RECONNECT_FIRST_S
from actors.config.classic import ClassicGroup
from actors.config.dledger import DLedgerGroup
from actors.config.fresh_reads import confirmed_by
from actors.config.guarantees import guarantee_of
from actors.config.model import ClusterConfig, Group
from wire.api import frames

_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@attrs.frozen(kw_only=True)
class PortUse:
    """A port that a node listens on.

    Attributes:
        node: who listens.
        address: where.
        port: the number.
        purpose: for whom.
        key: which key of the file says so.
    """

    node: str
    address: str
    port: int
    purpose: str
    key: str


@attrs.frozen(kw_only=True)
class MemoryBound:
    """A bound on bytes that one node may hold.

    Attributes:
        node: which.
        what: the buffer, by the key that bounds it.
        size_bytes: the bound.
    """

    node: str
    what: str
    size_bytes: int


def size(count_bytes: int) -> str:
    """Bytes for people: `64 MiB`, `1.5 GiB`, `300 bytes`."""
    for unit, name in _UNITS:
        if count_bytes >= unit:
            return f"{count_bytes / unit:.4g} {name}"
    return f"{count_bytes} bytes"


def ports(config: ClusterConfig) -> tuple[PortUse, ...]:
    """Every TCP port that our nodes will listen on. Only a master listens for slaves."""
    uses = []
    for node in config.python_nodes:
        wanted = [
            (group.port, f"slaves of {group.name}", f"groups.{group.name}.port")
            for group in config.classic_groups_of(node)
            if group.master == node
        ]
        shared: dict[int, list[str]] = {}
        for ledger in config.ledger_groups_of(node):
            shared.setdefault(ledger.port, []).append(ledger.name)
        wanted += [
            (port, f"members and clients of {', '.join(names)}", f"groups.{names[0]}.port")
            for port, names in shared.items()
        ]
        if config.api_port is not None:
            wanted.append((config.api_port, "API, from the members' addresses only", "api_port"))
        uses += [
            PortUse(node=node, address=config.nodes[node], port=port, purpose=purpose, key=key)
            for port, purpose, key in wanted
        ]
    return tuple(uses)


def memory(config: ClusterConfig) -> tuple[MemoryBound, ...]:
    """The bounds on record bytes that the file sets, each where its group gives the node a role.

    A store takes all that waits as one batch, and as much may wait again meanwhile: twice the key.
    """
    bounds = []
    for node in config.python_nodes:
        for group in config.groups_of(node):
            append = isinstance(group, DLedgerGroup) or group.master == node
            receive = isinstance(group, DLedgerGroup) or group.master != node
            for key, held in (
                ("append_pending_bytes", append and group.append_pending_bytes),
                ("receive_pending_bytes", receive and group.receive_pending_bytes),
            ):
                if held:
                    what = f"{group.name}: {key}, waiting and in work"
                    bounds.append(MemoryBound(node=node, what=what, size_bytes=2 * held))
    return tuple(bounds)


def warnings(config: ClusterConfig) -> tuple[str, ...]:
    """What is allowed, but may surprise: one line each."""
    lines = [
        f"group {group.name}: {note}"
        for group in config.groups.values()
        for note in guarantee_of(group).notes
    ]
    for group in config.groups.values():
        if group.body_bytes_max > frames.BODY_BYTES_MAX:
            lines.append(
                f"group {group.name}: the API takes and shows records of"
                f" {size(frames.BODY_BYTES_MAX)}; larger ones are for programs that embed the node,"
                " over the API they are TooLarge"
            )
    for node in config.nodes:
        if not config.groups_of(node):
            lines.append(f"node {node}: in no group, it only serves its API")
    if config.api_port is not None:
        lines.append(
            "api_port: reads pass for any program at a member's address, all else for who has the"
            " secret, DATA_DIR/cluster.secret, which is the same on all machines; nothing there is"
            " encrypted: who sits between two machines sees it, and can change it"
        )
    apart = [one for one in config.python_nodes if not ip_address(config.nodes[one]).is_loopback]
    if config.api_port is None and len(apart) > 1:
        shown = ", and a slave that cannot ask its master shows no records"
        lines.append(
            "no api_port: nodes on different machines cannot ask each other"
            f"{shown if config.classic_groups else ''}"
        )
    return tuple(lines)


def render(
    config: ClusterConfig,
    sockets: Mapping[str, str],
    more: tuple[MemoryBound, ...] = (),
    notes: tuple[str, ...] = (),
) -> str:
    """The whole page, without the trees (which the caller has).

    Args:
        sockets: node -> path of its Unix socket.
        more: bounds that no key of the file sets.
        notes: what else is to know, which the file does not say.
    """
    blocks = [_head(config)]
    blocks += [_group(group) for group in config.groups.values()]
    blocks += [_ports(config, sockets), _memory((*memory(config), *more))]
    found = (*warnings(config), *notes)
    if found:
        blocks.append("\n".join(["to know", *(f"  {line}" for line in found)]))
    return "\n\n".join(blocks)


def _columns(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows with their columns aligned, indented by two."""
    listed = list(rows)
    widths = [max(len(row[i]) for row in listed) for i in range(len(listed[0]))] if listed else []
    return [
        "  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in listed
    ]


def _head(config: ClusterConfig) -> str:
    rows = []
    for node, address in config.nodes.items():
        roles = [f"{_role(group, node)} of {group.name}" for group in config.groups_of(node)]
        kind = "" if node in config.python_nodes else "Java, not run here: "
        rows.append((node, address, kind + (", ".join(roles) or "in no group")))
    return "\n".join(
        [
            f"cluster {config.name}",
            f"  data in {config.data_dir}/NODE",
            f"  an ordered stop sends {_receivers(config)} what they lack for"
            f" {config.drain_timeout_s:g} s"
            f" at most, then takes at most {config.stop_timeout_s:g} s",
            f"  a node that does not answer for {config.answer_timeout_s:g} s counts as silent",
            "",
            "nodes",
            *_columns(rows),
        ]
    )


def _receivers(config: ClusterConfig) -> str:
    kinds = {isinstance(group, DLedgerGroup) for group in config.groups.values()}
    return " and ".join("followers" if elects else "slaves" for elects in sorted(kinds))


def _role(group: Group, node: str) -> str:
    if isinstance(group, DLedgerGroup):
        return "member"
    return "master" if group.master == node else "slave"


def _group(group: Group) -> str:
    promise = guarantee_of(group)
    rows = [
        ("kind", promise.mode),
        ("an append returns when", promise.returns_when),
        ("and then survives", promise.holds_after),
        ("a fresh read", confirmed_by(group)),
        ("an append waits", f"at most {group.append_timeout_s:g} s, then its outcome is unknown"),
        *(_ledger_rows(group) if isinstance(group, DLedgerGroup) else _classic_rows(group)),
        ("a record", f"holds at most {size(group.body_bytes_max)}"),
    ]
    return "\n".join([f"group {group.name}", *_columns(rows)])


def _ledger_rows(group: DLedgerGroup) -> list[tuple[str, str]]:
    leak_s = group.heartbeat_interval_s * group.heartbeat_leaks
    quota = group.push_quota_bytes_per_s
    return [
        (
            "a leader",
            f"sends a heartbeat every {group.heartbeat_interval_s:g} s; after {leak_s:g} s without"
            " one, members elect another",
        ),
        (
            "a campaign",
            f"begins {group.vote_interval_min_s:g} to {group.vote_interval_max_s:g} s later",
        ),
        (
            "pushes",
            f"at most {group.pending_max} unanswered to each member, "
            + (f"{size(quota)}/s to one far behind" if quota else "no rate limit"),
        ),
        (
            "files",
            f"{size(group.data_file_bytes)} each, deleted {group.file_reserved_time_h} h after the"
            " last write"
            if group.store == "file"
            else "none: the log is in memory",
        ),
    ]


def _classic_rows(group: ClassicGroup) -> list[tuple[str, str]]:
    limit = group.max_ha_transfer_bytes_per_s
    return [
        (
            "an idle link",
            f"has a heartbeat every {group.ha_send_heartbeat_interval_s:g} s"
            f" and ends after {group.ha_housekeeping_interval_s:g} s of silence",
        ),
        (
            "a slave connects",
            f"within {group.connect_timeout_s:g} s, {_again(group.reconnect_interval_s)}",
        ),
        (
            "frames",
            f"at most {size(group.frame_bytes)}, "
            + (f"{size(limit)}/s for each slave" if limit else "no rate limit"),
        ),
        (
            "files",
            f"{size(group.segment_bytes)} each, deleted {group.file_reserved_time_h} h after the"
            f" last write; appends are refused above {group.disk_full_ratio:.0%} of the disk",
        ),
    ]


def _again(interval_s: float) -> str:
    first_s = min(RECONNECT_FIRST_S, interval_s)
    return f"again after {first_s:g} s, then after twice as long each time, up to {interval_s:g} s"


def _ports(config: ClusterConfig, sockets: Mapping[str, str]) -> str:
    rows = [(use.node, f"{use.address}:{use.port}", use.purpose) for use in ports(config)]
    unix = [(node, path, "API") for node, path in sockets.items()]
    return "\n".join(["listening", *_columns([*rows, *unix])])


def _memory(bounds: tuple[MemoryBound, ...]) -> str:
    rows = [(bound.node, bound.what, size(bound.size_bytes)) for bound in bounds]
    total = size(sum(bound.size_bytes for bound in bounds))
    return "\n".join(["memory for records, at most", *_columns([*rows, ("all", "", total)])])
