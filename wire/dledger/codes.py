"""What all of DLedger's requests and replies share: numbers and names, and the base of bodies.

Request codes, outcomes, kinds of PUSH, results of a vote. Upstream: openmessaging/dledger,
protocol/DLedgerRequestCode.java, DLedgerResponseCode.java, PushEntryRequest.Type,
VoteResponse.RESULT, tags dledger-all-0.3.1.2 and 0.4.0 (marked N).
"""

from __future__ import annotations

import enum
from typing import Final

from msgspec import Struct

from wire.remoting.tolerant_json import Int, Long, always


class RequestCode(enum.IntEnum):
    """What a request asks for. All codes are above 32767, see `wire.remoting.frame`."""

    METADATA = 50000
    APPEND = 50001
    GET = 50002
    VOTE = 51001
    HEART_BEAT = 51002
    PULL = 51003
    """Upstream declares it, and answers it only with an error."""
    PUSH = 51004
    LEADERSHIP_TRANSFER = 51005
    INSTALL_SNAPSHOT = 51006
    """Of dialect N; sent here only between Python nodes."""
    USER_DEFINE_REQUEST = 59999
    """Of dialect N; not served here."""


class ResponseCode(enum.IntEnum):
    """The `code` in a body: how a request ended. The header's code does not tell this."""

    UNKNOWN = -1
    """It also stands for unlisted numbers, see `response_code`."""
    SUCCESS = 200
    TIMEOUT = 300
    METADATA_ERROR = 301
    NETWORK_ERROR = 302
    UNSUPPORTED = 303
    UNKNOWN_GROUP = 400
    UNKNOWN_MEMBER = 401
    UNEXPECTED_MEMBER = 402
    EXPIRED_TERM = 403
    NOT_LEADER = 404
    NOT_FOLLOWER = 405
    INCONSISTENT_STATE = 406
    INCONSISTENT_TERM = 407
    INCONSISTENT_INDEX = 408
    INCONSISTENT_LEADER = 409
    INDEX_OUT_OF_RANGE = 410
    UNEXPECTED_ARGUMENT = 411
    REPEATED_REQUEST = 412
    REPEATED_PUSH = 413
    DISK_ERROR = 414
    DISK_FULL = 415
    TERM_NOT_READY = 416
    FALL_BEHIND_TOO_MUCH = 417
    TAKE_LEADERSHIP_FAILED = 418
    INDEX_LESS_THAN_LOCAL_BEGIN = 419
    REQUEST_WITH_EMPTY_BODYS = 420
    PUSH_REQUEST_IS_FULL = 421
    NEWER_INSTALL_SNAPSHOT_REQUEST_EXIST = 422
    """Of dialect N."""
    INTERNAL_ERROR = 500
    TERM_CHANGED = 501
    WAIT_QUORUM_ACK_TIMEOUT = 502
    LEADER_PENDING_FULL = 503
    ILLEGAL_MEMBER_STATE = 504
    LEADER_NOT_READY = 505
    LEADER_TRANSFERRING = 506
    LOAD_SNAPSHOT_ERROR = 507
    """Of dialect N."""
    INSTALL_SNAPSHOT_ERROR = 508
    """Of dialect N."""


_OUTCOMES: Final = {int(code): code for code in ResponseCode}


def response_code(code: int) -> ResponseCode:
    """Return the outcome for a body's `code`; UNKNOWN for an unlisted number."""
    return _OUTCOMES.get(code, ResponseCode.UNKNOWN)


class PushType(enum.Enum):
    """What a PUSH asks of a follower, in upstream's order, which is that of its ordinals."""

    APPEND = "APPEND"
    COMMIT = "COMMIT"
    COMPARE = "COMPARE"
    TRUNCATE = "TRUNCATE"


class VoteResult(enum.Enum):
    """The answers to a candidate, in upstream's order. Version 0.1 spells one of them otherwise."""

    UNKNOWN = "UNKNOWN"
    ACCEPT = "ACCEPT"
    REJECT_UNKNOWN_LEADER = "REJECT_UNKNOWN_LEADER"
    REJECT_UNEXPECTED_LEADER = "REJECT_UNEXPECTED_LEADER"
    REJECT_EXPIRED_VOTE_TERM = "REJECT_EXPIRED_VOTE_TERM"
    REJECT_ALREADY_VOTED = "REJECT_ALREADY_VOTED"
    REJECT_ALREADY_HAS_LEADER = "REJECT_ALREADY_HAS_LEADER"
    REJECT_TERM_NOT_READY = "REJECT_TERM_NOT_READY"
    REJECT_TERM_SMALL_THAN_LEDGER = "REJECT_TERM_SMALL_THAN_LEDGER"
    REJECT_EXPIRED_LEDGER_TERM = "REJECT_EXPIRED_LEDGER_TERM"
    REJECT_SMALL_LEDGER_END_INDEX = "REJECT_SMALL_LEDGER_END_INDEX"
    REJECT_TAKING_LEADERSHIP = "REJECT_TAKING_LEADERSHIP"


class Body(
    Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """Base of all bodies. Each class has its fields in the order of their keys in JSON.

    Fields that every body has:

    - code: the outcome, see `wire.dledger.codes.response_code`; 200 in requests.
    - group: the group's name.
    - leader_id: the leader, as far as the sender knows; in a VOTE the candidate.
    - local_id: the sender. remote_id: the receiver.
    - term: the sender's term; -1 if it states none.

    None stands for a key that is left out, and for Java's null.
    """


class BaseFields(Body, frozen=True, kw_only=True):
    """Base of bodies whose own keys, if any, come behind those that every body has.

    Other bodies declare all fields themselves, so that these are in the order of their keys.
    """

    code: Int = always(200)
    group: str | None = None
    leader_id: str | None = None
    local_id: str | None = None
    remote_id: str | None = None
    term: Long = always(-1)
