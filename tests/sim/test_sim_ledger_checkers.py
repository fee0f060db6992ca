"""Every invariant of DLedger groups is fed a history that is right, then one that is broken."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from entry_kit import encode_entry, new_entry

from actors.events import dledger, store
from actors.log_types import Batch, Offsets, Receipt, Record
from actors.sim.dledger.judges import checkers
from actors.sim.dledger.ledger_bytes import SimLedgers, index_of
from actors.sim.dledger.members import DATA_FILE_BYTES, SimGroups, ledger_config
from actors.sim.history import (
    AppendAnswered,
    AppendAsked,
    FaultInjected,
    History,
    NodeLooked,
    Observation,
    OffsetsSeen,
    RecordsRead,
)
from actors.sim.world import SimEvent, open_world
from actors.storage.ledger.term_files import TermVote
from actors.storage.log.commit_log import segment_path
from wire.dledger.entry import (
    encode_blank,
)

GROUP = ledger_config(3, {"g0": {}}).ledger_groups_of("n0")[0]


def entry(index: int, term: int = 1, body: bytes = b"") -> bytes:
    return encode_entry(new_entry(index=index, term=term, pos=100 * index, body=body or b"b"))


@attrs.define
class Logs:
    """Logs as lists; `lost` is not on the disk."""

    logs: dict[str, list[bytes]] = attrs.field(factory=dict)
    lost: list[tuple[str, int]] = attrs.field(factory=list)
    votes: dict[str, TermVote] = attrs.field(factory=dict)

    def entry(self, node: str, index: int) -> bytes:
        log = self.logs.get(node, [])
        return log[index] if index < len(log) else b""

    def first(self, node: str) -> int:
        return next((at for at, each in enumerate(self.logs.get(node, [])) if each), -1)

    def holds(self, node: str, wanted: bytes) -> bool:
        log = self.logs.get(node, [])
        return wanted in log and (node, log.index(wanted)) not in self.lost

    def vote(self, node: str) -> TermVote | None:
        return self.votes.get(node)


def reported(node: str, event: Any, *, part: str = "state_maintainer", boot: int = 1) -> SimEvent:
    path = f"/{node}/g0/{part}"
    return SimEvent(at_s=1.0, node=node, boot=boot, path=path, incarnation=1, event=event)


def leads(node: str, term: int) -> SimEvent:
    event = dledger.RoleChanged(session=term, role="LEADER", term=term, leader=node)
    return reported(node, event)


def follows(node: str, term: int, leader: str) -> SimEvent:
    event = dledger.RoleChanged(session=term, role="FOLLOWER", term=term, leader=leader)
    return reported(node, event)


def committed(node: str, index: int, boot: int = 1, session: int = 1) -> SimEvent:
    return reported(node, dledger.CommittedRose(session=session, index=index), boot=boot)


def recovered(node: str) -> SimEvent:
    event = store.RecoveryFinished(
        was_clean=False,
        scanned_from_bytes=0,
        end_bytes=0,
        record_count=0,
        kept_bytes=0,
        reason="",
    )
    return reported(node, event, part="storage/store")


def disk_is_full(node: str, *, is_full: bool) -> SimEvent:
    return reported(
        node, store.DiskUsageChanged(is_full=is_full, used_ratio=1.0), part="storage/store"
    )


def looked(node: str, at_s: float) -> NodeLooked:
    return NodeLooked(at_s=at_s, node=node, boot=1, status={}, tree={})


def fault(kind: str, where: str = "n0") -> FaultInjected:
    return FaultInjected(at_s=1.0, kind=kind, where=where)


def asked(operation: int, *bodies: bytes) -> AppendAsked:
    return AppendAsked(at_s=1.0, client="c", operation=operation, bodies=bodies, group="g0")


def answered(operation: int, first: int, last: int) -> AppendAnswered:
    receipt = Receipt(
        first=first,
        last=last,
        next=last + 1,
        count=last + 1 - first,
        copies=2,
        durability="synced",
    )
    return AppendAnswered(at_s=1.0, client="c", operation=operation, receipt=receipt)


def read(acknowledged: int, *records: tuple[int, bytes], start: int = 0) -> RecordsRead:
    shown = tuple(
        Record(
            position=position,
            next_position=position + 1,
            topic="",
            queue_id=0,
            queue_offset=position,
            body=body,
            tags="",
            keys=(),
            properties=(),
            store_timestamp_ms=0,
            born_timestamp_ms=0,
        )
        for position, body in records
    )
    after = records[-1][0] + 1 if records else start
    batch = Batch(records=shown, next=after, acknowledged=acknowledged, end=9, lag_bytes=0)
    return RecordsRead(at_s=1.0, node="n1", boot=1, asked=0, start=start, batch=batch, group="g0")


def shows(acknowledged: int) -> OffsetsSeen:
    offsets = Offsets(min=0, written=9, synced=9, acknowledged=acknowledged, master="n0")
    return OffsetsSeen(at_s=1.0, node="n1", boot=1, asked=0, offsets=offsets, group="g0")


@attrs.define
class Judged:
    """A history with all checkers."""

    logs: Logs = attrs.field(factory=Logs)
    history: History = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        chosen = checkers.Chosen(group=GROUP, logs=self.logs)
        self.history = History(checkers.ledger_invariants(chosen))

    def see(self, *observations: Observation) -> list[str]:
        """Which checkers have objected so far."""
        for one in observations:
            self.history.add(one)
        return [violation.checker for violation in self.history.violations]


@pytest.fixture
def judged() -> Judged:
    """All members hold entries 0 to 3 of term 1, n0 leads and has committed 0 and 1."""
    one = Judged()
    log = [entry(index) for index in range(4)]
    one.logs.logs = {name: list(log) for name in GROUP.members}
    assert one.see(leads("n0", 1), follows("n1", 1, "n0"), committed("n0", 1)) == []
    return one


def test_a_good_history_passes(judged: Judged) -> None:
    good = (
        asked(1, b"b", b"b"),
        committed("n0", 3),
        committed("n1", 2),
        answered(1, 2, 3),
        shows(4),
        read(4, (2, b"b"), start=2),
        recovered("n2"),
        committed("n2", 1, boot=2),
        fault("kill"),
        leads("n2", 2),
        looked("n1", 99.0),
    )
    assert judged.see(*good) == []


def test_two_leaders_of_one_term(judged: Judged) -> None:
    assert judged.see(leads("n1", 1)) == ["ElectionSafety"]


def test_a_second_vote_and_a_term_that_falls(judged: Judged) -> None:
    judged.logs.votes["n2"] = TermVote(3, "n0")
    assert judged.see(looked("n2", 2.0)) == []
    judged.logs.votes["n2"] = TermVote(3, "n1")
    assert judged.see(follows("n2", 3, "n1")) == ["VoteOnce"]
    judged.logs.votes["n2"] = TermVote(2, "")
    assert judged.see(looked("n2", 3.0)) == ["VoteOnce"] * 2


def test_a_term_that_is_not_on_the_disk(judged: Judged) -> None:
    judged.logs.votes["n2"] = TermVote(3, "n0")
    assert judged.see(follows("n2", 3, "n0")) == []
    assert judged.see(follows("n2", 4, "n0")) == ["VoteOnce"]


def test_a_leader_without_votes(judged: Judged) -> None:
    judged.logs.votes |= {"n0": TermVote(2, "n0"), "n1": TermVote(2, "n0"), "n2": TermVote(2, "n2")}
    assert judged.see(leads("n0", 2)) == []
    judged.logs.votes |= {"n1": TermVote(3, "n1"), "n2": TermVote(4, "n0")}
    assert judged.see(leads("n1", 3)) == [], "n2 may have voted for it before"
    judged.logs.votes |= {"n0": TermVote(5, "n0"), "n2": TermVote(4, "n0")}
    assert judged.see(leads("n0", 5)) == ["LeaderIsElected"]


def test_a_disk_that_was_wiped_may_have_forgotten(judged: Judged) -> None:
    judged.logs.votes["n2"] = TermVote(3, "n0")
    judged.see(looked("n2", 2.0), fault("wiped", "n2"))
    judged.logs.votes["n2"] = TermVote(0, "")
    assert judged.see(looked("n2", 3.0)) == []


def test_a_committed_index_that_falls(judged: Judged) -> None:
    assert judged.see(committed("n0", 1)) == ["CommittedIndexMonotonic"]
    assert judged.see(committed("n0", 0, boot=2)) == ["CommittedIndexMonotonic"]


def test_a_part_that_was_started_anew_may_have_heard_of_more(judged: Judged) -> None:
    anew = attrs.evolve(committed("n0", 0), incarnation=2)
    assert judged.see(anew) == []
    assert judged.see(anew) == ["CommittedIndexMonotonic"]


def test_another_entry_is_committed_at_the_same_index(judged: Judged) -> None:
    judged.logs.logs["n1"][1] = entry(1, 2)
    found = judged.see(leads("n1", 2), committed("n1", 2))
    assert "Chosen" in found


def test_a_leader_that_commits_what_it_has_not(judged: Judged) -> None:
    assert "Chosen" in judged.see(committed("n0", 7))


def test_a_follower_that_is_ahead_of_every_leader(judged: Judged) -> None:
    assert judged.see(committed("n1", 3)) == ["Chosen"]


def test_a_follower_that_never_writes_what_it_calls_committed(judged: Judged) -> None:
    judged.logs.logs["n1"][1] = entry(1, 0)
    assert judged.see(committed("n1", 1), looked("n1", 3.0)) == []
    assert "Chosen" in judged.see(looked("n1", 3.0 + checkers.WRITTEN_S))


def test_a_follower_whose_disk_is_full_has_time_until_it_has_room(judged: Judged) -> None:
    judged.logs.logs["n1"][1] = entry(1, 0)
    full = disk_is_full("n1", is_full=True)
    room, room_s = disk_is_full("n1", is_full=False), 3.0 + checkers.WRITTEN_S
    assert judged.see(committed("n1", 1), full, looked("n1", room_s)) == []
    assert judged.see(attrs.evolve(room, at_s=room_s), looked("n1", room_s + 1.0)) == []
    assert "Chosen" in judged.see(looked("n1", room_s + checkers.WRITTEN_S))


def test_a_leader_without_a_committed_entry(judged: Judged) -> None:
    judged.logs.logs["n2"][1:] = []
    assert judged.see(leads("n2", 2)) == ["LeaderCompleteness"]


def test_a_leader_by_late_votes_without_what_a_later_term_committed(judged: Judged) -> None:
    judged.logs.logs["n2"][3:] = []
    assert judged.see(leads("n0", 2), committed("n0", 3)) == []
    assert "LeaderCompleteness" not in judged.see(leads("n2", 1))
    assert "LeaderCompleteness" in judged.see(leads("n2", 2))


def test_a_commit_that_no_quorum_has(judged: Judged) -> None:
    judged.logs.lost += [("n1", 3), ("n2", 2)]
    assert judged.see(committed("n0", 2)) == []
    assert judged.see(committed("n0", 3)) == ["CommittedIsOnQuorum"]


def test_an_older_entry_that_is_committed_by_counting(judged: Judged) -> None:
    for log in judged.logs.logs.values():
        log.append(entry(4, 2))
    assert judged.see(leads("n1", 2), committed("n1", 4, session=2)) == []
    for log in judged.logs.logs.values():
        log.append(entry(5, 2))
    assert judged.see(leads("n2", 3), committed("n2", 5, session=3)) == ["CommittedByOwnTerm"]


@pytest.mark.parametrize("moment", [recovered("n2"), fault("kill")])
def test_committed_entries_that_are_gone(judged: Judged, moment: Observation) -> None:
    judged.see(fault("stop"))
    judged.logs.lost += [("n1", 0), ("n2", 1)]
    assert judged.see(recovered("n1"), moment) == ["CommittedNeverLost"]


def test_two_entries_of_one_index_and_term(judged: Judged) -> None:
    judged.see(looked("n0", 2.0))
    judged.logs.logs["n1"][3] = entry(3, 1, b"other")
    assert judged.see(looked("n1", 3.0)) == ["LogMatching"]


def test_different_entries_before_the_same(judged: Judged) -> None:
    judged.see(looked("n0", 2.0))
    judged.logs.logs["n2"][2] = entry(2, 0)
    assert judged.see(looked("n2", 3.0)) == ["LogMatching"]


def test_a_log_that_was_cut_and_goes_on_otherwise(judged: Judged) -> None:
    judged.see(looked("n0", 2.0))
    judged.logs.logs["n0"][2:] = [entry(2, 2), entry(3, 2)]
    assert judged.see(looked("n0", 3.0)) == []
    judged.logs.logs["n1"][2:] = [entry(2, 2, b"other")]
    assert judged.see(looked("n1", 3.0)) == ["LogMatching"]


def begun_anew(judged: Judged, *log: bytes) -> None:
    """n2's log goes on with entry 6, behind a gap; n1's has all of them."""
    judged.logs.logs["n1"] += [entry(4), entry(5), entry(6, 2), entry(7, 2)]
    assert judged.see(looked("n1", 2.0), looked("n2", 2.0)) == []
    judged.logs.logs["n2"] = [b""] * 6 + list(log)
    judged.see(looked("n2", 3.0))


@pytest.mark.parametrize(
    ("other", "objects"),
    [(entry(7, 2), False), (entry(7, 2, b"other"), True), (entry(6, 2, b"other"), True)],
    ids=["the same", "another behind", "another first"],
)
def test_a_log_that_was_begun_anew(judged: Judged, other: bytes, objects: bool) -> None:
    log = {6: entry(6, 2), 7: entry(7, 2)} | {index_of(other): other}
    begun_anew(judged, *log.values())
    assert judged.see() == ["LogMatching"] * objects


def test_what_comes_before_a_log_that_was_begun_anew_is_learned_from_others(judged: Judged) -> None:
    judged.logs.logs["n2"] = [b"", b"", entry(2, 2), entry(3, 2)]
    assert judged.see(looked("n2", 2.0)) == []
    judged.logs.logs["n0"][2:] = [entry(2, 2), entry(3, 2)]
    assert judged.see(looked("n0", 3.0)) == []
    judged.logs.logs["n1"][1:] = [entry(1, 2), entry(2, 2)]
    assert judged.see(looked("n1", 4.0)) == ["LogMatching"]


def test_an_answer_that_is_not_committed(judged: Judged) -> None:
    assert judged.see(asked(1, b"b"), answered(1, 2, 2)) == ["AcknowledgedIsCommitted"]


def test_an_answer_that_names_another_entry(judged: Judged) -> None:
    assert judged.see(asked(1, b"other"), answered(1, 1, 1)) == ["AcknowledgedIsCommitted"]


@pytest.mark.parametrize(
    "seen",
    [shows(3), read(3), read(2, (1, b"other"), start=1), read(2, (2, b"b"), start=2)],
    ids=["offsets", "end", "entry", "beyond"],
)
def test_a_read_of_what_is_not_committed(judged: Judged, seen: Observation) -> None:
    assert judged.see(seen) == ["ReadsOnlyCommitted"]


async def test_where_the_files_of_a_log_begin(autojump_clock: object) -> None:
    async with open_world("files") as world:
        groups = SimGroups(world, ledger_config(1, {"g0": {}}))
        logs = SimLedgers(groups, groups.config.ledger_groups_of("n0")[0])
        disk, folder = logs.disk("n0"), logs.layout("n0").commit_log
        assert logs.first("n0") == -1
        disk.mkdir(folder)
        assert logs.first("n0") == -1
        file = disk.open(segment_path(folder, DATA_FILE_BYTES), "x")
        file.resize(DATA_FILE_BYTES)
        assert logs.first("n0") == -1
        behind = encode_entry(new_entry(index=6, term=2, pos=DATA_FILE_BYTES + 100, body=b"b"))
        file.pwrite(encode_blank(100), 0)
        file.pwrite(behind, 100)
        assert logs.first("n0") == 6
        assert logs.has_let_go("n0", DATA_FILE_BYTES + 99)
        assert not logs.has_let_go("n0", DATA_FILE_BYTES + 100)
        file.pwrite(encode_entry(new_entry(index=5, term=2, pos=DATA_FILE_BYTES, body=b"b")), 0)
        assert logs.first("n0") == 5
        file.close()
