"""What a replica asks the leading controller for besides its own role: another sync state set for
its master (1001), and for an operator the replicas of the set (1006) and another master (1002).

Source: apache/rocketmq, broker/.../out/BrokerOuterAPI.java (alterSyncStateSet) and
tools/.../command/controller/ReElectMasterSubCommand.java, 5.3.3; autoswitch-ha.md 6.6, 7.3, 7.4.

Here is what is sent, and what each answer means.

Differs: upstream's master takes any refusal of a set as a failure and asks on (T15).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from actors.errors import OutcomeUnknown, TriologError
from actors.ha.autoswitch.messages import AlterSyncStateSet, SetAdopted, SetRefused
from actors.ha.core.sync_state_set import Refusal
from actors.runtime import ReplyTo
from wire.broker import controller as said
from wire.broker.codes import ResponseCode as Code
from wire.broker.dialect import Fields, encode_body
from wire.errors import RemoteProtocolError
from wire.remoting.frame import Frame
from wire.remoting.header import read_fields

_REFUSALS: Final[Mapping[int, Refusal]] = {
    Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED: Refusal.SAME,
    Code.CONTROLLER_INVALID_MASTER: Refusal.STALE,
    Code.CONTROLLER_FENCED_MASTER_EPOCH: Refusal.STALE,
    Code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH: Refusal.STALE,
    Code.CONTROLLER_INVALID_REPLICAS: Refusal.REPLICA,
    Code.CONTROLLER_BROKER_NOT_ALIVE: Refusal.REPLICA,
}
_KEPT: Final[Mapping[int, str]] = {
    Code.CONTROLLER_ELECT_MASTER_FAILED: (
        "replica {wanted} of {broker} cannot be master: it does not live, or is not in the sync"
        " state set"
    ),
    Code.CONTROLLER_MASTER_NOT_AVAILABLE: (
        "no replica of the sync state set of {broker} lives: one of them has to come back"
    ),
    Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED: "the controllers do not know the set {broker}",
    Code.CONTROLLER_NOT_LEADER: "{asked} leads the controllers no longer: ask again",
}
"""What an operator hears of who stays master, by the answer's code."""


class WishUnanswered(TriologError):
    """It is not known what became of a wish, and the text says why."""


class NotElected(TriologError):
    """No other replica became master for an operator. The text, one line, says why."""


@attrs.frozen
class GetReplicas:
    """To a replica's manager, from an operator: who is in the set, as the leading controller knows.

    Answered with ReplicasInfo, which is empty for a set that the controllers do not know; fails
    with WishUnanswered.
    """

    reply_to: ReplyTo[said.ReplicasInfo]


@attrs.frozen(kw_only=True)
class ElectMaster:
    """To a replica's manager, from an operator: have another master elected.

    Answered with Elected; fails with NotElected, or OutcomeUnknown.

    Attributes:
        broker_id: who is to be master. Without it (upstream's -1) the controllers would clear a
            master if nobody else can be elected.
    """

    broker_id: int
    reply_to: ReplyTo[Elected]


@attrs.frozen(kw_only=True)
class Elected:
    """The new master.

    Attributes:
        address: where brokers and clients reach it, "HOST:PORT".
    """

    broker_id: int
    address: str
    epoch: int


def set_request(
    broker: str, broker_id: int, asked: AlterSyncStateSet, now_ms: int
) -> tuple[Fields, bytes]:
    """Return fields and body of 1001.

    Args:
        broker, broker_id: the set's name, and the own id.
        now_ms: since 1970.
    """
    fields = said.AlterSyncStateSet(
        broker_name=broker,
        invoke_time=now_ms,
        master_broker_id=broker_id,
        master_epoch=asked.epoch,
    )
    members = tuple(sorted(asked.members))
    body = said.SyncStateSet(sync_state_set=members, sync_state_set_epoch=asked.set_epoch)
    return fields, encode_body(body)


def read_set(outcome: Frame | Exception) -> SetAdopted | SetRefused:
    """Return what became of 1001.

    Raises:
        WishUnanswered: that is not known.
    """
    if isinstance(outcome, Exception):
        raise WishUnanswered(str(outcome)) from outcome
    code, remark = outcome.header.code, outcome.header.remark or ""
    refusal = _REFUSALS.get(code)
    if refusal is not None:
        return SetRefused(refusal, f"{refusal.value}: {code}, {remark}")
    if code != Code.SUCCESS:
        raise WishUnanswered(f"the controller answers {code}, {remark}")
    try:
        found = said.decode_sync_state_set(outcome.body)
    except RemoteProtocolError as error:
        raise WishUnanswered(f"the answer cannot be understood: {error}") from error
    if not found.sync_state_set:
        raise WishUnanswered("the answer has no set")
    return SetAdopted(frozenset(found.sync_state_set), found.sync_state_set_epoch)


def read_replicas(outcome: Frame | Exception, *, asked: str, broker: str) -> said.ReplicasInfo:
    """Return who is in the set, by the answer to 1006.

    Args:
        asked: the controller that was asked, "HOST:PORT".

    Raises:
        WishUnanswered: it did not say.
    """
    if isinstance(outcome, Exception):
        raise WishUnanswered(f"{asked}: {outcome}") from outcome
    code, remark = outcome.header.code, outcome.header.remark or ""
    if code != Code.SUCCESS:
        raise WishUnanswered(f"{asked} refuses: {code}, {' '.join(remark.split())}")
    try:
        table = said.decode_replicas_info(outcome.body).replicas_info_table
    except RemoteProtocolError as error:
        raise WishUnanswered(f"{asked}: the answer cannot be understood: {error}") from error
    return table.get(broker, said.ReplicasInfo())


def election_request(cluster: str, broker: str, broker_id: int, now_ms: int) -> Fields:
    """Return the fields of 1002 for an operator."""
    return said.ElectMaster(
        broker_id=broker_id,
        broker_name=broker,
        cluster_name=cluster,
        designate_elect=True,
        invoke_time=now_ms,
    )


def read_election(outcome: Frame | Exception, *, asked: str, broker: str, wanted: int) -> Elected:
    """Return who became master.

    Args:
        asked: the controller that was asked, "HOST:PORT".

    Raises:
        NotElected: nobody did.
        OutcomeUnknown: that is not known.
    """
    if isinstance(outcome, Exception):
        raise OutcomeUnknown(
            f"it is not known what became of it: {asked}: {outcome}; `status` says who is master of"
            f" {broker}"
        ) from outcome
    code, remark = outcome.header.code, outcome.header.remark or ""
    if code in _KEPT:
        raise NotElected(_KEPT[code].format(asked=asked, broker=broker, wanted=wanted))
    if code not in (Code.SUCCESS, Code.CONTROLLER_MASTER_STILL_EXIST):
        raise NotElected(f"{asked} refuses: {code}, {' '.join(remark.split())}")
    try:
        found = read_fields(outcome.header, said.ElectedMaster)
    except RemoteProtocolError as error:
        raise NotElected(f"{asked}: the answer cannot be understood: {error}") from error
    if found.master_broker_id is None or found.master_epoch is None:
        raise NotElected(f"{asked}: the answer names no master")
    if code != Code.SUCCESS:
        raise NotElected(
            f"replica {found.master_broker_id} of {broker} lives and is master already, in epoch"
            f" {found.master_epoch}"
        )
    return Elected(
        broker_id=found.master_broker_id,
        address=found.master_address or "",
        epoch=found.master_epoch,
    )
