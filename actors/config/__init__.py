"""The cluster file: read strictly, checked completely, explained before anything starts.

Names for other rooms: `load`, `loads`, `validate`, the classes of `model`, and `guarantee_of`.
"""

from __future__ import annotations

from actors.config.load import load, loads, validate
from actors.config.members import MasterNode, NodeKind, SlaveNode
from actors.config.model import (
    ClassicGroup,
    ClusterConfig,
    DemoConfig,
    Durability,
    EventsConfig,
    EventsPolicy,
    FeedConfig,
)
from actors.config.settings import changes, settings

__all__ = [
    "ClassicGroup",
    "ClusterConfig",
    "DemoConfig",
    "Durability",
    "EventsConfig",
    "EventsPolicy",
    "FeedConfig",
    "MasterNode",
    "NodeKind",
    "SlaveNode",
    "changes",
    "load",
    "loads",
    "settings",
    "validate",
]
