"""The replicas of a broker set by id and by name: only those are believed that controllers know.

Source: autoswitch-ha.md T49: upstream's master answers whoever sends a handshake.

A replica's name is its node in the cluster file, or its address if the file names none there.

A replica whose disk was replaced registers as another one at the same address, and controllers
keep both. Of them the name is of the one that lives, and was registered last.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

import attrs

from wire.ha.autoswitch import HandshakeRequest


@attrs.define(kw_only=True, eq=False)
class ReplicaNames:
    """See the module's text.

    Attributes:
        own: gives the own id; None before one is given.
        registered: gives the registered replicas: by id, where brokers reach each, "HOST:PORT".
        living: gives those of them that live.
        node_at: gives the node of the cluster file that brokers reach there; "": it names none.
        unknown: is called for an id that is not registered: it may have been by now.
    """

    own: Callable[[], int | None]
    registered: Callable[[], Mapping[int, str]]
    living: Callable[[], Container[int]]
    node_at: Callable[[str], str]
    unknown: Callable[[], None]

    def who(self, request: HandshakeRequest) -> str:
        """Return the name of the replica that a handshake is of; "" if there is none such.

        Requests of 5.0.0 and 5.1.0 name an address instead of an id.
        """
        replica = request.broker_id
        if replica is None:
            replica = self._at(request.address or "")
        name = "" if replica is None or replica == self.own() else self.name_of(replica)
        if not name:
            self.unknown()
        return name

    def name_of(self, replica: int) -> str:
        """Return a replica's name; "" if the controllers do not know the id, or another replica has
        taken its place.
        """
        address = self.registered().get(replica, "")
        return (self.node_at(address) or address) if replica == self._at(address) else ""

    def id_of(self, name: str) -> int | None:
        """Return the id of a replica by its name; None if it is registered no more."""
        known = self.registered()
        return next((each for each in known if self.name_of(each) == name), None)

    def _at(self, address: str) -> int | None:
        living = self.living()
        here = (each for each, at in self.registered().items() if at == address)
        return max(here, key=lambda each: (each in living, each), default=None)
