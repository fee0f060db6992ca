"""The files in which a replica of a broker set keeps its id.

Upstream: apache/rocketmq, store/.../ha/autoswitch/{BrokerMetadata,TempBrokerMetadata}.java, 5.3.3;
autoswitch-ha.md 7.5. They are `brokerIdentity` and `brokerIdentity-temp` in the store's folder.

Each is one line of text without an end: `CLUSTER#NAME#ID`, and in the temporary file, which is
there while an id is applied for, `#CODE` behind it, the check code of the request.

Differs: a name with `#` in it is refused; upstream writes it, and reads something else.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from wire.errors import LocalProtocolError, RemoteProtocolError

FILE_NAME: Final = "brokerIdentity"
TEMP_NAME: Final = FILE_NAME + "-temp"
FILE_BYTES_MAX: Final = 4096
ID_MAX: Final = 2**63 - 1
_ID = re.compile(r"[1-9][0-9]{0,18}")


@attrs.frozen(kw_only=True)
class BrokerIdentity:
    """Which replica of which broker set the owner of a store is.

    Attributes:
        broker_id: from 1 on.
        check_code: of the request for the id, while it is not known to be given; None: it is given.
    """

    cluster: str
    broker: str
    broker_id: int
    check_code: str | None = None


def encode_identity(identity: BrokerIdentity) -> bytes:
    """Encode the content of one of the two files.

    Raises:
        LocalProtocolError: a text is empty, or has a `#` or the end of a line in it.
    """
    texts = [identity.cluster, identity.broker, str(identity.broker_id)]
    if identity.check_code is not None:
        texts.append(identity.check_code)
    for text in texts:
        if not text or any(each in "#\n\r" for each in text):
            raise LocalProtocolError(f"{text!r} cannot stand in a file of a broker's identity")
    if not 1 <= identity.broker_id <= ID_MAX:
        raise LocalProtocolError(f"{identity.broker_id} is no id of a replica")
    return "#".join(texts).encode()


def decode_identity(data: bytes) -> BrokerIdentity:
    """Decode the content of one of the two files.

    Raises:
        RemoteProtocolError: it is neither.
    """
    try:
        parts = data.decode().split("#")
    except UnicodeDecodeError:
        raise RemoteProtocolError("a broker's identity is no text") from None
    if len(parts) not in (3, 4) or not all(parts):
        raise RemoteProtocolError("a broker's identity is CLUSTER#NAME#ID, perhaps with #CODE")
    cluster, broker, number, *code = parts
    if not _ID.fullmatch(number) or int(number) > ID_MAX:
        raise RemoteProtocolError(f"a broker's identity: {number[:40]!r} is no id of a replica")
    return BrokerIdentity(
        cluster=cluster,
        broker=broker,
        broker_id=int(number),
        check_code=code[0] if code else None,
    )
