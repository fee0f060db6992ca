"""Protocol errors: whose fault it was decides which class is raised.

`LocalProtocolError`: our own code asked for something that the format cannot express; nothing was
encoded.
`RemoteProtocolError`: bytes that somebody else made (a peer, a file) break the format.
`IncompleteData`: the bytes given are a correct beginning, but end too early; more of them may help.
"""

from __future__ import annotations


class ProtocolError(Exception):
    """Base of all errors raised by `wire`."""


class LocalProtocolError(ProtocolError):
    """This side tried to break the protocol: a bug here, never caused by received bytes."""


class RemoteProtocolError(ProtocolError):
    """Received or stored bytes break the format, which no further bytes can mend."""


class IncompleteData(RemoteProtocolError):
    """The bytes end before the item does, and are correct so far.

    It is a RemoteProtocolError, because a reader that does not expect the end here may treat it as
    one.

    Attributes:
        missing_bytes: the least number of further bytes with which another try gets further.
    """

    def __init__(self, message: str, missing_bytes: int) -> None:
        super().__init__(message)
        self.missing_bytes = missing_bytes
