"""The replicas of a broker set by id and by name: only those are believed that controllers know.

Source: autoswitch-ha.md T49: upstream's master answers whoever sends a handshake.

A replica's name is its node in the cluster file, or its address if the file names none there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from wire.ha.autoswitch import HandshakeRequest


@attrs.define(kw_only=True, eq=False)
class ReplicaNames:
    """See the module's text.

    Attributes:
        own: gives the own id; None before one is given.
        registered: gives the registered replicas: by id, where brokers reach each, "HOST:PORT".
        node_at: gives the node of the cluster file that brokers reach there; "": it names none.
        unknown: is called for an id that is not registered: it may have been by now.
    """

    own: Callable[[], int | None]
    registered: Callable[[], Mapping[int, str]]
    node_at: Callable[[str], str]
    unknown: Callable[[], None]

    def who(self, request: HandshakeRequest) -> str:
        """Return the name of the replica that a handshake is of; "" if there is none such.

        Requests of 5.0.0 and 5.1.0 name an address instead of an id.
        """
        replica = request.broker_id
        if replica is None:
            known = self.registered().items()
            replica = next((each for each, at in known if at == request.address), None)
        name = "" if replica is None or replica == self.own() else self.name_of(replica)
        if not name:
            self.unknown()
        return name

    def name_of(self, replica: int) -> str:
        """Return a replica's name; "" if the controllers do not know the id."""
        address = self.registered().get(replica, "")
        return self.node_at(address) or address

    def id_of(self, name: str) -> int | None:
        """Return the id of a replica by its name; None if it is registered no more."""
        known = self.registered()
        return next((each for each in known if self.name_of(each) == name), None)
