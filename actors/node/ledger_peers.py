"""What a DLedger member knows of the others, for the node's status.

Its actors are asked for it, all at once, and only when a status is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import attrs
import trio

from actors.config import DLedgerGroup
from actors.dledger.core.election_effects import RoleChanged
from actors.dledger.core.member_state import Role
from actors.dledger.core.push_effects import DispatcherState
from actors.dledger.election.state_maintainer import LEAD_AGAIN_S
from actors.dledger.rpc.peer_messages import (
    GetLink,
    GetProgress,
    GetSigns,
    GetTaking,
    Link,
    PeerSign,
    Progress,
    Signs,
    Taking,
)
from actors.group_status import FOLLOWING, Peer
from actors.node.part import STATUS_TIMEOUT_S
from actors.runtime import ActorError, ActorRef, Registry, ReplyTo
from actors.storage.files.room import NO_ROOM
from actors.storage.ledger.store_messages import GetRoom
from actors.trees.ledger_setup import LedgerPaths, compat_settings

M = TypeVar("M")
R = TypeVar("R")

STATES: Final = {
    DispatcherState.COMPARE: "comparing",
    DispatcherState.TRUNCATE: "truncating",
    DispatcherState.APPEND: FOLLOWING,
    DispatcherState.INSTALL_SNAPSHOT: "installing a snapshot",
}
"""The texts for the state of a peer that answers, by the state of its dispatcher."""
SILENT: Final = "silent"
REFUSED: Final = "refused"
ANSWERS: Final = "answers"
JOINS: Final = "joins"
"""This and the next are the states of a peer for a member that does not lead. JOINS is a
provisional voter, whose vote counts only if all members vote.
"""
RESTS: Final = f"stands for election again within {LEAD_AGAIN_S:g} s: its disk had no room"
RESTARTING: Final = "restarting"
"""The state of a peer whose dispatcher is being restarted."""


@attrs.frozen(kw_only=True)
class Known:
    """What one member knows of the others, and whether it can do its own part.

    Attributes:
        refusal: why its store takes no entries (of its leader, on a follower); "" if it takes
            them, as far as is known. Without a leader no entries are offered.
        rests: why it does not lead for a while, though its store takes entries; "" if it may.
        unsaved_vote: why its vote cannot be saved, so that it takes no part in elections; "" if it
            is saved.
        joining: why its vote counts only if all members vote; "" if it counts by itself.
        peers: all other members on a leader, and those that it has asked for votes on a candidate.
            A state is one of this module's texts, with a reason if something is wrong.
    """

    refusal: str = ""
    rests: str = ""
    unsaved_vote: str = ""
    joining: str = ""
    peers: tuple[Peer, ...] = ()


@attrs.frozen(kw_only=True)
class LedgerPeers:
    """See the module's text.

    Attributes:
        maintainer: the state_maintainer, which receives votes and heartbeats.
        handler: the entry_handler, which takes a leader's entries.
        dispatchers: by peer, the entry_dispatcher that sends it the log.
        links: by peer, the connection for votes and heartbeats.
        store: the store, which knows whether the disk has room by now.
    """

    store: ActorRef[GetRoom]
    maintainer: ActorRef[GetSigns]
    handler: ActorRef[GetTaking]
    dispatchers: dict[str, ActorRef[GetProgress]]
    links: dict[str, ActorRef[GetLink]]

    @staticmethod
    def of(group: DLedgerGroup, node: str, registry: Registry) -> LedgerPeers:
        paths = LedgerPaths(f"/{node}/{group.name}")
        peers = [name for name in group.members if name != node]
        shared = compat_settings(group).shared_connection
        return LedgerPeers(
            store=registry.ref(paths.store),
            maintainer=registry.ref(paths.state_maintainer),
            handler=registry.ref(paths.entry_handler),
            dispatchers={peer: registry.ref(paths.dispatcher(peer)) for peer in peers},
            links={peer: registry.ref(paths.peer(peer, shared=shared)) for peer in peers},
        )

    async def known(self, role: RoleChanged | None) -> Known:
        """Return what this member knows now, while its role is `role`."""
        known = await self._known(role)
        if not known.refusal.startswith(NO_ROOM):
            return known
        # That was so when something was written last, which may have been a while ago.
        no_room = await _asked(self.store, str, lambda reply: GetRoom(reply_to=reply))
        if no_room != "":
            return known
        follows = role is not None and role.role is Role.FOLLOWER
        return attrs.evolve(known, refusal="", rests="" if follows else RESTS)

    async def _known(self, role: RoleChanged | None) -> Known:
        said = await _asked(self.maintainer, Signs, lambda reply: GetSigns(reply_to=reply))
        known = Known(
            refusal="" if said is None else said.full,
            unsaved_vote="" if said is None else said.unsaved_vote,
            joining="" if said is None else said.joining,
        )
        if role is not None and role.role is Role.FOLLOWER:
            taking = await _asked(self.handler, Taking, lambda reply: GetTaking(reply_to=reply))
            return attrs.evolve(known, refusal="" if taking is None else taking.refusal)
        found: dict[str, Peer] = {}
        signs = {sign.peer: sign for sign in (said.signs if said is not None else ())}
        leads = role is not None and role.role is Role.LEADER
        async with trio.open_nursery() as nursery:
            for peer in self.dispatchers:
                if leads or peer in signs:
                    nursery.start_soon(self._look, peer, signs.get(peer), leads, found)
        return attrs.evolve(
            known, peers=tuple(found[peer] for peer in self.dispatchers if peer in found)
        )

    async def _look(
        self, peer: str, sign: PeerSign | None, leads: bool, found: dict[str, Peer]
    ) -> None:
        progress, link = None, None
        if leads:
            progress = await _asked(
                self.dispatchers[peer], Progress, lambda reply: GetProgress(reply_to=reply)
            )
        if sign is not None and sign.silent:
            link = await _asked(self.links[peer], Link, lambda reply: GetLink(reply_to=reply))
        state, reason = _state(sign, progress, link, leads=leads)
        lag = progress.lag if progress is not None and progress.leading else None
        heard_s = None if sign is None else sign.heard_s
        found[peer] = Peer(
            node=peer,
            state=state,
            is_well=state == FOLLOWING,
            reason=reason,
            end=None if progress is None or lag is None else progress.matched + 1,
            lag=lag,
            heard_age_s=None if heard_s is None else round(trio.current_time() - heard_s, 3),
        )


def _state(
    sign: PeerSign | None, progress: Progress | None, link: Link | None, *, leads: bool
) -> tuple[str, str]:
    """Return a peer's state for people, and the reason if something is wrong, else ""."""
    if sign is not None and sign.silent:
        return SILENT, sign.refusal or (link.error if link is not None else "")
    if sign is not None and sign.refusal:
        return REFUSED, sign.refusal
    if not leads:
        return JOINS if sign is not None and sign.joins else ANSWERS, ""
    if progress is None:
        return RESTARTING, ""
    return (REFUSED, progress.refusal) if progress.refusal else (STATES[progress.state], "")


async def _asked(ref: ActorRef[M], kind: type[R], make: Callable[[ReplyTo[R]], M]) -> R | None:
    """Return an actor's answer; None if it is being restarted, or its mailbox is full."""
    try:
        return await ref.ask(kind, make, timeout_s=STATUS_TIMEOUT_S)
    except ActorError:
        return None
