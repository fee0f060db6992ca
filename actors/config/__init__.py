"""The cluster file: read strictly, checked completely, explained before anything starts.

`brokerconf` makes one of RocketMQ's own properties files.

Names for other rooms: `load`, `loads`, `validate`, the classes of `classic`, `dledger` and `model`,
and `guarantee_of`.
"""

from __future__ import annotations

from actors.config.autoswitch import AutoSwitchGroup
from actors.config.classic import ClassicGroup
from actors.config.commit_log_group import CommitLogGroup
from actors.config.dledger import DLedgerGroup
from actors.config.group import Durability, Group
from actors.config.load import load, loads, validate
from actors.config.members import MasterNode, MemberNode, NodeKind, SlaveNode
from actors.config.model import (
    ClusterConfig,
    DemoConfig,
    EventsConfig,
    EventsPolicy,
    FeedConfig,
)
from actors.config.settings import changes, settings, stated

__all__ = [
    "AutoSwitchGroup",
    "ClassicGroup",
    "ClusterConfig",
    "CommitLogGroup",
    "DLedgerGroup",
    "DemoConfig",
    "Durability",
    "EventsConfig",
    "EventsPolicy",
    "FeedConfig",
    "Group",
    "MasterNode",
    "MemberNode",
    "NodeKind",
    "SlaveNode",
    "changes",
    "load",
    "loads",
    "settings",
    "stated",
    "validate",
]
