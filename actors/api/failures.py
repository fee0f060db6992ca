"""Errors across the API socket: by class name, so that a client raises what the node raised."""

from __future__ import annotations

import logging

from actors import errors
from actors.errors import NotMaster, NotStored, OutcomeUnknown, TriologError
from wire.api import frames
from wire.errors import LocalProtocolError

_LOGGER = logging.getLogger("triolog.api")


class RequestRefused(TriologError):
    """The node does not answer this request. Nothing was changed.

    Attributes:
        error: one of the ERROR_ names of `wire.api.frames`.
    """

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


_NOT_STORED: dict[str, type[NotStored]] = {
    cls.__name__: cls
    for cls in (
        errors.NotStored,
        errors.NotEnoughReplicas,
        errors.Overloaded,
        errors.LogFull,
        errors.TooLarge,
        errors.Closed,
    )
}
_OUTCOME_UNKNOWN: dict[str, type[OutcomeUnknown]] = {
    cls.__name__: cls
    for cls in (
        errors.OutcomeUnknown,
        errors.ReplicationTimeout,
        errors.SyncTimeout,
        errors.SlaveNotAvailable,
        errors.LeadershipLost,
        errors.NodeStopped,
    )
}


def failed(request: int | None, error: Exception) -> frames.Failed:
    """Return the `failed` frame for `error`.

    An error that is none of `actors.errors` becomes Internal, with its class in the message.
    """
    message = str(error)[:1000]
    match error:
        case NotMaster():
            return frames.Failed(id=request, error="NotMaster", message=message, hint=error.hint)
        case NotStored():
            return frames.Failed(id=request, error=_name(error, _NOT_STORED), message=message)
        case OutcomeUnknown():
            return frames.Failed(
                id=request,
                error=_name(error, _OUTCOME_UNKNOWN),
                message=message,
                first=error.first,
                last=error.last,
                next=error.next,
            )
        case RequestRefused():
            return frames.Failed(id=request, error=error.error, message=message)
        case TriologError():
            return frames.Failed(id=request, error=frames.ERROR_INTERNAL, message=message)
        case _:
            text = f"{type(error).__name__}: {message}"
            return frames.Failed(id=request, error=frames.ERROR_INTERNAL, message=text)


def append_failed(request: int, error: Exception) -> frames.Failed:
    """Return the `failed` frame for an append's error.

    Its outcome is unknown unless the error says that nothing was written.
    """
    if isinstance(error, NotStored | OutcomeUnknown | RequestRefused):
        return failed(request, error)
    return failed(request, OutcomeUnknown(f"{type(error).__name__}: {error}"))


def to_error(frame: frames.Failed) -> TriologError:
    """Return the error that a `failed` frame stands for; the reverse of `failed`."""
    if frame.error == "NotMaster":
        return NotMaster(frame.message, frame.hint)
    if frame.error in _NOT_STORED:
        return _NOT_STORED[frame.error](frame.message)
    if frame.error in _OUTCOME_UNKNOWN:
        return _OUTCOME_UNKNOWN[frame.error](frame.message, frame.first, frame.last, frame.next)
    return RequestRefused(frame.error, frame.message)


def log_if_not_ours(request: int, client: str | None, error: Exception) -> None:
    """Log an error that is a mistake of this program, of which its client gets only one line."""
    if not isinstance(error, TriologError | LocalProtocolError):
        _LOGGER.error("request %d of %s failed", request, client, exc_info=error)


def encoded(answer: frames.Answer, *, text: bool) -> bytes | str:
    """Encode an answer as a message; if that is impossible, encode a `failed` frame instead."""
    try:
        return frames.encode(answer, text=text)
    except LocalProtocolError as error:
        return frames.encode(failed(answer.id or 0, error), text=text)


def _name(error: NotStored | OutcomeUnknown, known: dict[str, type]) -> str:
    """Return the name of the error's nearest class that the other side knows."""
    for cls in type(error).__mro__:
        if known.get(cls.__name__) is cls:
            return cls.__name__
    return frames.ERROR_INTERNAL
