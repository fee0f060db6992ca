"""`check`: what a cluster file means, in words, before anything starts.

Pure functions from configuration to text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from actors.config.bounds import is_loopback
from actors.config.group import Group
from actors.config.kinds import KINDS, broker_ports, guarantee_of, kind_of
from actors.config.model import ClusterConfig
from actors.readable import size
from wire.api import frames


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


def ports(config: ClusterConfig) -> tuple[PortUse, ...]:
    """Every TCP port that our nodes will listen on."""
    uses = []
    for node in config.python_nodes:
        shared: dict[tuple[int, str], list[str]] = {}
        for group in config.groups_of(node):
            if group.role_of(node).listens:
                port = (group.port, kind_of(group).callers)
                shared.setdefault(port, []).append(group.name)
        wanted = [
            (port, f"{callers} of {', '.join(names)}", f"groups.{names[0]}.port")
            for (port, callers), names in shared.items()
        ]
        wanted += [
            (port, f"topics and offsets of {group.name}", f"groups.{group.name}.broker_port")
            for group in config.groups_of(node)
            for port in broker_ports(group)
        ]
        if node in config.name_servers:
            what = "name server: brokers, clients and mqadmin from anywhere"
            wanted.append((config.name_servers[node], what, f"name_servers.{node}"))
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
            role = group.role_of(node)
            for key, held in (
                ("append_pending_bytes", role.appends and group.append_pending_bytes),
                ("receive_pending_bytes", role.receives and group.receive_pending_bytes),
            ):
                if held:
                    what = f"{group.name}: {key}, waiting and in work"
                    bounds.append(MemoryBound(node=node, what=what, size_bytes=2 * held))
    return tuple(bounds)


def advertised(config: ClusterConfig) -> Iterator[str]:
    """Where name servers say that our brokers are, a line for each."""
    servers = ", ".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for host, port in config.registers_with
    )
    for group in config.groups.values() if servers else ():
        ports = broker_ports(group)
        for node in config.python_nodes if ports else ():
            if node in group.members:
                broker, ha = config.advertised_of(node), config.advertised_ha_of(node)
                yield (
                    f"group {group.name}: {node} registers as {broker}:{ports[0]}, for slaves"
                    f" {ha}:{group.port}, with {servers}"
                )


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
        if not config.groups_of(node) and node not in config.name_servers:
            lines.append(f"node {node}: in no group, it only serves its API")
    if config.name_servers:
        lines.append(
            "name_servers: whoever reaches the port may register, and change what clients are told"
        )
    lines += advertised(config)
    if config.api_port is not None:
        lines.append(
            "api_port: reads pass for any program at a member's address, all else for whoever has "
            "the"
            " secret, DATA_DIR/cluster.secret, which is the same on all machines; nothing there is"
            " encrypted: who sits between two machines sees it, and can change it"
        )
    return (*_about_addresses(config), *lines)


def _about_addresses(config: ClusterConfig) -> Iterator[str]:
    """What keeps nodes apart comes first."""
    is_local = {node: is_loopback(each) for node, each in config.nodes.items()}
    local = [node for node, is_here in is_local.items() if is_here]
    apart = [node for node in config.python_nodes if not is_local[node]]
    if config.api_port is None and len(apart) > 1:
        closed = [
            group.name
            for group in config.groups.values()
            if group.election is None and sum(node in apart for node in group.members) > 1
        ]
        waits = f": there NO MASTER OF {', '.join(closed)} WILL TAKE APPENDS, and a slave that"
        yield (
            "no api_port: nodes on different machines cannot ask each other"
            + f"{waits} cannot ask its master shows no records" * bool(closed)
        )
    if local and len(local) < len(is_local):
        others = ", ".join(node for node in is_local if node not in local)
        is_reached = "is reached" if len(local) == 1 else "are reached"
        yield (
            f"{', '.join(local)} {is_reached} from one machine only, by loopback addresses, and"
            f" {others} by others: members on other machines never find them"
        )


def render(
    config: ClusterConfig,
    sockets: Mapping[str, str],
    more: tuple[MemoryBound, ...] = (),
    notes: tuple[str, ...] = (),
    details: Iterable[str] = (),
    changes: Iterable[str] = (),
) -> str:
    """The whole page. What matters most comes last, where a terminal still shows it.

    Args:
        sockets: node -> path of its Unix socket.
        more: bounds that no key of the file sets.
        notes: what else is to know, which the file does not say.
        details: long blocks of the caller's, which come early.
        changes: blocks about what is not as it was.
    """
    blocks = [_head(config), *details, _memory((*memory(config), *more)), _ports(config, sockets)]
    blocks += [*map(_group, config.groups.values()), *changes]
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
        roles = [f"{group.role_of(node).name} of {group.name}" for group in config.groups_of(node)]
        roles += ["name server"] if node in config.name_servers else []
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
    used = {group.mode for group in config.groups.values()}
    return " and ".join(kind.copiers for mode, kind in KINDS.items() if mode in used)


def _group(group: Group) -> str:
    kind, promise = kind_of(group), guarantee_of(group)
    rows = [
        ("kind", promise.mode),
        ("an append returns when", promise.returns_when),
        ("and then survives", promise.holds_after),
        ("a fresh read", kind.fresh_read(group)),
        ("an append waits", f"at most {group.append_timeout_s:g} s, then its outcome is unknown"),
        *kind.rows(group),
        ("a record", f"holds at most {size(group.body_bytes_max)}"),
    ]
    return "\n".join([f"group {group.name}", *_columns(rows)])


def _ports(config: ClusterConfig, sockets: Mapping[str, str]) -> str:
    rows = [(use.node, f"{use.address}:{use.port}", use.purpose) for use in ports(config)]
    unix = [(node, path, "API") for node, path in sockets.items()]
    return "\n".join(["listening", *_columns([*rows, *unix])])


def _memory(bounds: tuple[MemoryBound, ...]) -> str:
    rows = [(bound.node, bound.what, size(bound.size_bytes)) for bound in bounds]
    total = size(sum(bound.size_bytes for bound in bounds))
    return "\n".join(["memory for records, at most", *_columns([*rows, ("all", "", total)])])
