"""What the members of `core_world` ask each other besides entries, and how they are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from actors.dledger.core.transfer import TransferAsked
from actors.dledger.core.votes import VoteAsked

if TYPE_CHECKING:
    from core_member import Member


def ask_vote(asker: Member, peer: str, number: int, asked: VoteAsked) -> None:
    world = asker.world

    def ask(there: Member) -> None:
        effects = there.election.vote_requested(world.now_s, asked)
        there.role_effects(effects)
        answer = effects.vote
        there.send(
            asker.name,
            lambda here: here.role_effects(
                here.election.vote_answered(world.now_s, number, there.name, answer)
            ),
        )

    asker.send(peer, ask)


def beat(leader: Member, peer: str, number: int, term: int) -> None:
    world = leader.world

    def hear(there: Member) -> None:
        effects = there.election.heartbeat(world.now_s, leader.name, term)
        there.role_effects(effects)
        answer = effects.heartbeat
        assert answer is not None
        there.send(
            leader.name,
            lambda here: here.role_effects(
                here.election.heartbeat_answered(
                    world.now_s, number, there.name, answer.code, answer.term, joins=answer.joins
                )
            ),
        )

    leader.send(peer, hear)


def send_transfer(leader: Member, number: int, asked: TransferAsked) -> None:
    world = leader.world

    def ask(there: Member) -> None:
        token = world.take_over_token(leader.name, number)
        taken = attrs.evolve(asked, token=token)
        there.role_effects(there.election.transfer_requested(world.now_s, taken, {}))

    leader.send(asked.transferee, ask)
