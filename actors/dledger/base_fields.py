"""The fields that every request between members begins with, and the answers to such requests."""

from __future__ import annotations

from typing import TypedDict

import attrs


class Base(TypedDict):
    """Of a request; see `wire.dledger_body`."""

    group: str
    leader_id: str
    local_id: str
    remote_id: str
    term: int


@attrs.frozen(kw_only=True)
class Sender:
    """This member, as the requests that it sends say it.

    Attributes:
        group: the group's name on the wire.
        self_id: this member's id in it.
    """

    group: str
    self_id: str

    def base(self, peer: str, leader: str, term: int) -> Base:
        """Of a request to `peer`."""
        return Base(
            group=self.group, leader_id=leader, local_id=self.self_id, remote_id=peer, term=term
        )
