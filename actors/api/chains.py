"""The chains of appends that a client of the API socket speaks of."""

from __future__ import annotations

import attrs

from actors.log_types import Chain

CHAINS_MAX = 1024
"""Of a connection, that a node remembers. A client has one for each of its appenders."""


@attrs.define
class Chains:
    """Those of one connection, by the client's numbers: the newest."""

    _known: dict[int, Chain] = attrs.field(factory=dict)

    def get(self, number: int) -> Chain | None:
        """What is known of a chain; None for an append of none (0)."""
        if not number:
            return None
        chain = self._known.get(number)
        if chain is None:
            chain = self._known[number] = Chain()
            if len(self._known) > CHAINS_MAX:
                del self._known[next(iter(self._known))]
        return chain
