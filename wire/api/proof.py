"""How the two ends of an API connection over TCP prove that they have the cluster's secret.

Challenge and response with HMAC (RFC 2104), of SHA-256. The secret itself is never sent, and no
message of one connection is of use in another:

1. The node's half of the WebSocket's opening handshake has the header `Triolog-Challenge`: fresh
   bytes, in hexadecimal digits.
2. The client's hello has fresh bytes of its own, `nonce`, and its `proof`.
3. The node's welcome has its `proof`, for whoever has proved itself.

A proof is the HMAC, under the secret, of these fields, each with its length before it:

| Field | Bytes | Meaning |
|---|---|---|
| label | 13 | "triolog api 1" |
| role | 6 or 4 | "client" or "node": whose proof this is, so that none can be sent back |
| cluster, node, name | UTF-8 | who is to answer, and what the client calls itself |
| challenge | 32 | the node's fresh bytes |
| nonce | 32 | the client's fresh bytes |

So a program that has taken a node's address cannot pass the questions on to another node. It proves
who opened the connection, and protects nothing that follows from whoever sits between the two: that
takes TLS, which this protocol does not have.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Literal

import attrs

CHALLENGE_BYTES = 32
"""The size of each side's fresh bytes, which do not repeat and cannot be guessed."""
PROOF_BYTES = 32
"""The size of a proof, a SHA-256 digest."""
CHALLENGE_HEADER = b"triolog-challenge"
_LABEL = b"triolog api 1"


@attrs.frozen(kw_only=True)
class Handshake:
    """What both sides of one connection know when they prove themselves.

    Attributes:
        cluster: the name of the cluster.
        node: the name of the node that answers.
        name: what the client calls itself.
        challenge: the node's fresh bytes.
        nonce: the client's fresh bytes.
    """

    cluster: str
    node: str
    name: str
    challenge: bytes
    nonce: bytes

    def proof(self, secret: bytes, role: Literal["client", "node"]) -> bytes:
        """Return the proof that one of the two sides sends."""
        names = (role, self.cluster, self.node, self.name)
        fields = (_LABEL, *(each.encode() for each in names), self.challenge, self.nonce)
        said = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
        return hmac.digest(secret, said, hashlib.sha256)

    def proves(self, secret: bytes, role: Literal["client", "node"], proof: bytes) -> bool:
        """Return whether `proof` is that of a side with the secret, in constant time."""
        fresh = len(self.challenge) == CHALLENGE_BYTES and len(self.nonce) == CHALLENGE_BYTES
        return fresh and hmac.compare_digest(self.proof(secret, role), proof)


def challenge_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the challenge in a node's half of the opening handshake; empty if there is none."""
    sent = next((value for name, value in headers if name.lower() == CHALLENGE_HEADER), b"")
    try:
        found = bytes.fromhex(sent.decode("ascii"))
    except ValueError:
        return b""
    return found if len(found) == CHALLENGE_BYTES else b""
