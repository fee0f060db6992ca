"""Events of DLedger members. Terms and indexes are -1 where there is none."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class RoleChanged:
    """A member took a role, or a term, and what it knows is remembered. Emitted by
    state_maintainer.

    Checkers: one term has one leader (ElectionSafety); sessions rise by one within a boot. `role`
    is CANDIDATE, LEADER or FOLLOWER; `leader` is "" where none is known.
    """

    session: int
    role: str
    term: int
    leader: str


@attrs.frozen(kw_only=True)
class VoteUnsaved:
    """The disk does not take a member's vote, so the member sends nothing that rests on it. Emitted
    by state_maintainer when that begins, and with `reason` "" when a vote is saved again.

    `term`: of the vote.
    """

    term: int
    reason: str


@attrs.frozen(kw_only=True)
class TermRefused:
    """A peer sent a term that no elections can have come to, and it was not taken. Emitted by
    state_maintainer, once for each peer in each incarnation of the actor.

    Attributes:
        peer: as it calls itself; "" if the term came with pushed entries, or with their answers.
        known: the member's own term.
    """

    peer: str
    term: int
    known: int


@attrs.frozen(kw_only=True)
class MembershipChanged:
    """What a member's vote is worth, see `Membership`: at a start where it is not "full", and when
    that changes. Emitted by state_maintainer.
    """

    membership: str


@attrs.frozen(kw_only=True)
class VoteForStranger:
    """A member's vote is for `voted_for`, who is no member: its file is another group's, or was
    changed. It is kept, for the member may have no other in that term. Emitted by storage, at each
    start.
    """

    term: int
    voted_for: str


@attrs.frozen(kw_only=True)
class MemberWeaker:
    """`member` counts in a group whose answers are on disks, and its own cluster file lets it
    acknowledge what is not: `settings`, "" when that is over. Emitted by durability_watch.
    """

    group: str
    member: str
    settings: str


@attrs.frozen(kw_only=True)
class DispatcherChanged:
    """A leader's dispatcher to `peer` took a state, and why. Emitted by entry_dispatcher.

    Checkers: each session begins with COMPARE; no APPEND without a COMPARE or TRUNCATE before.
    """

    peer: str
    term: int
    state: str
    detail: str


@attrs.frozen(kw_only=True)
class LedgerTruncated:
    """A follower took entries from its log because the leader's differ. Emitted by entry_handler;
    who led says its RoleChanged of that session.

    Checkers: none of them was committed, unless it lies before the log's new beginning.

    Attributes:
        index: the first that left.
        end: the last that left.
        next: the leader's entry that is written then: `index`, or where the log begins anew; -1:
            the event is of a version that did not record it.
        synced: the last of them that was synced here; -1: none was, or the event is of a version
            that did not record it.
    """

    session: int
    index: int
    end: int
    next: int = -1
    synced: int = -1


@attrs.frozen(kw_only=True)
class EntriesRefused:
    """A follower's store cannot take what its leader sends: the entry does not fit its files, whose
    size is another, or its end. Emitted by entry_handler, once a session.

    `index`: of the first entry that was given to it; `reason`: for people.
    """

    session: int
    index: int
    reason: str


@attrs.frozen(kw_only=True)
class CommittedRose:
    """The committed index as this member knows it. Emitted by quorum_ack_checker on a leader, by
    entry_handler on a follower.

    Checkers: CommittedIndexMonotonic, CommittedIsOnQuorum. Audits: `holders` are a majority.

    Attributes:
        holders: of a leader: the members that had acknowledged all up to `index`, itself among
            them; of a follower none.
    """

    session: int
    index: int
    holders: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class SnapshotSaved:
    """A snapshot is on the disk: this member's own, or (`installed`) one that the leader sent. By
    state_machine_caller.

    Checkers: CommittedIndex reached `index` before; indexes rise within a boot.
    """

    index: int
    term: int
    size_bytes: int
    installed: bool


@attrs.frozen(kw_only=True)
class SnapshotLoaded:
    """The state machine is what a snapshot says, up to `index`. Emitted by state_machine_caller."""

    index: int
    term: int


@attrs.frozen(kw_only=True)
class SnapshotFailed:
    """A snapshot could not be taken, sent or received, or is damaged and passed over; the member
    goes on without it. Emitted by state_machine_caller and entry_dispatcher.

    `index`: of the last entry that it stands for, -1 if it is not known.
    """

    index: int
    reason: str


@attrs.frozen(kw_only=True)
class SnapshotRefused:
    """A member needs a snapshot and cannot get it: a Java member from us, or we from a leader that
    sends none. Emitted by entry_dispatcher and entry_handler; once a minute, once a session.

    `peer`: who is concerned beside us; `index`: where its log, or ours, would have to begin.
    """

    peer: str
    index: int
    reason: str


@attrs.frozen(kw_only=True)
class PeerNotUnderstood:
    """What `peer` says of the log is no answer to what it was asked, or, of a leader, nothing that
    a follower can read: it speaks another dialect. None of it counts. Emitted by entry_dispatcher,
    when the reason is news, and entry_handler, once a session.

    `said`: what came, for whoever looks for the reason.
    """

    peer: str
    reason: str
    said: str
