"""Events of a name server."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class NameServerStarted:
    """The name server has read its file and takes requests. Emitted by routes, at each start.

    Attributes:
        kv_count: values in its KV table.
    """

    kv_count: int


@attrs.frozen(kw_only=True)
class BrokerRegistered:
    """A broker's address was registered that was not known under this name and id. Emitted by
    routes; not for renewals.

    Attributes:
        address: where clients reach the broker.
        connection: the one that the registration came on.
        topics: how many topics it named.
    """

    cluster: str
    broker: str
    broker_id: int
    address: str
    connection: int
    topics: int


@attrs.frozen(kw_only=True)
class BrokerLeft:
    """A broker's address is in no route any more. Emitted by routes.

    Attributes:
        reason: "unregistered", "connection ended", "expired", "replaced by ADDRESS", or "is now
            NAME ID" where it registered as another one.
    """

    cluster: str
    broker: str
    broker_id: int
    address: str
    reason: str


@attrs.frozen(kw_only=True)
class RegistrationRefused:
    """A broker was answered with a failure, or not believed. Emitted by routes."""

    cluster: str
    broker: str
    broker_id: int
    address: str
    reason: str


@attrs.frozen(kw_only=True)
class TopicsRegistered:
    """A registration made or changed topics of a broker. Emitted by routes.

    Attributes:
        changed: how many topics have other queues or permissions than before.
    """

    broker: str
    changed: int


@attrs.frozen(kw_only=True)
class NameServerNotSaved:
    """A change of the KV table or of settings found no room on the disk: the old content stays.
    Emitted by routes.
    """

    file: str
    reason: str
