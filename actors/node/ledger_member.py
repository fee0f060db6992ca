"""This node's member of a DLedger group: its state and its actors; the base of `LedgerPart`."""

from __future__ import annotations

from typing import ClassVar

import attrs

from actors.api.handle import NodeIdentity
from actors.config import DLedgerGroup
from actors.control.members import MemberLinks
from actors.dledger.leader_status import LeaderStatus
from actors.dledger.reading.entry_reader import GetEntry, Inspect
from actors.dledger.replication.append_messages import Append, GetReadIndex, GetWatermarks
from actors.dledger.rpc.rpc_messages import Asked
from actors.dledger.session_messages import ProveLeader
from actors.node.ledger_peers import LedgerPeers
from actors.node.part import GroupCounts, Part
from actors.runtime import ActorRef
from actors.storage.commitlog.pull_service import Read, WatchOffsets
from actors.storage.ledger.store_messages import GetRoom, Mend


@attrs.define(eq=False, kw_only=True)
class LedgerMember(Part):
    """See the module's text.

    Attributes:
        role_status: what this member is in the group.
        checker: the quorum_ack_checker, which takes appends.
        maintainer: the state_maintainer, which knows whether this member leads, and hands over.
        reader: the entry_reader, which takes reads.
        store: the store, which mends the log, and knows whether its disk has room.
        repairing: see `Part`.
        peers: reports what the member knows of the others.
    """

    links: MemberLinks
    identity: NodeIdentity
    group: DLedgerGroup
    role_status: LeaderStatus
    checker: ActorRef[Append | GetWatermarks | GetReadIndex]
    maintainer: ActorRef[ProveLeader | Asked]
    reader: ActorRef[Read | WatchOffsets | Inspect | GetEntry]
    store: ActorRef[Mend | GetRoom]
    peers: LedgerPeers
    counts: GroupCounts = attrs.Factory(GroupCounts)
    repairing: str = ""

    how_it_is_led: ClassVar[str] = (
        "its members elect their leader, and `transfer-leader` changes who leads"
    )

    @property
    def node(self) -> str:
        """Implements `Part`."""
        return self.identity.node

    @property
    def file_group(self) -> DLedgerGroup:
        """Implements `Part`. No election changes what the cluster file says of the group."""
        return self.group

    @property
    def is_open(self) -> bool:
        """Implements `Part`."""
        return self.role_status.is_open

    @property
    def leader(self) -> str:
        """Implements `Part`."""
        return self.role_status.leader
