"""RocketMQ's own properties files as configuration: `broker.conf`, `broker-a.properties`.

`load_broker_conf` in `conf` is the door. `properties` reads Java's format, `keys` has a row for
each key with its kind of value from `values`, `files` reads one file, `brokers` says who each file
is, `groups` what its group is.
"""

from __future__ import annotations

from actors.config.brokerconf.conf import (
    BrokerConf,
    KeyUse,
    StoreFolders,
    in_properties,
    load_broker_conf,
    parse_broker_conf,
)

__all__ = [
    "BrokerConf",
    "KeyUse",
    "StoreFolders",
    "in_properties",
    "load_broker_conf",
    "parse_broker_conf",
]
