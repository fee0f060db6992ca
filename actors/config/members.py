"""A group's members as a cluster file names them: `"n1"`, or `{ node = "n1", kind = "java" }`; of a
DLedger group also `{ node = "n1", candidate = false }`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import attrs

NodeKind: TypeAlias = Literal["python", "java"]


@attrs.frozen
class SlaveNode:
    """One slave of a group: `"n1"`, or `{ node = "n1", kind = "java" }`.

    Attributes:
        node: a name from `[nodes]`.
        kind: "python" is run by us; "java" is a RocketMQ broker that the operator runs. A Java
            slave reports bytes that it has written but not synced, so it does not count towards
            `copies` of a `synced` group.
    """

    node: str
    kind: NodeKind = "python"


@attrs.frozen
class MasterNode:
    """The master of a group, with the same two forms as a slave.

    Attributes:
        node: a name from `[nodes]`.
        kind: with "java" the group only follows: a RocketMQ broker decides when an append is
            answered.
    """

    node: str
    kind: NodeKind = "python"


@attrs.frozen
class MemberNode:
    """One member of a DLedger group, with the same two forms as a slave.

    Attributes:
        node: a name from `[nodes]`.
        kind: "java" is a DLedger or RocketMQ node that the operator runs. It acknowledges and votes
            before it has flushed.
        candidate: with false it never leads: it holds the log, acknowledges and votes, but does not
            stand for election and takes no leadership over. For a group of RocketMQ brokers, who
            need a broker to lead them. While an entry is on such a member and on none that may lead
            and runs, nobody is elected. Upstream has no such key.
    """

    node: str
    kind: NodeKind = "python"
    candidate: bool = True


def member_nodes(values: Iterable[MemberNode | str]) -> tuple[MemberNode, ...]:
    return tuple(MemberNode(value) if isinstance(value, str) else value for value in values)


def master_node(value: MasterNode | str) -> MasterNode:
    return MasterNode(value) if isinstance(value, str) else value


def slave_nodes(values: Iterable[SlaveNode | str]) -> tuple[SlaveNode, ...]:
    return tuple(SlaveNode(value) if isinstance(value, str) else value for value in values)
