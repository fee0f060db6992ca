"""The first frames of a connection to a node's API: see `wire.api`, and for proofs `api_proof`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from wire.api_base import Frame, Id, Name
from wire.api_proof import PROOF_BYTES

Proof: TypeAlias = Annotated[bytes, Meta(max_length=PROOF_BYTES)]


class Hello(Frame, frozen=True, kw_only=True, tag="hello", omit_defaults=True):
    """`version`: the highest that the client speaks. `name`: who it says it is, shown in events and
    the tree. `nonce`, `proof`: empty for who has no secret, see `wire.api_proof`.
    """

    id: Id
    version: Annotated[int, Meta(ge=1, le=65_535)]
    name: Name
    nonce: Proof = b""
    proof: Proof = b""


class Welcome(Frame, frozen=True, kw_only=True, tag="welcome", omit_defaults=True):
    """`version`: the one both speak from now on. The limits are what this node accepts from this
    connection. `proof`: the node's, to who has proved itself.
    """

    id: Id
    version: int
    cluster: str
    node: str
    boot: int
    groups: tuple[str, ...]
    frame_bytes_max: int
    records_per_append_max: int
    in_flight_requests_max: int
    in_flight_bytes_max: int
    proof: Proof = b""
