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
    """Which of upstream's looser rules hold, each by itself; none by default.

    The names in brackets are those of the known bugs (dledger.md 11), each of which a
    script under `tests/scripts/upstream/` shows. `upstream` has them all.

    Attributes:
        term_entry: how a leader opens its term: "empty": with an entry, below which older ones
            are committed; "none": with nothing.
        count_older: entries of older terms are committed by counting (B1); must be with "none",
            for an idle leader would never know what is committed.
        cut_stays: what was cut comes back after a restart (B6).
        vote_unsynced: a vote is sent before it is on the disk (B8).
        ack_unsynced: an entry counts on a member that has written it (B9); a group with
            `durability = "written"` says so without `compat`, too.
        match_is_end: a follower takes its end for what it shares with its leader: it appends there
            without a comparison, and TRUNCATE takes what is behind at once (B11).
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
        deposed_waits: a leader's appends that wait are left waiting when its leadership ends, and
            those that timed out keep their positions (V11).
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
    """Settings of one group, equal on all its nodes but for `candidate` and perhaps `raft_votes`.

    Attributes:
        raft_votes: a voter takes a larger term and gives its vote in it in one step, and a
            candidate that could not win its term, and has heard from a quorum that it sees no
            leader, asks in the next term at once; as Raft's RequestVote and PreVote. Upstream's
            voter answers first that it is not ready, and its candidate pauses at each of these
            steps. It may also vote although it sees a leader (bug V9), and its vote is taken for
            the answer that it sees none.
        candidate: whether this member may lead. If not, it follows and votes, and neither campaigns
            nor takes leadership over; upstream has no such members.
        heartbeat_interval_s: upstream's heartBeatTimeIntervalMs, 2000.
        heartbeat_leaks: intervals without a heartbeat after which a follower campaigns, and without
            a quorum's answers after which a leader steps down: maxHeartBeatLeak, 3.
        vote_interval_min_s, vote_interval_max_s: the pause before a campaign is drawn from here:
            minVoteIntervalMs 300, maxVoteIntervalMs 1000.
        take_over_interval_min_s, take_over_interval_max_s: the same while this node takes over from
            a leader: minTakeLeadershipVoteIntervalMs 30, maxTakeLeadershipVoteIntervalMs 100.
        vote_round_extra_s: a round of votes is waited for heartbeat_interval_s and a random part of
            this: 1.0.
        transfer_lag_max: entries that a transferee may be behind: maxLeadershipTransferWaitIndex,
            1000.
        transfer_wait_s: how long a transferee waits for its log to reach the leader's end:
            leadershipTransferWaitTimeout, 1000 ms.
        preferred_leaders: names of members that should lead if they can: preferredLeaderIds.
        preferred_check_s: how often a leader looks whether one of them can: 1.0. One that did not
            take over is not asked for twice as long, then longer (`preferred.PreferredPauses`).
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
        """Silence after which a follower campaigns and a leader steps down."""
        return self.heartbeat_interval_s * self.heartbeat_leaks


@attrs.frozen(kw_only=True)
class PushSettings:
    """Settings by which a leader sends its log to one peer, and a follower takes it.

    Attributes:
        pending_max: pushes to one peer that are not answered: maxPendingSize, 1000.
        in_flight_bytes_max: bytes of such pushes, reached by the last of them: 4 MiB (ours;
            upstream has no such bound).
        in_flight_bytes_least: down to there the bound may fall for a peer that refuses what it is
            sent (`push_window`); None: it does not, as upstream.
        push_timeout_s: age at which the push after the watermark is sent again:
            maxPushTimeOutMs, 1000.
        commit_push_s: idle time after which the committed index is sent by itself: 1.0.
        commit_news_s: the same if it has risen since the last push: `commit_push_s` in upstream.
        error_pause_s: pause after a failed COMPARE or TRUNCATE: 0.5.
        follower_pause_s: the same after the answer that the peer does not follow: it is about to,
            for a leader's first heartbeat goes before its pushes. It doubles with each such answer
            in a row, up to `error_pause_s`, which it is in upstream from the first on.
        reply_timeout_s: COMPARE and TRUNCATE are waited for so long: 3.0.
        batch: several entries to a push: enableBatchPush. A peer of ours takes them in any case.
        batch_bytes_max: maxBatchPushSize, 4096.
        quota_bytes_per_s: to a peer that is far behind: peerPushQuota, 20 MiB; 0: none.
        throttle_bytes: how far "far behind" is: peerPushThrottlePoint, 300 MiB.
        throttle_entries: and at least so many entries: 1000.
        gap_s: how long a follower keeps a push that does not fit its end yet: 1.0.
        resends_max: resends without progress after which the leader compares again: 3 (upstream
            goes on for ever, bug V2).
        snapshots: what a peer gets that has nothing in common with a log whose beginning is gone:
            "none": the log from where it begins; there is no state machine. "install": a snapshot,
            and the log from there on. "refuse": nothing, for it is a Java member of dialect L,
            which takes no snapshot.
        refusal_pause_s: between two looks at a peer that is refused: 60.
        foreign_pause_s: the same at one whose answers are none: it may be another program by then.
            5.0.
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
    """When an append is answered.

    Attributes:
        waiting_max: appends of one term that wait for a quorum: maxPendingRequestsNum, 10000; one
            more is still accepted, as upstream's comparison does.
        wait_s: maxWaitAckTimeMs, 2500.
    """

    waiting_max: int = 10_000
    wait_s: float = 2.5
