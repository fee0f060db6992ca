"""The settings of a group's connections, on the master and on a slave."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from actors.config.bounds import RECONNECT_FIRST_S
from actors.env.protocols import Address, Disk, RunBeside, run_here
from actors.ha import connection_state, group_transfer, role_messages
from actors.ha.core.dialect import Dialect
from actors.ha.own_epochs import OwnEpochs
from actors.ha.record_verifier import RecordVerifier
from actors.runtime import ActorRef, Registry
from actors.storage.commitlog import store_messages
from actors.storage.scrub import scrubber_messages


@attrs.frozen(kw_only=True)
class ConnectionSettings:
    """What all connections of a group on the master share.

    Attributes:
        log_folder: the store's `commitlog/`.
        synced: whether only synced bytes are sent.
        rate_bytes_per_s: the limit of each connection; None = no limit.
        poll_s: how often a writer that has sent all looks again; None: it is woken by every growth
            of the log.
        connections_path: the path of the dynamic supervisor, for the names below it.
        scrubber: checks bytes before they are sent; None: they are not checked.
    """

    registry: Registry
    disk: Disk
    dialect: Dialect
    log_folder: str
    segment_bytes: int
    frame_bytes: int
    synced: bool
    heartbeat_s: float
    housekeeping_s: float
    rate_bytes_per_s: int | None
    poll_s: float | None = None
    connections_path: str
    store: ActorRef[store_messages.Message]
    group_transfer: ActorRef[group_transfer.Message]
    connection_state: ActorRef[connection_state.Message]
    scrubber: ActorRef[scrubber_messages.Check] | None = None


@attrs.frozen(kw_only=True)
class ClientSettings:
    """The settings of a slave's client; units as in the configuration.

    Attributes:
        own_host: the address that it connects from; None: the system chooses it.
        keeper: the role keeper, which is told how far the log was reported; None: there is none.
        judge: who says whether this log may follow the master, the role keeper in a cluster; None:
            it may.
        reconnect_first_s: the first pause before another attempt.
        passive: whether it repeats the first report of each connection, so that nothing that comes
            after it counts at the master.
        receive_bytes_per_s: how much it receives in a second at most; None = no limit.
        verifier: makes a verifier that checks records, from an offset on where one begins, before
            they are reported; None: the master has compared what it sends.
        epochs: of a dialect with a handshake about epochs; None: of another one.
    """

    own_host: str | None
    master: Address
    dialect: Dialect
    synced: bool
    segment_bytes: int
    heartbeat_s: float
    housekeeping_s: float
    connect_timeout_s: float
    reconnect_interval_s: float
    reconnect_first_s: float = RECONNECT_FIRST_S
    keeper: ActorRef[role_messages.Message] | None = None
    judge: ActorRef[role_messages.Verify] | None = None
    passive: bool = False
    receive_bytes_per_s: int | None = None
    verifier: Callable[[int], RecordVerifier] | None = None
    run_beside: RunBeside = run_here
    epochs: OwnEpochs | None = None
