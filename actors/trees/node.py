"""The tree of a node: its event log, its groups of either kind, its API.

One_for_one: a group that crashes too often is started again from its files, and no other hears of
it; one whose storage failed ends the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from actors.config import ClusterConfig, Group
from actors.dledger.leader_board import LeaderBoard
from actors.env import Env
from actors.ha.role_keeper import RoleKeeper
from actors.ha.role_parts import RoleParts, fresh_reads, role_rules
from actors.runtime import (
    AutoShutdown,
    ChildSpec,
    LazySpec,
    Registry,
    Restart,
    Strategy,
    SupervisorSpec,
)
from actors.state_machine import Machines
from actors.storage.dledger.member_opening import MemberNote
from actors.trees import classic
from actors.trees.ledger_places import LedgerPlace
from actors.trees.places import GroupPlace


def node_tree(
    config: ClusterConfig,
    node: str,
    env: Env,
    registry: Registry,
    *,
    roles: Mapping[str, RoleParts] | None = None,
    boards: Mapping[str, LeaderBoard] | None = None,
    machines: Machines | None = None,
    member_notes: Mapping[str, MemberNote] | None = None,
    before: tuple[ChildSpec, ...] = (),
    after: tuple[ChildSpec, ...] = (),
) -> SupervisorSpec:
    """All of one node: `before` (the event log), its roles, its groups, the ports that DLedger
    groups share, `after` (the API).

    A group that crashes too often is started again from its files; one whose storage failed ends
    the node. A group's tree is built for the role that it has at the moment.

    Args:
        roles: by classic group; None: the cluster file alone says who is master, and nobody is
            asked.
        boards: by DLedger group, where its member says its role; None: nobody reads them.
        machines: by DLedger group, where it has a state machine.
        member_notes: by DLedger group, what the node knows of its member; None: nothing.
    """
    places = [
        GroupPlace(config=config, node=node, group=group, env=env, registry=registry)
        for group in config.classic_groups_of(node)
    ]
    keepers = () if roles is None or not places else (_roles(places, roles),)
    ledgers = [
        LedgerPlace(
            config=config,
            node=node,
            group=group,
            env=env,
            registry=registry,
            board=LeaderBoard() if boards is None else boards[group.name],
            machine=None if machines is None else machines.get(group.name),
            member_note=None if member_notes is None else member_notes.get(group.name),
        )
        for group in config.ledger_groups_of(node)
    ]
    groups = [_group(each.group, LazySpec(partial(_group_now, each, roles))) for each in places]
    if ledgers:
        groups += _ledger_children(ledgers)
    return SupervisorSpec(
        strategy=Strategy.ONE_FOR_ONE,
        children=(*before, *keepers, *groups, *after),
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        takes_requests=True,
    )


def _group(group: Group, start: SupervisorSpec | LazySpec) -> ChildSpec:
    return ChildSpec(name=group.name, start=start, restart=Restart.TRANSIENT, significant=True)


def _ledger_children(places: list[LedgerPlace]) -> list[ChildSpec]:
    """The DLedger groups, and behind them, so that doors close first, the ports that several share.

    A fifth of what a node imports is for them alone, so it is imported by nodes that have some.
    """
    from actors.trees import dledger

    ports: dict[int, list[LedgerPlace]] = {}
    for place in places:
        ports.setdefault(place.group.port, []).append(place)
    groups = [
        _group(each.group, dledger.group_tree(each, serves=len(ports[each.group.port]) == 1))
        for each in places
    ]
    servers = tuple(
        ChildSpec(name=f"port-{port}", start=dledger.shared_server(tuple(here)))
        for port, here in ports.items()
        if len(here) > 1
    )
    if servers:
        groups.append(ChildSpec(name="rpc", start=SupervisorSpec(children=servers)))
    return groups


def _group_now(place: GroupPlace, roles: Mapping[str, RoleParts] | None) -> SupervisorSpec:
    if roles is None:
        return classic.group_tree(place)
    parts = roles[place.group.name]
    return classic.group_tree(place.led_by(parts.promotion, parts.record().cut_bytes, parts.board))


def _roles(places: list[GroupPlace], roles: Mapping[str, RoleParts]) -> ChildSpec:
    """The role keepers. What one has remembered is in doubt when it crashes: the node ends."""
    return ChildSpec(
        name="roles",
        start=SupervisorSpec(
            children=tuple(
                ChildSpec(
                    name=place.group.name,
                    start=partial(_role_keeper, place, roles[place.group.name]),
                    restart=Restart.TEMPORARY,
                    significant=True,
                )
                for place in places
            ),
            auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        ),
        restart=Restart.TEMPORARY,
        significant=True,
    )


def _role_keeper(place: GroupPlace, parts: RoleParts) -> RoleKeeper:
    registry, paths, group = place.registry, place.paths, place.group
    return RoleKeeper(
        group=group.name,
        rules=role_rules(place.config, group, place.node, parts.record(), place.env.rng),
        board=parts.board,
        remember=parts.remember,
        note=parts.note,
        root=registry.ref(f"/{place.node}"),
        store_ref=registry.ref(paths.store),
        transfer_ref=registry.ref(paths.group_transfer),
        link=lambda member: registry.ref(paths.link(member)),
        fresh=fresh_reads(group, place.node),
    )
