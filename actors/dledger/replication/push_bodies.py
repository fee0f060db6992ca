"""Translates pushes and their answers from wire bodies to values and back.

Upstream: openmessaging/dledger, DLedgerEntryPusher.java (buildResponse, buildBatchAppendResponse),
0.3.1.2; dledger.md 2.3.
"""

from __future__ import annotations

from typing import Final

from actors.dledger.core.intake_effects import Pushed
from actors.dledger.core.push_effects import PushAnswer
from actors.readable import readable
from wire.dledger.codes import PushType, ResponseCode, response_code
from wire.dledger.rpc import (
    InstallSnapshotRequest,
    InstallSnapshotResponse,
    PushEntryRequest,
    PushEntryResponse,
    Response,
)

REFUSAL_CHARS_MAX: Final = 300
"""How many characters of a follower's refusal are kept: a path or two, and what its disk lacks."""


def pushed_of(request: PushEntryRequest, token: int) -> Pushed | None:
    """Translate a leader's request to a value; None if its type is unknown."""
    if request.type is None:
        return None
    return Pushed(
        token=token,
        type=request.type,
        term=request.term,
        leader=request.leader_id or "",
        commit_index=request.commit_index,
        entries=request.entries,
    )


def push_response(request: PushEntryRequest, answer: PushAnswer) -> PushEntryResponse:
    """Return the response to a push, as upstream's for its type: that to a COMMIT names no entry.

    Only a refusal carries the reason (`PushAnswer.refusal`).
    """
    refuses = answer.code is ResponseCode.INCONSISTENT_STATE
    names_entry = request.type is not PushType.COMMIT and answer.index >= 0
    return PushEntryResponse(
        begin_index=answer.begin,
        code=answer.code,
        count=answer.count,
        end_index=answer.end,
        group=request.group,
        index=answer.index if names_entry else None,
        refusal=(refuses and answer.refusal) or None,
        term=answer.term,
    )


def push_answer(response: Response | None) -> PushAnswer | None:
    """Translate a follower's response to a value; None if it is no answer to a push."""
    if not isinstance(response, PushEntryResponse):
        return None
    return PushAnswer(
        code=response_code(response.code),
        term=response.term,
        index=-1 if response.index is None else response.index,
        count=response.count,
        begin=response.begin_index,
        end=response.end_index,
        foreign=response.x_index is not None or response.x_term is not None,
        refusal=readable(response.refusal, REFUSAL_CHARS_MAX) if response.refusal else "",
    )


def no_snapshots(request: InstallSnapshotRequest) -> InstallSnapshotResponse:
    """Return the refusal of a snapshot by a member without a state machine, as in dialect L."""
    return InstallSnapshotResponse(
        code=ResponseCode.UNSUPPORTED, group=request.group, term=request.term
    )


def entries_bytes(request: object) -> int:
    """Return how many bytes of entries a push carries; 0 for any other request."""
    if not isinstance(request, PushEntryRequest):
        return 0
    return request.total_size or (request.entry.size if request.entry is not None else 0)
