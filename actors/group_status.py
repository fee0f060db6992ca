"""What a node says of itself in one group, whatever the group's mode: one class for all readers.

The node's part in the group makes it, and it crosses the API's socket as JSON, under the names of
the fields. Terminal, summary, client, feed and audits read only this: what differs per mode is said
by `Terms`, and what only one mode has stands in `details`, as JSON.

Positions are ends: up to there the log has it. In a log that counts bytes that is an offset; in one
that counts entries it is the index after the last entry, and people are shown that entry's.

Keys that are not known are skipped, so that a field can be added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import msgspec

from actors.config.kind import Terms
from actors.errors import TriologError
from actors.readable import readable_values

OPEN: Final = "open"
FOLLOWING: Final = "following"
"""What `GroupStatus.state` is, if anything, where all is well: of the leader, and of others. A Peer
and a Link to which that applies are FOLLOWING, too.
"""
DIVERGED: Final = "diverged"
"""What it is where the node itself knows up to where its log is the leader's; see `reason`."""

FENCED: Final = "fenced"
REFUSED: Final = "refused"
WITHOUT_ROOM: Final = "without_room"
DAMAGED: Final = "damaged"
STANDS_STILL: Final = "stands_still"
MENDED: Final = "mended"
FINDINGS: Final = (REFUSED, FENCED, WITHOUT_ROOM, DAMAGED, STANDS_STILL, MENDED)
"""Kinds of `GroupStatus.findings` that any mode may have: a follower whose log does not fit, so
that it gets nothing; a leader that takes no appends until somebody does something; a follower that
copies nothing as its disk has no room; a damaged copy; old files that do not go; what was mended.
"""


@attrs.frozen(kw_only=True)
class Peer:
    """Another member, as this one sees it.

    Attributes:
        state: a word or two.
        is_well: it answers, and takes what it gets.
        reason: why not, if that is known.
        end: how far its log is known to be like this one; None: not known.
        lag: what it is not known to hold, in the log's unit; None: not known.
        has_copy: it can hold a copy now, and counts.
        awaited: an ordered stop of this node waits until it has all.
        refused: its log does not fit, and it gets nothing until somebody does something.
        heard_age_s: since when it was silent; None: it was not heard.
        bytes_per_s: what was sent to it in the last full second; None: that is not counted.
        details: what only this mode has.
    """

    node: str
    state: str = ""
    is_well: bool = True
    reason: str = ""
    end: int | None = None
    lag: int | None = None
    has_copy: bool = False
    awaited: bool = False
    refused: bool = False
    heard_age_s: float | None = None
    bytes_per_s: int | None = None
    details: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Link:
    """A follower's own side of its connection to the leader, where it makes one.

    Attributes:
        state: a word.
        is_up: the log comes over it.
        error: why it was not, the last time.
        details: what only this mode has.
    """

    state: str = ""
    is_up: bool = False
    error: str = ""
    details: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Scrub:
    """How far a node has read its copy again, to find what is not as it was written.

    Attributes:
        unread_bytes: not read since its start.
        whole_age_s: how long ago a pass over all of it ended; None: none did.
    """

    unread_bytes: int
    whole_age_s: float | None


@attrs.frozen(kw_only=True)
class GroupStatus:
    """See the module's text.

    Attributes:
        mode: of the group.
        role: what the node is in the group, for people.
        leads: it takes itself for the one that takes appends.
        leader: whom it takes for that one; "" if it knows nobody.
        epoch: in which it does, or whom it names did; -1 before the first.
        is_open: it takes appends.
        state: what it does in its role, a word; "" if there is no more to say than the role.
        reason: why, where that is not as it should be.
        first, written, synced: of its log. `first` is the position of the first record.
        acknowledged: what readers may see; not all of it need be here.
        copies: nodes that hold what is acknowledged, at least, this one among them.
        durability: where what counts as a copy is.
        body_bytes_max: the largest record; None: not known.
        takes_empty: whether a record may be empty.
        peers: of the leader: all others. Of others: those that they know something of.
        link: see `Link`; None: it has none.
        scrub: see `Scrub`; None: not known.
        diverged: its log does not continue the leader's, and will not by itself.
        counts: records by what became of them here since the start.
        troubles: what keeps this node from doing its part, for people, the worst first.
        remarks: what is said behind its positions, for people.
        others: what is to be said of others, for people.
        findings: what a run's summary reports of this node: by kind, see `FINDINGS`.
        details: what only this mode has.
    """

    mode: str
    terms: Terms
    role: str
    leads: bool
    leader: str
    epoch: int
    is_open: bool
    first: int
    written: int
    synced: int
    acknowledged: int
    copies: int = 1
    durability: str = ""
    state: str = ""
    reason: str = ""
    body_bytes_max: int | None = None
    takes_empty: bool = True
    peers: tuple[Peer, ...] = ()
    link: Link | None = None
    scrub: Scrub | None = None
    diverged: bool = False
    counts: Mapping[str, int] = attrs.field(factory=dict)
    troubles: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    findings: Mapping[str, str] = attrs.field(factory=dict)
    details: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def copies_count(self) -> int:
        """How many nodes can hold a copy now, as the leader sees it, itself among them."""
        return 1 + sum(peer.has_copy for peer in self.peers)

    def has_copied(self, end: int) -> bool:
        """Whether who leads has its copies, and all before `end` is acknowledged."""
        return self.copies_count >= self.copies and self.acknowledged >= end

    def plain(self) -> dict[str, Any]:
        """Ready for JSON."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def group_statuses(answer: Mapping[str, Any]) -> dict[str, GroupStatus]:
    """The groups of a node's status answer, by name, with text that can be shown.

    Raises: TriologError: it is no such answer; one line, with the field that is wrong.
    """
    groups = answer.get("groups", {})
    if not isinstance(groups, Mapping):
        raise _unreadable(answer, "groups", "it is no table of groups")
    return {str(name): _decoded(answer, str(name), said) for name, said in groups.items()}


def group_status(answer: Mapping[str, Any], group: str) -> GroupStatus | None:
    """The status of one group, as by `group_statuses`; None if the answer has none of that name."""
    groups = answer.get("groups", {})
    if not isinstance(groups, Mapping) or group not in groups:
        return None
    return _decoded(answer, group, groups[group])


def _decoded(answer: Mapping[str, Any], group: str, said: Any) -> GroupStatus:
    said = readable_values(said)
    try:
        return msgspec.convert(said, GroupStatus)
    except msgspec.ValidationError as error:
        raise _unreadable(answer, group, str(error)) from None


def _unreadable(answer: Mapping[str, Any], group: str, why: str) -> TriologError:
    what = readable_values(f"{answer.get('node', 'a node')}'s status of {group}: {why}")
    return TriologError(f"cannot read {what}")
