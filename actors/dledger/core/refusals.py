"""The answer to a request that is refused, of its class and with its base fields.

Source: openmessaging/dledger, DLedgerServer.handle... and RequestOrResponse.copyBaseInfo,
dledger-all-0.3.1.2; dledger.md 2.3 and 2.4.
"""

from __future__ import annotations

from wire.dledger.codes import ResponseCode
from wire.dledger.rpc import Request, Response, request_code_of, response_class


def refusal(request: Request, code: ResponseCode, leader: str) -> Response:
    """Return the answer to a request that was not carried out.

    Fields beside the base fields have their defaults: the range in the answer to a PUSH is 0 and 0,
    as upstream's is after an exception; the result of a VOTE is UNKNOWN.

    Args:
        leader: the leader that this member knows; "" for none.
    """
    return response_class(request_code_of(request))(
        code=code,
        group=request.group,
        leader_id=leader or None,
        local_id=request.local_id,
        remote_id=request.remote_id,
        term=request.term,
    )
