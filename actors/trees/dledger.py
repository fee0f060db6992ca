"""The tree of a DLedger group on one of its members, built by pure functions.

A group is rest_for_one. Its listener comes last, so that it stops taking connections first. The
children are storage, state_machine_caller (only with a state machine), rpc_peers, entry_pusher,
entry_reader, state_maintainer, for controllers remoting_client and controller, and rpc_server.

- `storage` is store and syncer, one_for_all and significant: if either crashes, the group ends, and
  with it the node.
- `rpc_peers` has a connection to each peer for votes and heartbeats. Nothing large delays these
  (V14), because pushes use another connection, inside their dispatcher.
- `entry_pusher` is rest_for_one, with quorum_ack_checker, entry_handler and dispatchers. A crash of
  one dispatcher does not affect the others. After a crash of one of the first two, the session is
  renewed.
- A crash of the state machine's caller leaves the machine's state in doubt, so the group ends, and
  with it the node. The caller is ahead of all children that are restarted, so no crash of another
  part stops the machine.
- `controller` answers brokers. Its crash ends their connections, and they connect again.
- A crash of the state maintainer ends all connections. A peer that connects again finds a
  candidate.

Groups that share a port have one rpc_server, a child of the node (`shared_server`) behind all of
them. Requests to a group that is being restarted fail, and no connection ends.

Upstream: openmessaging/dledger, DLedgerServer.java, startup and shutdown (0.3.1.2), which order the
same parts by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Final

from actors.controller.controller import Controller
from actors.controller.session import controller_port
from actors.dledger.core.dispatch import Dispatch
from actors.dledger.core.intake import Intake
from actors.dledger.core.machine_guard import MachineGuard
from actors.dledger.core.quorum import Quorum
from actors.dledger.core.settings import AckSettings
from actors.dledger.election.joining import Joining
from actors.dledger.election.state_maintainer import StateMaintainer
from actors.dledger.machine.snapshot_keeping import SnapshotKeeping
from actors.dledger.machine.state_machine_caller import StateMachineCaller
from actors.dledger.reading.entry_reader import EntryReader
from actors.dledger.replication.entry_dispatcher import EntryDispatcher
from actors.dledger.replication.entry_handler import WAITING_MAX, EntryHandler
from actors.dledger.replication.pending_ledger import PendingLedger
from actors.dledger.replication.quorum_ack_checker import QuorumAckChecker
from actors.dledger.rpc.peer import PeerConnection, RPCPeer
from actors.dledger.rpc.refusal_log import RefusalLog
from actors.dledger.rpc.rpc_messages import Services
from actors.dledger.rpc.server import rpc_server
from actors.env import Address
from actors.remoting.client import RemotingClient
from actors.runtime import (
    AutoShutdown,
    Backoff,
    ChildSpec,
    Restart,
    Strategy,
    SupervisorSpec,
)
from actors.state_machine import StateMachine
from actors.storage.files.room import Room
from actors.storage.ledger.entry_window import EntryWindow
from actors.storage.ledger.ledger import LedgerStore
from actors.storage.ledger.member_opening import open_member, warn_of_stranger
from actors.storage.ledger.memory_ledger import open_memory_ledger
from actors.storage.ledger.snapshots import SnapshotFolder
from actors.storage.ledger.store import Store
from actors.storage.log.syncer import Syncer
from actors.trees.ledger_setup import (
    LedgerSetup,
    election_settings,
    ledger_settings,
    push_settings,
)
from actors.trees.node import GroupTrees, group_child, storage_child

DISPATCHER_BACKOFF: Final = Backoff(first_s=0.5, max_s=5.0)
"""The pause between crashes of one dispatcher, which handles a failed push without a crash."""


def group_tree(setup: LedgerSetup, *, serves: bool = True) -> SupervisorSpec:
    """Return the tree of one group on one member.

    Args:
        serves: whether the group listens on a port of its own.
    """
    server = ChildSpec(name="rpc_server", start=shared_server((setup,)))
    entry_pusher = _entry_pusher(setup, _term_body(setup))
    return SupervisorSpec(
        strategy=Strategy.REST_FOR_ONE,
        children=(
            _storage(setup),
            *_state_machine_caller(setup),
            ChildSpec(name="rpc_peers", start=_rpc_peers(setup)),
            ChildSpec(name="entry_pusher", start=entry_pusher),
            ChildSpec(name="entry_reader", start=partial(_entry_reader, setup)),
            ChildSpec(name="state_maintainer", start=partial(_state_maintainer, setup)),
            *((server,) if serves else ()),
            *_controller(setup),
        ),
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
    )


# ---- parts ----


def _term_body(setup: LedgerSetup) -> bytes | None:
    """Return the body of the entry that opens a term, or None if no entry does."""
    match setup.group.opens_term_with:
        case "empty":
            return b""
        case "none":
            return None


def _ledger(
    setup: LedgerSetup, emit: Callable[[object], None]
) -> Generator[None, None, LedgerStore]:
    group = setup.group
    note = setup.note
    ledger: LedgerStore
    if group.store == "memory":
        yield
        ledger = open_memory_ledger(
            setup.env.disk,
            setup.layout,
            setup.held,
            file_bytes=group.data_file_bytes,
            unsynced=setup.compat.vote_unsynced,
            had_vote=note is not None and note.had_vote(),
        )
    else:
        owner, settings = f"{setup.node}: {group.name}", ledger_settings(group)
        ledger = yield from open_member(
            setup.env, setup.layout, settings, note=note, owner=owner, emit=emit
        )
    if note is not None:
        note.opened(ledger)
    warn_of_stranger(ledger, setup.layout, (*group.members, *group.members_before), emit)
    return ledger


def _room(setup: LedgerSetup) -> Room:
    owner = f"{setup.node}: {setup.group.name}"
    return Room(disk=setup.env.disk, path=setup.layout.root, owner=owner)


def _storage(setup: LedgerSetup) -> ChildSpec:
    """Return the supervisor of syncer and store, which run together; the store stops first."""
    registry, paths, group = setup.registry, setup.paths, setup.group
    syncer = partial(
        Syncer,
        disk=setup.env.disk,
        store=registry.ref(paths.store),
        interval_s=0.0 if group.durability == "synced" else group.flush_interval_s,
        upstream=group.compat is not None,
    )
    store = partial(
        Store,
        start=lambda emit: _room(setup).wait(lambda: _ledger(setup, emit), emit),
        syncer=registry.ref(paths.syncer),
        data_file_bytes=group.data_file_bytes,
        checkpoint_interval_s=group.checkpoint_interval_s,
        pending_bytes=max(group.append_pending_bytes, group.receive_pending_bytes),
        by_snapshot=setup.machine is not None,
        recent=setup.recent,
    )
    return storage_child(syncer, store)


def _rpc_peers(setup: LedgerSetup) -> SupervisorSpec:
    def child(peer: str) -> ChildSpec:
        return ChildSpec(name=peer, start=lambda: RPCPeer(_connection(setup, peer, votes=True)))

    own = () if setup.compat.shared_connection else setup.peers
    return SupervisorSpec(children=tuple(map(child, own)))


def _connection(setup: LedgerSetup, peer: str, *, votes: bool) -> PeerConnection:
    """Return the settings of a connection to a peer.

    Args:
        votes: whether votes and heartbeats use it, which then also logs the peer's refusals.
    """
    return PeerConnection(
        peer=peer,
        address=Address(setup.address_of(peer), setup.group.port),
        local_host=setup.address_of(setup.node),
        network=setup.env.network,
        log=RefusalLog(setup.group.name) if votes else None,
    )


def _entry_pusher(setup: LedgerSetup, term_body: bytes | None) -> SupervisorSpec:
    dispatchers = tuple(
        ChildSpec(
            name=peer, start=partial(_entry_dispatcher, setup, peer), backoff=DISPATCHER_BACKOFF
        )
        for peer in setup.peers
    )
    return SupervisorSpec(
        strategy=Strategy.REST_FOR_ONE,
        children=(
            ChildSpec(
                name="quorum_ack_checker", start=partial(_quorum_ack_checker, setup, term_body)
            ),
            ChildSpec(name="entry_handler", start=partial(_entry_handler, setup)),
            ChildSpec(name="dispatchers", start=SupervisorSpec(children=dispatchers)),
        ),
    )


def _quorum_ack_checker(setup: LedgerSetup, term_body: bytes | None) -> QuorumAckChecker:
    registry, paths, group = setup.registry, setup.paths, setup.group
    settings = AckSettings(waiting_max=group.waiting_max, wait_s=group.append_timeout_s)
    return QuorumAckChecker(
        quorum=Quorum(
            self_id=setup.node,
            peers=setup.peers,
            settings=settings,
            compat=setup.compat,
            by_applied=setup.machine is not None,
        ),
        synced=setup.synced,
        term_body=term_body,
        body_bytes_max=group.body_bytes_max,
        pending_bytes=group.append_pending_bytes,
        store_ref=registry.ref(paths.store),
        maintainer=registry.ref(paths.state_maintainer),
        reader=registry.ref(paths.entry_reader),
        role_status=setup.role_status,
    )


def _entry_handler(setup: LedgerSetup) -> EntryHandler:
    registry, paths, group = setup.registry, setup.paths, setup.group
    ledger = PendingLedger(EntryWindow(setup.source()))
    return EntryHandler(
        sender=setup.sender,
        intake=Intake(
            settings=push_settings(group, to_java=False, machine=setup.machine is not None),
            ledger=ledger,
            waiting_max=WAITING_MAX,
            compat=setup.compat,
            machine=MachineGuard(None if setup.machine is None else -1),
        ),
        ledger=ledger,
        synced=setup.synced,
        pending_bytes=group.receive_pending_bytes,
        store_ref=registry.ref(paths.store),
        checker=registry.ref(paths.quorum_ack_checker),
        maintainer=registry.ref(paths.state_maintainer),
    )


def _entry_dispatcher(setup: LedgerSetup, peer: str) -> EntryDispatcher:
    registry, paths = setup.registry, setup.paths
    to_java, machine = peer in setup.group.java_nodes, setup.machine is not None
    settings = push_settings(setup.group, to_java=to_java, machine=machine)
    window = EntryWindow(setup.source(), recent=setup.recent)
    return EntryDispatcher(
        sender=setup.sender,
        connection=_connection(setup, peer, votes=setup.compat.shared_connection),
        dispatch=Dispatch(peer=peer, settings=settings, sizes=window, compat=setup.compat),
        window=window,
        timeout_s=settings.reply_timeout_s,
        store_ref=registry.ref(paths.store),
        checker=registry.ref(paths.quorum_ack_checker),
        maintainer=registry.ref(paths.state_maintainer),
        disk=setup.env.disk,
        role_status=setup.role_status,
        caller=registry.ref(paths.state_machine_caller) if machine else None,
    )


def _state_machine_caller(setup: LedgerSetup) -> tuple[ChildSpec, ...]:
    """Return the child that runs the state machine. The group ends with it."""
    if setup.machine is None:
        return ()
    start = partial(_machine_caller, setup, setup.machine)
    name = "state_machine_caller"
    return (ChildSpec(name=name, start=start, restart=Restart.TEMPORARY, significant=True),)


def _machine_caller(setup: LedgerSetup, make: Callable[[], StateMachine]) -> StateMachineCaller:
    group, paths, registry = setup.group, setup.paths, setup.registry
    folder = SnapshotFolder(setup.env.disk, setup.layout.snapshot, group.members)
    return StateMachineCaller(
        group=group.name,
        make=make,
        outlives=group.store == "file",
        keeping=SnapshotKeeping(folder, group.snapshot_keep),
        window=EntryWindow(setup.source()),
        entries_max=group.snapshot_entries,
        bytes_max=group.snapshot_bytes,
        disk=setup.env.disk,
        room=_room(setup),
        store_ref=registry.ref(paths.store),
        checker=registry.ref(paths.quorum_ack_checker),
        handler=registry.ref(paths.entry_handler),
        maintainer=registry.ref(paths.state_maintainer),
    )


def _entry_reader(setup: LedgerSetup) -> EntryReader:
    return EntryReader(
        self_id=setup.node,
        source=setup.source(),
        files=setup.files(),
        uncommitted=setup.compat.read_uncommitted,
        store_ref=setup.registry.ref(setup.paths.store),
        maintainer=setup.registry.ref(setup.paths.state_maintainer),
    )


def _state_maintainer(setup: LedgerSetup) -> StateMaintainer:
    registry, paths, group = setup.registry, setup.paths, setup.group
    shared = setup.compat.shared_connection
    actors = (
        # First: its machine hears that it leads before it gets what is appended then.
        *(() if setup.machine is None else (paths.state_machine_caller,)),
        paths.quorum_ack_checker,
        paths.entry_handler,
        *map(paths.dispatcher, setup.peers),
        paths.entry_reader,
    )
    return StateMaintainer(
        sender=setup.sender,
        addresses={
            name: str(Address(setup.address_of(name), group.port)) for name in group.members
        },
        settings=election_settings(group, setup.node),
        compat=setup.compat,
        synced=setup.synced,
        role_status=setup.role_status,
        store_ref=registry.ref(paths.store),
        checker=registry.ref(paths.quorum_ack_checker),
        actors={path: registry.ref(path) for path in actors},
        peers={peer: registry.ref(paths.peer(peer, shared=shared)) for peer in setup.peers},
        joining=Joining(setup.sender, setup.note),
    )


def _controller(setup: LedgerSetup) -> tuple[ChildSpec, ...]:
    """Return the children that make the member a controller; () if it is none."""
    view = setup.controller_view
    if view is None:
        return ()
    registry, paths, group = setup.registry, setup.paths, setup.group
    client = partial(
        RemotingClient, network=setup.env.network, local_host=setup.address_of(setup.node)
    )
    start = partial(
        Controller,
        group=group.name,
        member=setup.node,
        addresses={
            name: str(Address(setup.address_of(name), group.port)) for name in group.members
        },
        view=view,
        role_status=setup.role_status,
        checker=registry.ref(paths.quorum_ack_checker),
        maintainer=registry.ref(paths.state_maintainer),
        client=registry.ref(paths.remoting_client),
    )
    return (
        ChildSpec(name="remoting_client", start=client),
        ChildSpec(name="controller", start=start),
    )


def services(setup: LedgerSetup) -> Services:
    """Return the actors of this member to which its server routes requests."""
    registry, paths = setup.registry, setup.paths
    caller = None if setup.machine is None else registry.ref(paths.state_machine_caller)
    return Services(
        group=setup.group.name,
        member=setup.node,
        role_status=setup.role_status,
        state_maintainer=registry.ref(paths.state_maintainer),
        entry_handler=registry.ref(paths.entry_handler),
        quorum_ack_checker=registry.ref(paths.quorum_ack_checker),
        entry_reader=registry.ref(paths.entry_reader),
        state_machine_caller=caller,
    )


def shared_server(setups: tuple[LedgerSetup, ...]) -> SupervisorSpec:
    """Return the server of the groups of one node that share a port, like upstream's proxy."""
    setup, group = setups[0], setups[0].group
    members = [name for each in setups for name in each.group.members]
    addresses = frozenset(map(setup.address_of, members))
    network, host, port = setup.env.network, setup.address_of(setup.node), group.port
    next_connection = setup.connections.__next__
    if setup.controller_view is not None:
        return controller_port(
            network=network,
            host=host,
            port=port,
            where="controllers.port",
            addresses=addresses,
            services=services(setup),
            controller=setup.registry.ref(setup.paths.controller),
            next_connection=next_connection,
        )
    return rpc_server(
        network=network,
        host=host,
        port=port,
        where=f"groups.{group.name}.port",
        addresses=addresses,
        services=tuple(map(services, setups)),
        next_connection=next_connection,
    )


# ---- all groups of a node ----


def ledger_trees(setups: Sequence[LedgerSetup]) -> GroupTrees:
    """Return the groups of one node, and behind them the servers of shared ports, to stop first."""
    ports: dict[int, list[LedgerSetup]] = {}
    for setup in setups:
        ports.setdefault(setup.group.port, []).append(setup)
    servers = tuple(
        ChildSpec(name=f"port-{port}", start=shared_server(tuple(here)))
        for port, here in ports.items()
        if len(here) > 1
    )
    return GroupTrees(
        groups=tuple(
            group_child(
                setup.group.name, group_tree(setup, serves=len(ports[setup.group.port]) == 1)
            )
            for setup in setups
        ),
        behind=(ChildSpec(name="rpc", start=SupervisorSpec(children=servers)),) if servers else (),
    )
