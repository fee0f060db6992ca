"""What every group of a cluster file has, whatever its mode. The classes of the modes have more."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import attrs
from attrs import AttrsInstance

Durability: TypeAlias = Literal["synced", "written"]
StoreType: TypeAlias = Literal["file", "memory"]


@attrs.frozen(kw_only=True)
class ConfiguredRole:
    """What a node is in a group by the cluster file alone.

    Attributes:
        name: for people.
        listens: it listens on the group's port.
        appends: it may be the one that takes appends.
        receives: it may be one that receives what others append.
    """

    name: str
    listens: bool
    appends: bool
    receives: bool


@attrs.frozen(kw_only=True)
class ElectionTimes:
    """How long members that elect who leads them may be without one.

    Attributes:
        missed_after_s: after so long without a heartbeat they hold an election.
        campaign_max_s: what one campaign takes at most.
    """

    missed_after_s: float
    campaign_max_s: float


@attrs.frozen(kw_only=True)
class LargestFile:
    """How large the files of a log may become.

    Attributes:
        key: a key of the group's table.
        size_bytes: the key's value, in bytes.
    """

    key: str
    size_bytes: int


class Group(AttrsInstance, Protocol):
    """`[groups.NAME]`: a frozen attrs class for each mode, whose fields are the keys of its table.

    Attributes:
        name: the table's key.
        mode: which of `actors.config.kinds.KINDS` it is.
        durability: where a record has to be on a node that counts.
        port: where its members listen for each other.
        append_pending_bytes: bodies that may wait unwritten where appends are taken.
        receive_pending_bytes: log bytes that may wait unwritten where they are received.
        append_timeout_s: how long an append waits before its outcome is unknown.
        body_bytes_max: the largest record.
        members: the names of all its nodes.
        java_nodes: those of them that are Java nodes, which we do not run.
        sure_copies: nodes that hold whatever was acknowledged, at least.
        store: whether its log is in files.
        as_upstream: it follows upstream's looser rules somewhere.
        takes_empty: whether a record may be empty; where readers pass empty ones over it may not.
        election: how its members elect who takes appends; None: they do not.
        largest_file: how large the files of its log may become; None: it has no files.
    """

    @property
    def name(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def durability(self) -> Durability: ...
    @property
    def port(self) -> int: ...
    @property
    def append_pending_bytes(self) -> int: ...
    @property
    def receive_pending_bytes(self) -> int: ...
    @property
    def append_timeout_s(self) -> float: ...
    @property
    def body_bytes_max(self) -> int: ...
    @property
    def members(self) -> tuple[str, ...]: ...
    @property
    def java_nodes(self) -> tuple[str, ...]: ...
    @property
    def sure_copies(self) -> int: ...
    @property
    def store(self) -> StoreType: ...
    @property
    def as_upstream(self) -> bool: ...
    @property
    def takes_empty(self) -> bool: ...
    @property
    def election(self) -> ElectionTimes | None: ...
    @property
    def largest_file(self) -> LargestFile | None: ...

    def role_of(self, node: str) -> ConfiguredRole:
        """What one of `members` is."""
