"""DLedger's requests and replies, dialect L: one JSON body each, in a frame of `wire.remoting`.

Upstream: openmessaging/dledger, protocol/*.java, DLedgerRpcNettyService.java, tag
dledger-all-0.3.1.2; INSTALL_SNAPSHOT from dledger-all-0.4.0. Upstream's class names are kept.

| Code  | RequestCode         | Request, response     | Module                      |
|-------|---------------------|-----------------------|-----------------------------|
| 50000 | METADATA            | Metadata...           | `wire.dledger.client_rpc`   |
| 50001 | APPEND              | AppendEntry...        | `wire.dledger.client_rpc`   |
| 50002 | GET                 | GetEntries...         | `wire.dledger.client_rpc`   |
| 51001 | VOTE                | Vote...               | `wire.dledger.election_rpc` |
| 51002 | HEART_BEAT          | HeartBeat...          | `wire.dledger.election_rpc` |
| 51004 | PUSH                | PushEntry...          | `wire.dledger.push_rpc`     |
| 51005 | LEADERSHIP_TRANSFER | LeadershipTransfer... | `wire.dledger.election_rpc` |
| 51006 | INSTALL_SNAPSHOT    | InstallSnapshot...    | `wire.dledger.push_rpc`     |

PULL (51003) and USER_DEFINE_REQUEST (59999) have no bodies here: they are answered by
REMOTING_CODE_NOT_SUPPORTED.

Bytes: UTF-8 JSON, keys in alphabetical order, null left out, numbers always written, byte arrays as
Base64 with padding: what Java writes for the same object, but for characters that fastjson escapes
in its own way (controls, U+007F, U+2028), which only a name could hold. Readers, Java's too, ignore
unknown keys and keep a default for missing ones. How far a body may stray:
`wire.remoting.tolerant_json`.

An entry must say all of body, index, magic, pos, size and term: Java takes 0 for what is missing,
and stores it.

## What dialect N (0.4.0) would change

Of the requests above only PUSH differs. A group speaks one dialect. Which it is show only keys that
the other one lacks and 0.4.0 always writes: `preLogIndex` and `preLogTerm` of a request, `xIndex`
and `xTerm` of a response. They are read here to know whom not to believe.

- PushEntryRequest: `entries` (list) instead of `entry` and `batchEntry`; `preLogIndex` and
  `preLogTerm` (-1); derived keys count, firstEntryIndex, lastEntryIndex, lastEntryTerm, totalSize,
  and no `batch`. COMPARE and TRUNCATE carry preLogIndex (TRUNCATE: the first index to delete, with
  preLogTerm -1) and no entry; APPEND at least one in `entries`. PushType gains INSTALL_SNAPSHOT.
- PushEntryResponse: `xIndex` and `xTerm` (-1); beginIndex stays 0, endIndex too but where a COMPARE
  lies beyond the follower's end; `index` is -1 for COMPARE and TRUNCATE.
- Entry: magic 2 (no-op, empty body) and 3 (configuration) besides 1; a missing magic is read as 1.
- Files: no checkpoint; a BLANK may also stand at a file's beginning; `snapshot/`. An index record's
  magic is 1 even for a no-op.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from wire.dledger.client_rpc import (
    AppendEntryRequest,
    AppendEntryResponse,
    GetEntriesRequest,
    GetEntriesResponse,
    MetadataRequest,
    MetadataResponse,
)
from wire.dledger.codes import Body, RequestCode
from wire.dledger.election_rpc import (
    HeartBeatRequest,
    HeartBeatResponse,
    LeadershipTransferRequest,
    LeadershipTransferResponse,
    VoteRequest,
    VoteResponse,
)
from wire.dledger.push_rpc import (
    InstallSnapshotRequest,
    InstallSnapshotResponse,
    PushEntryRequest,
    PushEntryResponse,
    with_batch,
)
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.remoting.tolerant_json import TolerantDecoder

__all__ = [
    "AppendEntryRequest",
    "AppendEntryResponse",
    "Body",
    "GetEntriesRequest",
    "GetEntriesResponse",
    "HeartBeatRequest",
    "HeartBeatResponse",
    "InstallSnapshotRequest",
    "InstallSnapshotResponse",
    "LeadershipTransferRequest",
    "LeadershipTransferResponse",
    "MetadataRequest",
    "MetadataResponse",
    "PushEntryRequest",
    "PushEntryResponse",
    "Request",
    "Response",
    "VoteRequest",
    "VoteResponse",
    "decode_request",
    "decode_response",
    "encode_body",
    "request_code",
    "request_code_of",
    "response_class",
]

Request: TypeAlias = (
    MetadataRequest
    | AppendEntryRequest
    | GetEntriesRequest
    | VoteRequest
    | HeartBeatRequest
    | PushEntryRequest
    | LeadershipTransferRequest
    | InstallSnapshotRequest
)
Response: TypeAlias = (
    MetadataResponse
    | AppendEntryResponse
    | GetEntriesResponse
    | VoteResponse
    | HeartBeatResponse
    | PushEntryResponse
    | LeadershipTransferResponse
    | InstallSnapshotResponse
)

_CLASSES: Final[dict[RequestCode, tuple[type[Request], type[Response]]]] = {
    RequestCode.METADATA: (MetadataRequest, MetadataResponse),
    RequestCode.APPEND: (AppendEntryRequest, AppendEntryResponse),
    RequestCode.GET: (GetEntriesRequest, GetEntriesResponse),
    RequestCode.VOTE: (VoteRequest, VoteResponse),
    RequestCode.HEART_BEAT: (HeartBeatRequest, HeartBeatResponse),
    RequestCode.PUSH: (PushEntryRequest, PushEntryResponse),
    RequestCode.LEADERSHIP_TRANSFER: (LeadershipTransferRequest, LeadershipTransferResponse),
    RequestCode.INSTALL_SNAPSHOT: (InstallSnapshotRequest, InstallSnapshotResponse),
}
_CODES: Final = {int(code): code for code in _CLASSES}
_CODE_OF_CLASS: Final = {request: code for code, (request, _) in _CLASSES.items()}
_REQUESTS: Final = {code: TolerantDecoder(each) for code, (each, _) in _CLASSES.items()}
_RESPONSES: Final = {code: TolerantDecoder(each) for code, (_, each) in _CLASSES.items()}

_encode = msgspec.json.Encoder().encode


def request_code(code: int) -> RequestCode | None:
    """Return what a request's header code asks for; None if it is not served here.

    It is None for any code of a binary header, too: such a header makes -14532 of 51004.
    """
    return _CODES.get(code)


def request_code_of(request: Request) -> RequestCode:
    """Return the code under which `request` is sent."""
    return _CODE_OF_CLASS[type(request)]


def response_class(code: RequestCode) -> type[Response]:
    """Return the class of the response to a request of `code`."""
    return _CLASSES[code][1]


def encode_body(body: Request | Response, batch: msgspec.Raw | None = None) -> bytes:
    """Encode the body of a frame.

    Args:
        batch: for a PUSH, `encode_batch` of its entries, which then are not encoded again.

    Raises:
        LocalProtocolError: a field holds what cannot be written.
    """
    try:
        if batch is not None:
            assert isinstance(body, PushEntryRequest)
            return _encode(with_batch(body, batch))
        return _encode(body)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise LocalProtocolError(f"cannot encode {type(body).__name__}: {error}") from None


def decode_request(code: RequestCode, body: bytes) -> tuple[Request, bool]:
    """Decode a request; return it, and whether it needed fastjson's tolerance.

    Args:
        code: the request's code, of `request_code`.

    Raises:
        RemoteProtocolError: the body is no such request.
    """
    return _REQUESTS[code].decode(body)


def decode_response(code: RequestCode, body: bytes) -> tuple[Response, bool]:
    """Decode the response to a request of `code`; return it, and whether it needed tolerance.

    Raises:
        RemoteProtocolError: the body is no such response. If it is b"", the peer failed, and its
            header's remark says why.
    """
    if not body:
        raise RemoteProtocolError(f"the reply to {code.name} has no body")
    return _RESPONSES[code].decode(body)
