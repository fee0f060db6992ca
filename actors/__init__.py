"""triolog: RocketMQ's replication as supervised Trio actors.

These names and `actors.errors` are the public interface, `actors.runtime` and `actors.client` are
for whoever builds on them; everything else is internal. They are loaded when they
are first used, so that importing `actors` alone imports no Trio.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors.config import ClusterConfig as ClusterConfig
    from actors.config import load as load_config
    from actors.log import Appender as Appender
    from actors.log import Log as Log
    from actors.log import Reader as Reader
    from actors.log_types import Batch as Batch
    from actors.log_types import Message as Message
    from actors.log_types import Receipt as Receipt
    from actors.log_types import Record as Record
    from actors.node.node import Node as Node
    from actors.service import child_spec as child_spec
    from actors.service import open_node as open_node
    from actors.service import serve as serve
    from actors.state_machine import LogEntry as LogEntry
    from actors.state_machine import StateMachine as StateMachine
    from actors.version import VERSION as __version__  # noqa: N811

_WHERE = {
    "Appender": ("actors.log", "Appender"),
    "Batch": ("actors.log_types", "Batch"),
    "ClusterConfig": ("actors.config", "ClusterConfig"),
    "Log": ("actors.log", "Log"),
    "LogEntry": ("actors.state_machine", "LogEntry"),
    "Message": ("actors.log_types", "Message"),
    "Node": ("actors.node.node", "Node"),
    "Reader": ("actors.log", "Reader"),
    "Receipt": ("actors.log_types", "Receipt"),
    "Record": ("actors.log_types", "Record"),
    "StateMachine": ("actors.state_machine", "StateMachine"),
    "__version__": ("actors.version", "VERSION"),
    "child_spec": ("actors.service", "child_spec"),
    "load_config": ("actors.config", "load"),
    "open_node": ("actors.service", "open_node"),
    "serve": ("actors.service", "serve"),
}

__all__ = [
    "Appender",
    "Batch",
    "ClusterConfig",
    "Log",
    "LogEntry",
    "Message",
    "Node",
    "Reader",
    "Receipt",
    "Record",
    "StateMachine",
    "__version__",
    "child_spec",
    "load_config",
    "open_node",
    "serve",
]


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module 'actors' has no attribute {name!r}")
    module, attribute = where
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
