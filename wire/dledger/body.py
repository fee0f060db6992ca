"""What all bodies of DLedger's requests and replies are built from; see `wire.dledger.rpc`."""

from __future__ import annotations

from msgspec import Struct

from wire.remoting.tolerant_json import Int, Long, always


class Body(
    Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """Base of all bodies. Each class has its fields in the order of their keys in JSON.

    Fields that every body has:

    - code: outcome, see `wire.dledger.codes.response_code`; 200 in requests.
    - group: the group's name.
    - leader_id: who leads, as far as the sender knows; in a VOTE the candidate.
    - local_id: the sender. remote_id: whom it is for.
    - term: the sender's, -1 where it says nothing.

    None is a key that is left out, and what Java calls null.
    """


class BaseFields(Body, frozen=True, kw_only=True):
    """Base of the bodies whose own keys, if any, come behind those that every body has.

    The others name all of their fields: only so are they in the order of their keys.
    """

    code: Int = always(200)
    group: str | None = None
    leader_id: str | None = None
    local_id: str | None = None
    remote_id: str | None = None
    term: Long = always(-1)
