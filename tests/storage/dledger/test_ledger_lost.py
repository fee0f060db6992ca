"""A member that has lost all, its vote too, is distinguished from a new one by its node's identity.

Such a member would elect, with others like it, one that lacks an answered entry.
"""

from __future__ import annotations

import errno
import random
from typing import Literal

import attrs
import pytest
from ledger_kit import FILE, INDEX_FILE, LAYOUT, chain, dying_after, env_of, finish, sim_disk

from actors.config import ClusterConfig, DLedgerGroup
from actors.errors import ConfigError
from actors.log_types import GroupRecord, Membership
from actors.sim.disk import SimDisk
from actors.storage.ledger.ledger import LedgerStore, TermVote
from actors.storage.ledger.term_files import LostVote
from actors.storage.node.identity import NodeDirectory, open_directory
from actors.trees.dledger import _ledger
from actors.trees.ledger_setup import LedgerSetup, member_notes

BOTH = pytest.mark.parametrize("store", ["file", "memory"])
GROUP = DLedgerGroup(
    name="ledger", members=("n0", "n1", "n2"), data_file_bytes=FILE, index_file_bytes=INDEX_FILE
)
CONFIG = ClusterConfig(
    name="demo",
    data_dir="/data",
    nodes={"n0": "10.0.0.1", "n1": "10.0.0.2", "n2": "10.0.0.3"},
    groups={"ledger": GROUP},
)
STEPS_MAX = 400


def start(disk: SimDisk, store: str, compat: Literal["upstream"] | None = None) -> LedgerStore:
    """What a node does with its directory and the group's store."""
    directory = open_directory(
        disk, "/data/n0", cluster="demo", node="n0", groups=("ledger",), settings={}
    )
    setup = LedgerSetup(
        config=CONFIG,
        node="n0",
        group=attrs.evolve(GROUP, store=store, compat=compat),
        env=env_of(disk),
        registry=None,  # type: ignore[arg-type]
        member_note=member_notes(CONFIG, "n0", directory)["ledger"],
    )
    try:
        return finish(_ledger(setup, lambda event: None))
    finally:
        directory.close()


def stopped(store: str, compat: Literal["upstream"] | None = None) -> SimDisk:
    """A member that has voted, and holds what it has acknowledged."""
    disk = sim_disk()
    ledger = start(disk, store, compat)
    ledger.save_vote(TermVote(3, "n2"))
    ledger.append_as_follower(chain([b"a"], term=3))
    ledger.close(ordered=True)
    return disk


def write_vote(disk: SimDisk, text: bytes) -> None:
    file = disk.open(LAYOUT.term, "x")
    file.pwrite(text, 0)
    file.close()


@BOTH
def test_a_member_whose_folder_is_gone_does_not_start(store: str) -> None:
    disk = stopped(store)
    disk.rmtree(LAYOUT.root)
    for _ in range(2):
        with pytest.raises(LostVote, match=r"identity.json says .* had one\. A node") as refused:
            start(disk, store)
        assert not disk.exists(LAYOUT.term)
    line = str(refused.value)
    assert "\n" not in line
    assert line.startswith(f"{LAYOUT.term}: there is none, but ")
    for words in (
        "its vote counts only with all others'",
        "N above the term",
        "all of which have to run",
    ):
        assert words in line
    write_vote(disk, b"voteLeader=\ncurrTerm=4\n")
    ledger = start(disk, store)
    assert (ledger.vote, ledger.end_index) == (TermVote(4), -1)


@BOTH
def test_nor_one_whose_log_alone_is_left_empty(store: str) -> None:
    """Its files are there, and hold no entry."""
    disk = sim_disk()
    start(disk, store).close(ordered=True)
    disk.unlink(LAYOUT.term)
    with pytest.raises(LostVote, match="had one"):
        start(disk, store)


@BOTH
def test_a_member_starts_anew_without_its_identity(store: str) -> None:
    """Then it is another node's folder that is empty; nobody can tell."""
    disk = stopped(store)
    disk.rmtree("/data/n0")
    assert start(disk, store).vote == TermVote()


@BOTH
def test_an_identity_of_before_takes_the_note_at_the_next_start(store: str) -> None:
    disk = stopped(store)
    unnoted(disk)
    disk.rmtree(LAYOUT.root)
    assert start(disk, store).vote == TermVote(), "as it was: nobody knows"
    disk.kill()
    disk.rmtree(LAYOUT.root)
    with pytest.raises(LostVote, match="had one"):
        start(disk, store)


def unnoted(disk: SimDisk) -> None:
    """What an older version has written."""
    path = "/data/n0/identity.json"
    file = disk.open(path, "w")
    data = file.pread(0, 1 << 16)
    old = data.replace(b'"votes": [\n    "ledger"\n  ]', b'"notes": []')
    assert old != data
    file.resize(0)
    file.pwrite(old, 0)
    file.close()


@BOTH
@pytest.mark.parametrize("ends", ["kill", "power"])
def test_a_first_start_that_breaks_off_anywhere_is_begun_again(
    monkeypatch: pytest.MonkeyPatch, store: str, ends: str
) -> None:
    for steps in range(STEPS_MAX):
        disk = sim_disk(steps)
        with dying_after(monkeypatch, steps) as died:
            start(disk, store)
        if ends == "kill":
            disk.kill()
        else:
            disk.power_loss(random.Random(steps))
        assert start(disk, store).vote == TermVote()
        if not died[0]:
            assert steps > 10
            return
    raise AssertionError("it never came to its end")


@BOTH
def test_what_was_noted_is_true_after_any_power_loss(
    store: str,
) -> None:
    """The note is taken when the vote is on the disk: no power loss leaves the note alone."""
    for seed in range(30):
        disk = sim_disk(seed)
        start(disk, store).save_vote(TermVote(2, "n1"))
        disk.power_loss(random.Random(seed))
        assert start(disk, store).vote == TermVote(2, "n1")


@BOTH
def test_upstreams_way_may_lose_its_vote_by_itself(store: str) -> None:
    disk = stopped(store, "upstream")
    disk.rmtree(LAYOUT.root)
    assert start(disk, store, "upstream").vote == TermVote()


def test_a_whole_group_begins_anew_on_entries_without_a_mark() -> None:
    """README, By hand: a backup on every member, without its mark; the note stands in no way."""
    disk = stopped("file")
    for path in (LAYOUT.term, LAYOUT.synced):
        disk.unlink(path)
    ledger = start(disk, "file")
    assert (ledger.vote, ledger.end_index) == (TermVote(3), 0)


def test_what_was_noted_stays_also_of_a_group_that_is_away_for_a_while() -> None:
    disk = sim_disk()

    def taken(*groups: str) -> NodeDirectory:
        return open_directory(
            disk, "/data/n0", cluster="demo", node="n0", groups=groups, settings={}
        )

    directory = taken("orders", "ledger")
    assert not directory.has_voted("ledger")
    for _ in range(2):
        directory.note_member("ledger", Membership.FULL)
    record = GroupRecord(promotion_number=3, promotion_master="n2")
    directory.update("orders", record)
    disk.power_loss(random.Random(4))
    taken("other").close()
    later = taken("orders", "ledger")
    assert [later.has_voted(name) for name in ("ledger", "orders", "other")] == [True, False, False]
    assert later.record("orders") == record


# ---- what a vote is worth ----


def worth(disk: SimDisk, store: str = "file") -> Membership:
    """Of the member as it starts; it is killed then."""
    found = start(disk, store).membership
    disk.kill()
    return found


def joined(disk: SimDisk) -> None:
    """It holds its leader's log, as the member notes it."""
    directory = open_directory(
        disk, "/data/n0", cluster="demo", node="n0", groups=("ledger",), settings={}
    )
    member_notes(CONFIG, "n0", directory)["ledger"].take(Membership.FULL)
    directory.close()


@BOTH
def test_a_member_is_new_until_it_has_joined_whatever_its_log_holds(store: str) -> None:
    disk = sim_disk()
    for _ in range(2):
        assert worth(disk, store) is Membership.NEW
    ledger = start(disk, store)
    ledger.save_vote(TermVote(3, "n2"))
    ledger.append_as_follower(chain([b"a"], term=3))
    ledger.close(ordered=True)
    assert worth(disk, store) is Membership.NEW
    joined(disk)
    assert worth(disk, store) is (Membership.FULL if store == "file" else Membership.FORGOT)


def test_one_whose_log_is_gone_has_forgotten_it_until_it_has_joined() -> None:
    disk = stopped("file")
    joined(disk)
    disk.rmtree(LAYOUT.root)
    disk.mkdir(LAYOUT.root)
    write_vote(disk, b"voteLeader=\ncurrTerm=4\n")
    for _ in range(2):
        assert worth(disk) is Membership.FORGOT
    ledger = start(disk, "file")
    ledger.append_as_follower(chain([b"a"], term=3))
    ledger.close(ordered=True)
    assert worth(disk) is Membership.FORGOT, "part of what it held is not all"
    joined(disk)
    assert worth(disk) is Membership.FULL


def without_its_last_files() -> SimDisk:
    """A member that holds its leader's log, of which an end that was committed is gone."""
    disk = sim_disk()
    ledger = start(disk, "file")
    ledger.save_vote(TermVote(1, "n2"))
    ledger.append_as_follower(chain([b"a" * 1000] * 12))
    ledger.commit(11)
    ledger.save_checkpoint()
    ledger.close(ordered=True)
    joined(disk)
    for name in sorted(disk.listdir(LAYOUT.commit_log))[-2:]:
        disk.unlink(f"{LAYOUT.commit_log}/{name}")
    disk.unlink(LAYOUT.synced)
    return disk


def test_one_that_lacks_the_end_of_what_was_committed_has_forgotten_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = without_its_last_files()
    ledger = start(disk, "file")
    assert (ledger.membership, ledger.committed_index) == (Membership.FORGOT, ledger.end_index)
    assert 0 <= ledger.end_index < 11
    assert any("goes on without" in each for each in caplog.messages)
    ledger.close(ordered=True)
    assert worth(disk) is Membership.FORGOT, "though its log looks whole now"
    joined(disk)
    assert worth(disk) is Membership.FULL


def test_one_that_may_lack_the_end_of_it_has_forgotten_it() -> None:
    """Its checkpoint is older than what was committed last, and its mark went with the files."""
    disk = sim_disk()
    ledger = start(disk, "file")
    ledger.save_vote(TermVote(1, "n2"))
    ledger.append_as_follower(chain([b"a" * 1000] * 12))
    ledger.commit(3)
    ledger.save_checkpoint()
    ledger.commit(11)
    disk.kill()
    joined(disk)
    assert worth(disk) is Membership.FULL
    for name in sorted(disk.listdir(LAYOUT.commit_log))[-2:]:
        disk.unlink(f"{LAYOUT.commit_log}/{name}")
    disk.unlink(LAYOUT.synced)
    ledger = start(disk, "file")
    assert 3 < ledger.end_index < 11
    assert ledger.membership is Membership.FORGOT
    ledger.close(ordered=True)
    assert worth(disk) is Membership.FORGOT


def test_that_is_noted_before_the_log_looks_whole() -> None:
    """The node may end in between."""
    for skip in range(12):
        disk = without_its_last_files()
        disk.faults.fail("write", errno.EIO, path_part="identity.json", skip=skip)
        failed = False
        try:
            start(disk, "file")
        except OSError:
            failed = True
        disk.kill()
        disk.faults.clear()
        assert worth(disk) is Membership.FORGOT
        if not failed:
            break
    assert skip > 0
    assert not failed


def test_one_whose_disk_is_gone_is_new() -> None:
    disk = stopped("file")
    joined(disk)
    disk.rmtree("/data/n0")
    assert worth(disk) is Membership.NEW


def test_a_log_that_came_without_a_note_is_believed() -> None:
    """Of an older version, of Java's, or put back whole."""
    disk = stopped("file")
    disk.unlink("/data/n0/identity.json")
    disk.unlink("/data/n0/lock")
    root = LAYOUT.root
    assert worth_without_identity(disk, root) is Membership.FULL


def worth_without_identity(disk: SimDisk, root: str) -> Membership:
    """A folder that is put into the place of a new node's."""
    path = "/data/n0/identity.json"
    file = disk.open(path, "x")
    file.pwrite(
        b'{"format_version": 1, "cluster": "demo", "node": "n0", "groups": [], "boot": 0,'
        b' "settings": {}, "records": {}}',
        0,
    )
    file.close()
    assert disk.exists(root)
    return worth(disk)


def test_upstreams_way_knows_nothing_of_it() -> None:
    disk = sim_disk()
    assert start(disk, "file", "upstream").membership is Membership.FULL


@pytest.mark.parametrize("found", ['"newer"', "1", "[]"])
def test_a_worth_that_is_none_is_refused(found: str) -> None:
    disk = stopped("file")
    path = "/data/n0/identity.json"
    file = disk.open(path, "w")
    data = file.pread(0, 1 << 16)
    broken = data.replace(b'"ledger": "new"', b'"ledger": ' + found.encode())
    assert broken != data
    file.resize(0)
    file.pwrite(broken, 0)
    file.close()
    with pytest.raises(ConfigError, match="expected a node's identity"):
        start(disk, "file")
