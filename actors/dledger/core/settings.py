"""The settings of DLedger's protocol, under our names and with upstream's defaults.

Source: openmessaging/dledger, DLedgerConfig.java and DLedgerEntryPusher.java, 0.3.1.2;
dledger.md 10.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

REVOTE_PAUSE_S: Final = 0.05
"""The pause of a candidate whose voters answered that they are about to raise their term.

Upstream asks again at once, every 17 ms while the other waits out a round of its own: 94 requests
in 1.6 s were seen (dledger.md 4.2).
"""
LEADER_SEEN_LEAKS: Final = 3
"""Heartbeat intervals that a candidate adds to its pause when somebody reports a leader."""
LEADER_SEEN_RAFT_LEAKS: Final = 1
"""The same with `ElectionSettings.raft_votes`. A member that reported a leader which is gone got at
most one heartbeat more, and misses the next one by then. Asking again so soon disturbs no leader.
"""
BEHIND_PAUSE_S: Final = 1.0
"""The seconds that a candidate adds to its pause when too many members have a longer log."""
NUMBERS_PER_INCARNATION: Final = 1 << 40
"""How many numbers each incarnation of a state maintainer has for its requests. An answer may come
to the next incarnation, where a vote in an older term would otherwise count in a newer one.
"""
TRANSFER_TIMEOUT_S: Final = 3.0
"""How long a member may take to answer a transfer: upstream's limit for calls between members."""

PREFERRED_PAUSE_MAX_S: Final = 60.0
"""The longest pause before a preferred leader that did not take over is asked again. Each attempt
may hold appends for TRANSFER_TIMEOUT_S.
"""


@attrs.frozen(kw_only=True)
class CompatSettings:
    """Upstream's looser rules, each of which can hold alone. None of them holds by default.

    The names in brackets are those of the known bugs (dledger.md 11), each of which a
    script under `tests/scripts/upstream/` shows. `upstream` has them all.

    Attributes:
        term_entry: how a leader opens its term. "empty": with an entry, below which older ones
            are committed. "none": with nothing.
        count_older: entries of older terms are committed by counting (B1). It has to be true with
            "none", because an idle leader would never know what is committed.
        cut_stays: entries that were cut come back after a restart (B6).
        vote_unsynced: a vote is sent before it is on the disk (B8).
        ack_unsynced: an entry counts on a member that has written it (B9). It is also true in a
            group with `durability = "written"` without `compat`.
        match_is_end: a follower takes its end for the end of what it shares with its leader. It
            appends there without a comparison, and TRUNCATE removes what is behind at once (B11).
        cut_committed: committed entries that differ from the leader's are cut like others, and the
            committed index stays where it was, above the end (B12).
        read_uncommitted: readers see the log's end (B13).
        commit_to_end: a follower commits what it has, compared or not (B14).
        quorum_hides_terms: a leader that a quorum follows ignores larger terms in answers (V1).
        pushes_stick: a push that was refused for a gap stays in the follower's queue, and its
            leader sends it for ever (V2).
        commits_unread: a leader does not read answers to COMMIT (V8).
        votes_beside_leader: a follower that has its vote still gives it away (V9).
        lead_without_disk: a full disk ends no leadership (V10).
        deposed_waits: a leader's appends go on waiting when its leadership ends, and those that
            timed out keep their positions (V11).
        compare_by_one: the search for the common part goes down by one (V12).
        shared_connection: heartbeats stand behind pushes (V14).
        transfer_unanswered: a request for a transfer is not answered if the transfer fails after
            the leadership ended (V15).
    """

    term_entry: Literal["empty", "none"] = "empty"
    count_older: bool = False
    cut_stays: bool = False
    vote_unsynced: bool = False
    ack_unsynced: bool = False
    match_is_end: bool = False
    cut_committed: bool = False
    read_uncommitted: bool = False
    commit_to_end: bool = False
    quorum_hides_terms: bool = False
    pushes_stick: bool = False
    commits_unread: bool = False
    votes_beside_leader: bool = False
    lead_without_disk: bool = False
    deposed_waits: bool = False
    compare_by_one: bool = False
    shared_connection: bool = False
    transfer_unanswered: bool = False

    def __attrs_post_init__(self) -> None:
        assert self.count_older or self.term_entry != "none"

    @classmethod
    def upstream(cls, term_entry: Literal["empty", "none"] = "none") -> CompatSettings:
        """Return settings with all of upstream's looser rules."""
        flags = {each.name: True for each in attrs.fields(cls) if each.type == "bool"}
        return cls(term_entry=term_entry, **flags)


STRICT: Final = CompatSettings()
"""The default settings, without any of upstream's looser rules."""


@attrs.frozen(kw_only=True)
class ElectionSettings:
    """The settings of a group's elections.

    They are equal on all nodes of the group, except for `candidate` and perhaps `raft_votes`.

    Attributes:
        raft_votes: whether votes are as Raft's RequestVote and PreVote. A voter takes a larger term
            and gives its vote in it in one step. A candidate that could not win its term, and has
            heard from a quorum that it sees no leader, asks in the next term at once. Upstream's
            voter answers first that it is not ready, and its candidate pauses at each of these
            steps. It may also vote although it sees a leader (bug V9), and its vote is taken for
            the answer that it sees none.
        candidate: whether this member may lead. If not, it follows and votes, and neither campaigns
            nor takes leadership over; upstream has no such members.
        heartbeat_interval_s: the seconds between two heartbeats (upstream: heartBeatTimeIntervalMs,
            2000).
        heartbeat_leaks: the intervals without a heartbeat after which a follower campaigns, and
            without a quorum's answers after which a leader steps down (maxHeartBeatLeak, 3).
        vote_interval_min_s, vote_interval_max_s: the range from which the pause before a campaign
            is drawn (minVoteIntervalMs 300, maxVoteIntervalMs 1000).
        take_over_interval_min_s, take_over_interval_max_s: the range of that pause while this node
            takes over from a leader (minTakeLeadershipVoteIntervalMs 30,
            maxTakeLeadershipVoteIntervalMs 100).
        vote_round_extra_s: a candidate waits for the answers of a round for heartbeat_interval_s
            and a random part of this (1.0).
        transfer_lag_max: the entries that a transferee may be behind
            (maxLeadershipTransferWaitIndex, 1000).
        transfer_wait_s: how long a transferee waits for its log to reach the leader's end
            (leadershipTransferWaitTimeout, 1000 ms).
        preferred_leaders: the names of members that should lead if they can (preferredLeaderIds).
        preferred_check_s: the seconds between two looks of a leader whether one of them can lead
            (1.0). A member that did not take over is not asked for twice as long, and then for
            longer (`preferred.PreferredPauses`).
    """

    raft_votes: bool = False
    candidate: bool = True
    heartbeat_interval_s: float = 2.0
    heartbeat_leaks: int = 3
    vote_interval_min_s: float = 0.3
    vote_interval_max_s: float = 1.0
    take_over_interval_min_s: float = 0.03
    take_over_interval_max_s: float = 0.1
    vote_round_extra_s: float = 1.0
    transfer_lag_max: int = 1000
    transfer_wait_s: float = 1.0
    preferred_leaders: tuple[str, ...] = ()
    preferred_check_s: float = 1.0

    @property
    def leak_s(self) -> float:
        """The seconds of silence after which a follower campaigns and a leader steps down."""
        return self.heartbeat_interval_s * self.heartbeat_leaks


@attrs.frozen(kw_only=True)
class PushSettings:
    """The settings by which a leader sends its log to one peer, and a follower takes it.

    Attributes:
        pending_max: the most unanswered pushes to one peer (upstream: maxPendingSize, 1000).
        in_flight_bytes_max: the bytes of unanswered pushes from which on no further one is sent
            (4 MiB; upstream has no such bound).
        in_flight_bytes_least: the least to which that bound falls for a peer that refuses what it
            is sent (`push_window`); None if it does not fall, as in upstream.
        push_timeout_s: the age at which the push after the watermark is sent again
            (maxPushTimeOutMs, 1000).
        commit_push_s: the idle time after which the committed index is sent by itself (1.0).
        commit_news_s: that time if the index has risen since the last push; in upstream it is
            `commit_push_s`.
        error_pause_s: the pause after a failed COMPARE or TRUNCATE (0.5).
        follower_pause_s: the pause after the answer that the peer does not follow yet. It is about
            to, because a leader's first heartbeat is sent before its pushes. The pause doubles with
            each such answer in a row, up to `error_pause_s`, its only value in upstream.
        reply_timeout_s: how long the answer to a COMPARE or TRUNCATE is waited for (3.0).
        batch: whether a push may have several entries (enableBatchPush). A peer of ours always
            takes them.
        batch_bytes_max: the most bytes of such a push (maxBatchPushSize, 4096).
        quota_bytes_per_s: the most bytes per second to a peer that is far behind (peerPushQuota,
            20 MiB); 0 for no limit.
        throttle_bytes: how many bytes a peer lacks that is far behind (peerPushThrottlePoint,
            300 MiB).
        throttle_entries: how many entries it lacks at least (1000).
        gap_s: how long a follower keeps a push that does not fit its end yet (1.0).
        resends_max: the resends without progress after which the leader compares again (3;
            upstream goes on for ever, bug V2).
        snapshots: what a peer gets that shares nothing with a log whose beginning is gone. "none":
            the log from its beginning, as there is no state machine. "install": a snapshot, and the
            log from there on. "refuse": nothing, because it is a Java member of dialect L, which
            takes no snapshot.
        refusal_pause_s: the pause between two looks at a peer that is refused (60).
        foreign_pause_s: that pause for a peer whose answers are not DLedger's; by then another
            program may listen there (5.0).
    """

    pending_max: int = 1000
    in_flight_bytes_max: int = 4 << 20
    in_flight_bytes_least: int | None = None
    push_timeout_s: float = 1.0
    commit_push_s: float = 1.0
    commit_news_s: float = 1.0
    error_pause_s: float = 0.5
    follower_pause_s: float = 0.5
    reply_timeout_s: float = 3.0
    batch: bool = False
    batch_bytes_max: int = 4096
    quota_bytes_per_s: int = 20 << 20
    throttle_bytes: int = 300 << 20
    throttle_entries: int = 1000
    gap_s: float = 1.0
    resends_max: int = 3
    snapshots: Literal["none", "install", "refuse"] = "none"
    refusal_pause_s: float = 60.0
    foreign_pause_s: float = 5.0


@attrs.frozen(kw_only=True)
class AckSettings:
    """The settings by which appends are answered.

    Attributes:
        waiting_max: the most appends of one term that wait for a quorum (maxPendingRequestsNum,
            10000). One more is still accepted, as by upstream's comparison.
        wait_s: how long an append waits (maxWaitAckTimeMs, 2500).
    """

    waiting_max: int = 10_000
    wait_s: float = 2.5
