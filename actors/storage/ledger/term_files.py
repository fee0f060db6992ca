"""Term and vote (`currterm`), and the committed index (`checkpoint`), as Java's nodes keep them.

Upstream: openmessaging/dledger, MemberState.java (persistTerm, loadTerm), DLedgerMmapFileStore.java
(persistCheckPoint), IOUtils.java (0.3.1.2); dledger.md 3.4.

The texts themselves: `wire.dledger.files`.

Differs:
- A vote is on the disk before the call returns, and so is a checkpoint; see `replacing`. Upstream
  syncs nothing and deletes before it renames, so after a crash there may be no file, and the node
  may vote twice in a term (B8).
- A start is refused if `currterm` exists and cannot be read. Upstream begins in term 0 then.
- If there is no `currterm`, one that an interrupted write of upstream's left (`.tmp`, `.bak`) is
  used.
- No `.bak` is written.

`write_term(unsynced=True)` and `read_term(unsynced=True)` do as upstream does, for `compat`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

import attrs

from actors.env.protocols import Disk
from actors.errors import CorruptLog, LogFull
from actors.storage.files.replacing import Replaced, keep_spare, replace_file, settle_spares
from actors.storage.files.room import NoRoom, why_no_room
from actors.storage.files.whole_files import read_bytes, sync_file
from wire.dledger.files import (
    LedgerCheckpoint,
    TermAndVote,
    decode_currterm,
    decode_ledger_checkpoint,
    encode_currterm,
    encode_ledger_checkpoint,
)
from wire.errors import RemoteProtocolError

FILE_BYTES_MAX = 4096
"""No valid file is longer."""
TERM_MAX = 3 << 61
"""The highest term, as in the election's core: the next one still has to fit Java's long, and no
member accepts a higher one."""
UNTIL_THEN = "until it holds its leader's log its vote counts only with all others'"
"""By then the member holds whatever it may have acknowledged; until then it cannot help to elect a
leader that lacks an acknowledged entry."""
REMOVE_THEN = f"remove all but currterm, its vote, from this folder and start: {UNTIL_THEN}"
"""What to do about a log that a start refuses, or that cannot be read."""
NEW_VOTE = (
    "never guess a vote: write `voteLeader=` and `currTerm=N`, a line each, N above the term of"
    " every other member (status), all of which have to run, and start"
)
"""Why that is safe: a vote that only this member knows of was for itself, and ended with its
process; a vote for another member is in no later term than that member's own."""
GUIDE = "(OPERATING.md, A lost disk)"
NO_VOTE = "there is none, but the log holds entries"
NO_VOTE_DO = (
    f"if this file alone was lost, {NEW_VOTE}; if the folder is a backup's, or has lost more, do"
    f" so with all else removed from it, for with its entries that may lose some: {UNTIL_THEN}; a"
    f" whole group begins anew on backups without their `synced`, on every member {GUIDE}"
)
"""Nothing on the disk distinguishes these cases."""
NOTHING_LEFT = "there is none, but identity.json says that this member has had one"
NOTHING_LEFT_DO = (
    "write `voteLeader=` and `currTerm=N`, a line each, N above the term of every other member"
    f" (status), all of which have to run, and start: {UNTIL_THEN}. For a whole group that begins"
    f" anew, N is 0 on every member {GUIDE}"
)
STRANGER = (
    "the cluster file names no such member, now or before a change: the file is another group's, or"
    " was written by hand. It is kept, for this member has no other vote in that term"
)


def older_text(term: int, last_term: int) -> str:
    """Describe, for people, a vote from before the last entry's term."""
    return f"term {term}, but the last entry is of term {last_term}"


class LostVote(CorruptLog):
    """It is unknown in which terms this member has voted, and for which members.

    Args:
        why: what was found in the file, or instead of it.
        do: what to do about it, for people.
    """

    def __init__(self, path: str, why: str, do: str = NEW_VOTE) -> None:
        super().__init__(
            f"{path}: {why}. A node that forgets its vote may vote twice in one term, so it does"
            f" not start; {do}"
        )


@attrs.frozen
class TermVote:
    """The term and the vote, which a member may never forget.

    Attributes:
        term: at least 0.
        voted_for: the member to which this one gave its vote in the term; "" if it has not voted.
    """

    term: int = 0
    voted_for: str = ""


def _decode(data: bytes) -> TermVote:
    """Decode a `currterm` file.

    Raises: RemoteProtocolError: term or vote is missing or out of range, or the text is cut off.
    """
    if not data.endswith(b"\n"):
        raise RemoteProtocolError("its last line is not complete")
    value = decode_currterm(data)
    if not -1 <= value.term <= TERM_MAX:
        raise RemoteProtocolError(f"currTerm: expected -1 to {TERM_MAX}, found {value.term}")
    # Java's members up to version 0.1 count from -1, in which nobody has voted yet.
    return TermVote(max(value.term, 0), (value.vote_leader or "") if value.term >= 0 else "")


def _left_in(disk: Disk, path: str) -> TermVote | None:
    """Read the file of an interrupted replacement; None if it is incomplete."""
    try:
        return _decode(read_bytes(disk, path, FILE_BYTES_MAX))
    except RemoteProtocolError:
        return None


def read_term(disk: Disk, path: str, *, unsynced: bool = False) -> TermVote | None:
    """Read term and vote; None if none were ever written.

    Args:
        unsynced: whether to read in upstream's way: None also if the file cannot be read, or only
            its replacement exists.

    Raises: LostVote: the file exists and cannot be read.
    """
    if disk.exists(path):
        try:
            return _decode(read_bytes(disk, path, FILE_BYTES_MAX))
        except RemoteProtocolError as error:
            if unsynced:
                return None
            raise LostVote(path, f"the term and the vote cannot be read: {error}") from None
    if unsynced:
        return None
    others = [other for other in (f"{path}.bak", f"{path}.tmp") if disk.exists(other)]
    left = [vote for vote in (_left_in(disk, other) for other in others) if vote is not None]
    return max(left, key=lambda vote: (vote.term, vote.voted_for != ""), default=None)


def write_term(disk: Disk, path: str, vote: TermVote, *, unsynced: bool = False) -> None:
    """Save term and vote; they are on the disk when this returns.

    Args:
        unsynced: whether to write in upstream's way: to the page cache only, and for a moment there
            is no such file (B8).

    Raises: LogFull: there is no room; the old file stays. OSError: either the old file or the new
        one is there, complete.
    """
    assert 0 <= vote.term <= TERM_MAX
    value = TermAndVote(term=vote.term, vote_leader=vote.voted_for or None)
    if unsynced:
        _replace_unsynced(disk, path, encode_currterm(value))
    else:
        _replace(disk, path, encode_currterm(value))


def settle_term(disk: Disk, path: str, vote: TermVote) -> None:
    """Sync the vote that was just read, and move it to its place if it was in a replacement.

    Raises: as `write_term`.
    """
    temporary = f"{path}.tmp"
    if disk.exists(path):
        sync_file(disk, path)
    elif disk.exists(temporary) and _left_in(disk, temporary) == vote:
        # This is often the only copy, and writing it anew would begin with an empty file.
        sync_file(disk, temporary)
        disk.rename(temporary, path)
    else:
        write_term(disk, path, vote)
        return
    settle_spares(disk, path.rpartition("/")[0])
    keep_spare(disk, path, FILE_BYTES_MAX)


def read_checkpoint(disk: Disk, path: str) -> LedgerCheckpoint:
    """Read the checkpoint; (-1, -1) if there is no file or it cannot be read."""
    if disk.exists(path):
        try:
            return decode_ledger_checkpoint(read_bytes(disk, path, FILE_BYTES_MAX))
        except RemoteProtocolError:
            pass
    return LedgerCheckpoint(committed_index=-1, end_index=-1)


def write_checkpoint(disk: Disk, path: str, checkpoint: LedgerCheckpoint) -> None:
    """Save the checkpoint; it is on the disk when this returns.

    Raises: LogFull: there is no room; the old file stays. OSError: either the old file or the new
        one is there, complete.
    """
    _replace(disk, path, encode_ledger_checkpoint(checkpoint))


@attrs.define
class CheckpointFile:
    """The file `checkpoint` of an open store, which is replaced again and again.

    Attributes:
        now: returns the checkpoint to be written.
        changing: see `DiskGuard.changing`.
    """

    _disk: Disk
    _file: Replaced  # it need not exist yet
    now: Callable[[], LedgerCheckpoint]
    changing: Callable[[str], AbstractContextManager[None]]

    def write(self) -> None:
        """Save the checkpoint; it is on the disk when this returns.

        Raises: LogFull: there is no room; the old file stays. StorageError: either the old file or
            the new one is there, complete.
        """
        with self.changing("saving the checkpoint"), self._needing_room():
            self._file.replace(encode_ledger_checkpoint(self.now()))

    async def write_beside(self) -> None:
        """Save the checkpoint as `write` does, in a thread; see `Replaced.replace_beside`."""
        with self.changing("saving the checkpoint"), self._needing_room():
            await self._file.replace_beside(lambda: encode_ledger_checkpoint(self.now()))

    def close(self) -> None:
        """Close the file. No write may be under way."""
        self._file.close()

    @contextmanager
    def _needing_room(self) -> Iterator[None]:
        try:
            yield
        except NoRoom as error:
            raise LogFull(why_no_room(self._disk, self._file.path, error)) from error


def _replace(disk: Disk, path: str, data: bytes) -> None:
    try:
        replace_file(disk, path, data)
    except NoRoom as error:
        raise LogFull(why_no_room(disk, path, error)) from error


def _replace_unsynced(disk: Disk, path: str, data: bytes) -> None:
    """Replace a file in upstream's order: temporary file, copy of the old one, deletion, rename."""
    _write(disk, f"{path}.tmp", data)
    if disk.exists(path):
        _write(disk, f"{path}.bak", read_bytes(disk, path, FILE_BYTES_MAX))
        disk.unlink(path)
    disk.rename(f"{path}.tmp", path)


def _write(disk: Disk, path: str, data: bytes) -> None:
    with closing(disk.open(path, "w" if disk.exists(path) else "x")) as file:
        file.resize(0)
        file.pwrite(data, 0)
