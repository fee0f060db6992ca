"""Brokers' properties as text, and what a cluster file with the same meaning has."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from actors.config import loads
from actors.config.brokerconf import BrokerConf
from actors.config.brokerconf.conf import broker_conf
from actors.config.brokerconf.files import parse_file
from actors.errors import ConfigError

MASTER = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerId": "0",
    "brokerRole": "ASYNC_MASTER",
    "storePathRootDir": "/data/a",
}
SLAVE = {**MASTER, "brokerId": "1", "brokerRole": "SLAVE", "storePathRootDir": "/data/a-s"}


def text_of(properties: dict[str, str]) -> bytes:
    return "".join(f"{key}={value}\n" for key, value in properties.items()).encode()


def conf_of(*files: dict[str, str]) -> BrokerConf:
    """Files `0.properties`, `1.properties`; their cluster file means the same."""
    read = [parse_file(text_of(each), f"{n}.properties") for n, each in enumerate(files)]
    conf = broker_conf(read)
    same = loads(conf.toml, "/any/c.toml")
    assert (same.groups, same.nodes, same.name) == (
        conf.config.groups,
        conf.config.nodes,
        conf.config.name,
    )
    assert (same.data_dir, same.api_port) == (conf.config.data_dir, conf.config.api_port)
    for key in ("namesrv_addr", "advertised", "advertised_ha", "broker_ids"):
        assert getattr(same, key) == getattr(conf.config, key)
    return conf


def problems_of(*files: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        conf_of(*files)
    return list(caught.value.problems)


def flat(conf: BrokerConf) -> dict[str, Any]:
    """The cluster file's keys, with dots; of the group without its name."""
    found: dict[str, Any] = {}

    def walk(value: Any, key: str) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                walk(inner, f"{key}.{name}" if key else name)
        else:
            found[key.removeprefix("groups.broker-a.")] = value

    walk(tomllib.loads(conf.toml), "")
    return found
