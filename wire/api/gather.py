"""Puts several frames of `wire.api.frames` into one WebSocket message, from protocol version 2 on.

Either side gathers what it has to send anyway, for a message costs ten times what a small frame
does. The frames mean what they would mean one after the other; a `hello` and its `welcome` are
always alone.

Binary message of many frames, by byte (MessagePack):

| Offset | Width | Type | Field | Meaning |
|---|---|---|---|---|
| 0 | 3 | 0xdc + 2 bytes | array header | n, 1 to FRAMES_PER_MESSAGE_MAX (also read: 0x90+n) |
| 3 | .. | maps | frames | n of them, each as in `wire.api.frames` |

As text it is a JSON array of the frames' objects. All of it is at most FRAME_BYTES_MAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeAlias

from msgspec import Meta

from wire.api import frames as api
from wire.errors import LocalProtocolError

VERSION_GATHERED = 2
"""The first version of the protocol in which a message may have several frames."""
FRAMES_PER_MESSAGE_MAX = 256
"""The most frames in one message: as many requests as one connection may have unanswered."""
GATHERED_BYTES_MAX = 64 << 10
"""The most bytes that a sender puts into one array; a larger frame is sent by itself."""

_Requests: TypeAlias = (
    api.Request
    | Annotated[tuple[api.Request, ...], Meta(min_length=1, max_length=FRAMES_PER_MESSAGE_MAX)]
)
_Answers: TypeAlias = (
    api.Answer
    | Annotated[tuple[api.Answer, ...], Meta(min_length=1, max_length=FRAMES_PER_MESSAGE_MAX)]
)
_requests: Callable[[bytes | str], _Requests] = api.decoder(_Requests, api.REQUEST_PROBLEM)
_answers: Callable[[bytes | str], _Answers] = api.decoder(_Answers, api.ANSWER_PROBLEM)
_ARRAY_16 = b"\xdc"


def gathered(frames: list[bytes | str]) -> bytes | str:
    """Return one message of encoded frames: a single frame as it is, several as an array.

    Raises: LocalProtocolError: there are no frames or too many, or they are too large together.
    """
    if len(frames) == 1:
        return frames[0]
    if not 1 <= len(frames) <= FRAMES_PER_MESSAGE_MAX:
        raise LocalProtocolError(f"a message of {len(frames)} frames")
    data: bytes | str
    if isinstance(frames[0], str):
        data = "[" + ",".join(frame for frame in frames if isinstance(frame, str)) + "]"
    else:
        header = _ARRAY_16 + len(frames).to_bytes(2, "big")
        data = header + b"".join(frame for frame in frames if isinstance(frame, bytes))
    if len(data) > api.FRAME_BYTES_MAX:
        raise LocalProtocolError(
            f"frames of {len(data)} bytes are above {api.FRAME_BYTES_MAX} bytes"
        )
    return data


def decode_requests(data: bytes | str) -> tuple[api.Request, ...]:
    """Decode the requests in one WebSocket message. Raises: RemoteProtocolError."""
    found = _requests(data)
    return found if isinstance(found, tuple) else (found,)


def decode_answers(data: bytes | str) -> tuple[api.Answer, ...]:
    """Decode the answers and pushes in one WebSocket message. Raises: RemoteProtocolError."""
    found = _answers(data)
    return found if isinstance(found, tuple) else (found,)
