"""`mode = "mirror"`: a mode that only this folder knows. Two nodes; the first takes appends, the
second copies them, and an append returns when both have it on their disks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import attrs

from actors.config import Durability
from actors.config.bounds import INTERVAL, NAME, PORT, Within
from actors.config.group import ConfiguredRole, LargestFile, StoreType
from actors.config.kind import ConfigKind, Guarantee, Terms
from actors.config.problems import Problem, describe

MODE: Final = "mirror"
BODY_BYTES_MAX: Final = 4096
_WRITER: Final = ConfiguredRole(name="writer", listens=True, appends=True, receives=False)
_COPY: Final = ConfiguredRole(name="copy", listens=False, appends=False, receives=True)


@attrs.frozen(kw_only=True)
class MirrorGroup:
    """`[groups.NAME]` with `mode = "mirror"`.

    Attributes:
        members: the writer, then its copy.
        port: where the writer listens for its copy.
    """

    name: str = attrs.field(validator=NAME)
    mode: Literal["mirror"] = "mirror"
    members: tuple[str, ...]
    port: int = attrs.field(default=30_000, validator=PORT)
    append_timeout_s: float = attrs.field(default=2.0, validator=INTERVAL)
    append_pending_bytes: int = attrs.field(default=1 << 20, validator=Within(1, 1 << 30))
    receive_pending_bytes: int = attrs.field(default=1 << 20, validator=Within(1, 1 << 30))

    @property
    def writer(self) -> str:
        return self.members[0]

    @property
    def durability(self) -> Durability:
        return "synced"

    @property
    def body_bytes_max(self) -> int:
        return BODY_BYTES_MAX

    @property
    def java_nodes(self) -> tuple[str, ...]:
        return ()

    @property
    def sure_copies(self) -> int:
        return len(self.members)

    @property
    def store(self) -> StoreType:
        return "file"

    @property
    def as_upstream(self) -> bool:
        return False

    @property
    def takes_empty(self) -> bool:
        return True

    @property
    def election(self) -> None:
        return None

    @property
    def largest_file(self) -> LargestFile | None:
        return None

    def role_of(self, node: str) -> ConfiguredRole:
        return _WRITER if node == self.writer else _COPY


def _problems(group: MirrorGroup, nodes: Mapping[str, str]) -> Iterator[Problem]:
    key = ("groups", group.name, "members")
    if len(set(group.members)) != 2:
        yield Problem(key, "two members", str(len(set(group.members))))
    for place, name in enumerate(group.members):
        if name not in nodes:
            expected = f"one of the nodes {', '.join(nodes)}"
            yield Problem((*key, place), expected, describe(name), (("nodes",), key))


def _guarantee(group: MirrorGroup) -> Guarantee:
    return Guarantee(
        mode="mirror",
        returns_when="both nodes have it, each on its disk",
        holds_after="loss of any one node; power loss of both",
        judges=("MirroredBeforeAnswered",),
    )


CONFIG: Final = ConfigKind(
    group=MirrorGroup,
    copiers="copies",
    callers="the copy",
    shares_port=False,
    problems=_problems,
    guarantee=_guarantee,
    guarantees=lambda: (_guarantee(MirrorGroup(name="pair", members=("n0", "n1"))),),
    fresh_read=lambda group: f"is refused but by {group.writer}",
    rows=lambda group: [("a log", "is one file of lines")],
    terms=Terms(leader="writer", peer="copy", epoch="turn", acknowledged="mirrored"),
)
