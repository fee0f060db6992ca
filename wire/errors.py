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
    """We tried to break the protocol: a bug of ours, never caused by received bytes."""


class RemoteProtocolError(ProtocolError):
    """Received or stored bytes break the format. Feeding more bytes cannot mend it."""


class IncompleteData(RemoteProtocolError):
    """The bytes end before the item does; everything seen so far is in order.

    A RemoteProtocolError, because who does not expect the end here may treat it as one.

    Attributes:
        missing_bytes: at least so many more bytes are needed before another try can get further.
    """

    def __init__(self, message: str, missing_bytes: int) -> None:
        super().__init__(message)
        self.missing_bytes = missing_bytes
