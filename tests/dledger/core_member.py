"""One member's parts without actors: their effects are carried out in order, the log is a list."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import attrs
import core_dialect
from core_calls import ask_vote, beat, send_transfer
from core_changes import Changes
from core_disk import ENTRY_BYTES, Append
from core_process import Process
from entry_kit import new_entry

from actors.dledger.core import quorum
from actors.dledger.core.dispatch import Dispatch
from actors.dledger.core.election import Election
from actors.dledger.core.election_effects import Effects, RoleChanged
from actors.dledger.core.intake import Intake
from actors.dledger.core.intake_effects import IntakeEffects, Pushed, StoreChange
from actors.dledger.core.member_state import MemberState, Role
from actors.dledger.core.push_effects import DispatchEffects, Push, PushAnswer
from actors.dledger.core.settings import AckSettings
from actors.dledger.core.transfer import TransferAsked
from actors.dledger.core.votes import VoteAsked
from actors.dledger.replication.entry_handler import CatchingUp
from actors.log_types import Membership
from wire.dledger.rpc import PushEntryRequest


@attrs.define(eq=False)
class Member(Process):
    """One member's actors, without actors."""

    election: Election = attrs.field(init=False)
    intake: Intake = attrs.field(init=False)
    quorum: quorum.Quorum[Append] = attrs.field(init=False)
    dispatches: dict[str, Dispatch] = attrs.field(factory=dict, init=False)
    changes: Changes = attrs.field(init=False)
    catching_up: CatchingUp = attrs.field(init=False)
    session: int = 0
    holding: bool = False
    committed: int = -1  # as far as this life knows

    @property
    def foreign(self) -> bool:
        """It speaks another dialect."""
        return self.name in self.world.foreign

    # ---- life ----

    def start(self) -> None:
        world = self.world
        self.incarnation += 1
        self.up, self.session, self.holding = True, 0, False
        self.ticks.clear()
        state = MemberState(
            self_id=self.name,
            members=world.names,
            vote=self.disk.vote,
            end=self.disk.end,
            membership=Membership.FULL if self.foreign else self.disk.begun(),
        )
        rng = Random(world.rng.getrandbits(32))
        compat = world.compat
        raft, stands = self.name in world.raft_votes, not self.foreign
        votes = attrs.evolve(world.election, raft_votes=raft, candidate=stands)
        self.election = Election(settings=votes, state=state, rng=rng, compat=compat)
        self.changes, self.catching_up = Changes(self.disk), CatchingUp()
        self.intake = Intake(
            settings=world.push, ledger=self.changes, waiting_max=1024, compat=compat
        )
        peers = state.peers
        self.quorum = quorum.Quorum(
            self_id=self.name, peers=peers, settings=AckSettings(), compat=compat
        )
        self.dispatches = {
            peer: Dispatch(peer=peer, settings=world.push, sizes=self.disk, compat=compat)
            for peer in peers
        }
        self.role_effects(self.election.started(world.now_s))

    def stop(self) -> None:
        """SIGKILL with the power gone: of what is not synced any prefix stays."""
        self.up = False
        self.committed = -1
        keep = self.world.rng.randint(self.disk.synced, len(self.disk.log))
        del self.disk.log[keep:]
        self.disk.synced = len(self.disk.log)

    # ---- roles ----

    def role_effects(self, effects: Effects) -> None:
        world, now = self.world, self.world.now_s
        if effects.persist is not None:
            self.disk.vote = effects.persist
        if effects.joined:
            self.disk.noted, self.disk.lost = Membership.FULL, False
        if effects.role is not None:
            self._role(effects.role)
        if effects.hold_appends is not None:
            self.holding = effects.hold_appends
            if self.holding:
                session = self.session
                self.later(
                    0.001,
                    lambda: self.role_effects(
                        self.election.held(world.now_s, session, self.disk.end)
                    ),
                )
        if effects.ask_votes is not None:
            ask = effects.ask_votes
            asked = VoteAsked(candidate=self.name, term=ask.term, end=ask.end)
            for peer in self.election.state.peers:
                ask_vote(self, peer, ask.number, asked)
        if effects.send_heartbeats is not None:
            beats = effects.send_heartbeats
            for peer in self.election.state.peers:
                beat(self, peer, beats.number, beats.term)
        if effects.send_transfer is not None:
            send = effects.send_transfer
            send_transfer(
                self,
                send.number,
                TransferAsked(
                    token=0,
                    transferer=self.name,
                    transferee=send.transferee,
                    term=send.term,
                    index=send.index,
                ),
            )
        for answer in effects.transfers:
            world.transfer_answered(self.name, answer)
        self.timer(
            "election",
            effects.deadline_s,
            lambda: self.role_effects(self.election.tick(world.now_s)),
        )
        assert now == world.now_s

    def _role(self, role: RoleChanged) -> None:
        """All parts at once; in the real member these are messages in this order."""
        assert role.session > self.session
        self.session = role.session
        self.changes.held.clear()  # the store refuses them
        self.world.saw_role(self.name, role)
        end, begin = self.disk.end, self.disk.first
        if role.role is not Role.LEADER:
            for dispatch in self.dispatches.values():
                dispatch.rest()
            for wait in self.quorum.rest().lost:
                self.world.answered(wait, "unknown")
            self.holding = False
        session = role.session
        if role.role is Role.FOLLOWER:
            self.disk.synced = len(self.disk.log)
            self.catching_up.follow(role.leader, role.term)
            self.intake_effects(
                self.intake.follow(
                    session=session,
                    term=role.term,
                    leader=role.leader,
                    begin=begin,
                    end=end.index,
                    committed=self.quorum.committed,
                )
            )
        else:
            self.intake_effects(self.intake.rest(session=session, term=role.term))
        if role.role is Role.LEADER:
            self.disk.synced = len(self.disk.log)
            self.quorum_effects(
                self.quorum.lead(session=session, term=role.term, end=end.index, end_term=end.term)
            )
            for peer, dispatch in self.dispatches.items():
                self.dispatch_effects(
                    peer,
                    session,
                    dispatch.lead(
                        self.world.now_s,
                        term=role.term,
                        begin=begin,
                        end=end.index,
                        committed=self.quorum.committed,
                    ),
                )
            if self.world.compat.term_entry != "none":
                self.append(f"term{role.term}-{self.name}-{self.incarnation}-{session}")
        self.later(
            0.001, lambda: self.role_effects(self.election.fenced(self.world.now_s, session, end))
        )

    # ---- the log ----

    def append(self, name: str, count: int = 1) -> None:
        """A client's, on a leader."""
        first = len(self.disk.log)
        term = self.election.state.term
        for index in range(first, first + count):
            body = f"{name}.{index - first}".encode()
            entry = new_entry(index=index, term=term, pos=ENTRY_BYTES * index, body=body)
            self.world.made(self, entry)
            self.disk.log.append(entry)
        last = len(self.disk.log) - 1
        self.quorum_effects(
            self.quorum.waiting(Append(name=name, last=last, deadline_s=self.world.now_s + 2.5))
        )
        session = self.session
        self._grew()

        def stored(synced: int) -> None:
            self.quorum_effects(self.quorum.stored(session, synced - 1))

        self.sync(stored)

    def _grew(self) -> None:
        session, end = self.session, len(self.disk.log) - 1
        for peer, dispatch in self.dispatches.items():
            effects = dispatch.grew(self.world.now_s, self.disk.first, end)
            self.dispatch_effects(peer, session, effects)

    def expire(self, first: int) -> None:
        """What is before that entry, which is committed, is kept no longer."""
        assert self.disk.begin <= first <= self.committed
        self.disk.begin = first
        if self.election.state.role is Role.LEADER:
            self._grew()
        elif self.election.state.role is Role.FOLLOWER and not self.changes.held:
            self.intake_effects(self.intake.expired(first))

    def sync(self, then: Callable[[int], None]) -> None:
        """All that is written by now is on the disk a little later, and known still later."""
        session, until = self.session, len(self.disk.log)
        world, compat = self.world, self.world.compat

        def known(synced: int) -> None:
            if session == self.session:
                then(synced)
                self._report_end(synced)

        def done() -> None:
            if session == self.session:
                self.disk.synced = max(self.disk.synced, min(until, len(self.disk.log)))
                synced = self.disk.synced
                self.later(world.rng.uniform(0.0, 0.002), lambda: known(synced))

        self.later(world.rng.uniform(0.0, world.faults.sync_max_s), done)
        if compat.ack_unsynced:
            self.later(0.0, lambda: known(until))

    def _report_end(self, synced: int) -> None:
        end = self.disk.end_of(min(synced, len(self.disk.log)))
        grew = self.election.grew(self.world.now_s, self.session, end)
        self.role_effects(grew)

    def quorum_effects(self, effects: quorum.QuorumEffects[Append]) -> None:
        world = self.world
        if effects.committed is not None:
            world.committed(self, effects.committed)
            for peer, dispatch in self.dispatches.items():
                self.dispatch_effects(
                    peer, self.session, dispatch.committed(world.now_s, effects.committed)
                )
            self._report_end(self.disk.synced)
        for wait in effects.done:
            world.answered(wait, "done")
        for wait in (*effects.timed_out, *effects.lost):
            world.answered(wait, "unknown")
        self.timer(
            "quorum", effects.deadline_s, lambda: self.quorum_effects(self.quorum.tick(world.now_s))
        )

    def dispatch_effects(self, peer: str, session: int, effects: DispatchEffects) -> None:
        world, dispatch = self.world, self.dispatches[peer]
        if session != self.session:
            return
        for push in effects.pushes:
            self._push(peer, session, push)
        self.timer(
            f"to {peer}",
            effects.deadline_s,
            lambda: self.dispatch_effects(peer, session, dispatch.tick(world.now_s)),
        )
        if effects.matched is not None:
            self.quorum_effects(self.quorum.matched(session, peer, effects.matched))
        if effects.larger_term is not None:
            self.role_effects(self.election.saw_term(world.now_s, effects.larger_term))

    def _push(self, peer: str, session: int, push: Push) -> None:
        if 0 <= push.first < self.disk.begin:
            effects = self.dispatches[peer].unreadable(self.world.now_s, push)
            self.dispatch_effects(peer, session, effects)
            return
        entries = () if push.first < 0 else tuple(self.disk.log[push.first : push.last + 1])
        term = self.election.state.term

        request = PushEntryRequest(
            type=push.type, leader_id=self.name, term=term, batch_entry=entries
        )

        def arrive(there: Member) -> None:
            if there.foreign:
                there.world.count("answers in another dialect")
                answer = core_dialect.answer(push, term)
                there.send(self.name, there._push_answer(session, push, answer))
                return
            token = self.world.push_token(self.name, session, push)
            there.catching_up.saw(request)
            there.intake_effects(
                there.intake.pushed(
                    self.world.now_s,
                    Pushed(
                        token=token,
                        type=push.type,
                        term=term,
                        leader=self.name,
                        commit_index=push.commit_index,
                        entries=entries,
                    ),
                )
            )

        self.send(peer, arrive)

    def intake_effects(self, effects: IntakeEffects) -> None:
        world = self.world
        assert not effects.alarm, effects.alarm
        for change in effects.changes:
            self._store(change)
        if effects.committed is not None:
            matched = -1 if self.intake.matched is None else self.intake.matched
            within = effects.committed <= matched or world.compat.commit_to_end
            assert within, "committed beyond what matches"  # CommitWithinMatch
            leaving, index = self.changes.leaving, effects.committed
            stays = leaving is None or index < leaving
            world.promise(stays, f"CommittedNeverLeaves: {index}, from {leaving} on all leave")
            self.quorum.followed(effects.committed)
            world.committed(self, effects.committed)
        for token, answer in effects.answers:
            leader, session, push = world.tokens[token]
            self.send(leader, self._push_answer(session, push, answer))
        if effects.larger_term is not None:
            self.role_effects(self.election.saw_term(world.now_s, effects.larger_term))
        if self.catching_up.has(self.intake):
            self.role_effects(self.election.caught_up(world.now_s, self.session))
        self.timer(
            "intake", effects.deadline_s, lambda: self.intake_effects(self.intake.tick(world.now_s))
        )

    def _store(self, change: StoreChange) -> None:
        """A removal may wait, as it does for a sync; what comes behind it waits with it."""
        held = self.changes.held
        held.append(change)
        if len(held) == 1:
            delay_s = 0.0 if self.changes.leaving is None else self.world.removal_delay_s()
            if delay_s:
                self.later(delay_s, lambda: self._store_held(change))
            else:
                self._store_held(change)

    def _store_held(self, first: StoreChange) -> None:
        """All that is held, unless that one was refused meanwhile."""
        held, intake = self.changes.held, self.intake
        if not held or held[0] is not first:
            return
        while held:
            change = held.popleft()
            self.changes.carry_out(self, change)
            self.sync(partial(self._stored, change))
        if intake.begin < self.disk.begin <= intake.end:  # expired meanwhile
            self.intake_effects(intake.expired(self.disk.begin))

    def _stored(self, change: StoreChange, synced: int) -> None:
        self.intake_effects(self.intake.stored_to(change.session, change.number, synced - 1))

    def _push_answer(
        self, session: int, push: Push, answer: PushAnswer
    ) -> Callable[[Member], None]:
        def arrive(here: Member) -> None:
            if here.session == session:
                here.dispatch_effects(
                    self.name,
                    session,
                    here.dispatches[self.name].answered(here.world.now_s, push, answer),
                )

        return arrive
