"""A start that is refused changes nothing, whatever else it would have changed; `check` agrees.

Each way to spoil a store is tried on stores that a start mends, cuts or fills up: what refuses is
to be found before the first of that is done.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from entry_kit import encode_entry, new_entry
from ledger_kit import FILE, LAYOUT, env_of, finish, opened, small
from ledger_tools_kit import COUNT, checked, filled, flip, ledger_at, write_file

from actors.env.path_kinds import kind_of
from actors.errors import ConfigError, CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.files.side_file import SideFile
from actors.storage.ledger.ledger import TermVote
from actors.storage.ledger.member_opening import open_member
from actors.storage.ledger.term_files import TERM_MAX
from actors.storage.tools.commitlog.check import CheckOptions
from actors.storage.tools.ledger.check import check_ledger
from wire.dledger.files import LedgerCheckpoint, encode_ledger_checkpoint

DATA, INDEX, SUMS = LAYOUT.commit_log, LAYOUT.index, LAYOUT.sums
MARKED_FILE = 5 * FILE
Change = Callable[[SimDisk], None]


def picture(disk: SimDisk, folder: str = LAYOUT.root) -> dict[str, bytes | None]:
    """Every file below a folder with its bytes, and every folder."""
    found: dict[str, bytes | None] = {}
    for name in disk.listdir(folder):
        path = f"{folder}/{name}"
        if kind_of(disk, path) == "folder":
            found |= {path: None} | picture(disk, path)
            continue
        file = disk.open(path, "r")
        found[path] = bytes(file.pread(0, file.size_bytes))
        file.close()
    return found


def files_in(disk: SimDisk, folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in disk.listdir(folder)]


def resize(disk: SimDisk, path: str, size: int) -> None:
    file = disk.open(path, "w")
    file.resize(size)
    file.sync()
    file.close()


# ---- stores that a start changes ----


def torn() -> SimDisk:
    """Killed while it wrote: there is a tail to cut, and no spare file goes."""
    disk = filled(ordered=False)
    ledger = opened(disk)
    ledger.save_vote(TermVote(2, "n1"))
    ledger.append_as_leader([b"torn" * 20, b"more" * 20], 2)
    end = ledger.end_bytes
    disk.kill()
    flip(disk, f"{DATA}/{(end - 60) // FILE * FILE:020d}", (end - 60) % FILE)
    return disk


def unmarked() -> SimDisk:
    disk = torn()
    disk.unlink(LAYOUT.synced)
    write_file(disk, f"{LAYOUT.synced}.tmp", b"left over")
    return disk


def without_index_and_sums() -> SimDisk:
    """Holes: all that is left of either is deleted."""
    disk = filled()
    for folder in (INDEX, SUMS):
        disk.unlink(files_in(disk, folder)[1])
    return disk


def short_index() -> SimDisk:
    """A crash in the middle of a cut: the last files are filled up."""
    disk = filled()
    for folder, size in ((INDEX, 64), (SUMS, 17)):
        resize(disk, files_in(disk, folder)[-1], size)
    return disk


def empty_file() -> SimDisk:
    disk = filled()
    for folder, size in ((DATA, FILE), (INDEX, 1024), (SUMS, 256)):
        name = int(disk.listdir(folder)[-1]) + size
        write_file(disk, f"{folder}/{name:020d}", b"")
    return disk


def being_cut() -> SimDisk:
    """A truncation was written down, and not done."""
    disk = torn()
    write_intent(disk, checked(disk).end_bytes)
    return disk


def half_cut() -> SimDisk:
    """The same, and a crash left the file short."""
    disk = being_cut()
    end = checked(disk).end_bytes
    for path in files_in(disk, DATA):
        if int(path[-20:]) >= end:
            disk.unlink(path)
    resize(disk, files_in(disk, DATA)[-1], end % FILE)
    return disk


def write_intent(disk: SimDisk, end: int) -> None:
    intent, _ = SideFile.open(disk, LAYOUT.truncating, 2)
    intent.write((end, FILE))
    intent.sync()
    intent.close()


STORES: dict[str, SimDisk] = {
    make.__name__: make()
    for make in (
        filled,
        torn,
        unmarked,
        without_index_and_sums,
        short_index,
        empty_file,
        being_cut,
        half_cut,
    )
}


# ---- what refuses a start ----


def term(text: bytes) -> Change:
    return lambda disk: write_file(disk, LAYOUT.term, text)


def no_vote(disk: SimDisk) -> None:
    disk.unlink(LAYOUT.term)


def side(path: str, data: bytes) -> Change:
    return lambda disk: write_file(disk, path, data)


def damaged(at: int) -> Change:
    """A byte of an entry, in the file that holds the mark."""
    return lambda disk: flip(disk, f"{DATA}/{MARKED_FILE:020d}", at)


def gone(file: int) -> Change:
    return lambda disk: disk.unlink(files_in(disk, DATA)[file])


def last_gone(disk: SimDisk) -> None:
    for path in files_in(disk, DATA)[-3:]:
        disk.unlink(path)


def all_gone(disk: SimDisk) -> None:
    disk.rmtree(DATA)


def sized(folder: str, file: int, size: int) -> Change:
    return lambda disk: resize(disk, files_in(disk, folder)[file], size)


def all_sized(folder: str, size: int) -> Change:
    def change(disk: SimDisk) -> None:
        for path in files_in(disk, folder):
            resize(disk, path, size)

    return change


def folder_instead(folder: str) -> Change:
    def change(disk: SimDisk) -> None:
        path = files_in(disk, folder)[0]
        disk.unlink(path)
        disk.mkdir(path)

    return change


def committed_beyond(disk: SimDisk) -> None:
    """More than there is, after a kill."""
    said = LedgerCheckpoint(committed_index=COUNT + 50, end_index=COUNT + 50)
    write_file(disk, LAYOUT.checkpoint, encode_ledger_checkpoint(said))


def index_and_old_entry(disk: SimDisk) -> None:
    """The index is to be made again from all entries, of which one far from the end is damaged."""
    for path in files_in(disk, INDEX):
        disk.unlink(path)
    flip(disk, files_in(disk, DATA)[1], 3)


def headless(disk: SimDisk) -> None:
    """The oldest file begins with no entry, and is not among those that are scanned."""
    flip(disk, files_in(disk, DATA)[0], 3)


OLD = b"voteLeader=n0\ncurrTerm=1\n"
SPOILT: dict[str, Change] = {
    "vote older than the log": term(OLD),
    "first vote": term(b"voteLeader=\ncurrTerm=0\n"),
    "unreadable vote": term(b"voteLeader=n0\n"),
    "empty vote": term(b""),
    "term beyond all": term(b"voteLeader=\ncurrTerm=9223372036854775807\n"),
    "term above the last": term(f"voteLeader=\ncurrTerm={TERM_MAX + 1}\n".encode()),
    "negative term": term(b"voteLeader=\ncurrTerm=-2\n"),
    "no vote": no_vote,
    "empty mark": side(LAYOUT.synced, b""),
    "spoilt mark": side(LAYOUT.synced, b"x" * 1024),
    "empty intent": side(LAYOUT.truncating, b""),
    "spoilt intent": side(LAYOUT.truncating, b"x" * 1024),
    "entry below the mark": damaged(30),
    "first entry of the last file": damaged(3),
    "no first file": gone(0),
    "no file in the middle": gone(2),
    "no last files": last_gone,
    "no files": all_gone,
    "a short file": sized(DATA, 1, 100),
    "a long file": sized(DATA, 1, 2 * FILE),
    "files of another size": all_sized(DATA, 2 * FILE),
    "index files of another size": all_sized(INDEX, 2048),
    "sums of another size": all_sized(SUMS, 512),
    "a folder among the data": folder_instead(DATA),
    "a folder in the index": folder_instead(INDEX),
    "a folder among the sums": folder_instead(SUMS),
    "committed beyond the end": committed_beyond,
    "index and an old entry": index_and_old_entry,
    "oldest file": headless,
}


WITHOUT_MARK = (
    "no vote",
    "entry below the mark",
    "first entry of the last file",
    "no first file",
    "no last files",
    "no files",
)
TAKEN = {key: {"unmarked"} for key in WITHOUT_MARK} | {
    # Behind an ordered stop the log is surely whole: what says more is corrected.
    "committed beyond the end": {*STORES} - {"torn", "being_cut", "half_cut"}
}
"""In which stores a start takes what refuses it in all others."""


@pytest.mark.parametrize("spoilt", SPOILT)
@pytest.mark.parametrize("store", STORES)
def test_a_refused_start_changes_nothing(store: str, spoilt: str) -> None:
    disk = copy.deepcopy(STORES[store])
    SPOILT[spoilt](disk)
    before = picture(disk)
    reported: Exception | None = None
    try:
        found = finish(check_ledger(disk, ledger_at(disk), CheckOptions()))
    except ConfigError as error:
        reported = error
    if reported is not None:  # what is no file is refused before it is looked into
        assert (str(why_refused(disk)), picture(disk)) == (str(reported), before)
        return
    assert picture(disk) == before
    refused = why_refused(disk)
    assert refused is None or picture(disk) == before, refused
    if isinstance(refused, CorruptLog):
        assert found.findings.damage, refused
    assert (refused is None) == (store in TAKEN.get(spoilt, ()))
    if refused is None:
        assert not found.findings.damage or store == "unmarked"


@pytest.mark.parametrize("has_vote", [True, False])
def test_an_entry_of_a_term_that_no_member_can_be_in_refuses_the_start(has_vote: bool) -> None:
    """No checksum of upstream's covers it, and without a mark nothing else does."""
    disk = copy.deepcopy(STORES["filled"])
    disk.unlink(LAYOUT.synced)
    end = checked(disk).end_bytes
    entry = new_entry(index=COUNT, term=TERM_MAX + 1, pos=end, body=b"x")
    file = disk.open(f"{DATA}/{end - end % FILE:020d}", "w")
    file.pwrite(encode_entry(entry), end % FILE)
    file.close()
    if not has_vote:
        no_vote(disk)
    before = picture(disk)
    damage = checked(disk).findings.damage[0]
    refused = str(why_refused(disk))
    for line in (damage, refused):
        assert f"is of term {TERM_MAX + 1}, above {TERM_MAX}, in which no member can be" in line
    assert picture(disk) == before


def why_refused(disk: SimDisk) -> Exception | None:
    """None: the start takes it."""
    try:
        ledger = finish(open_member(env_of(disk), LAYOUT, small()))
    except (CorruptLog, ConfigError) as error:
        return error
    ledger.close(ordered=False)
    return None
