"""Term and vote (`currterm`), and the committed index (`checkpoint`), as Java's nodes keep them.

Upstream: openmessaging/dledger, MemberState.java (persistTerm, loadTerm), DLedgerMmapFileStore.java
(persistCheckPoint), IOUtils.java (0.3.1.2); dledger.md 3.4.

The texts themselves: `wire.dledger.files`.

Differs:
- A vote is on the disk before the call returns, and so is a checkpoint; see `replacing`. Upstream
  syncs nothing and deletes before it renames, so a crash can leave no file, and the node votes
  twice in a term (B8).
- A `currterm` that is there and cannot be read refuses the start. Upstream begins in term 0.
- If there is none, what an interrupted write of upstream's left (`.tmp`, `.bak`) is taken.
- No `.bak` is written.

`write_term(unsynced=True)` and `read_term(unsynced=True)` are upstream's way, for `compat`.
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
"""A longer one is none of these."""
TERM_MAX = 3 << 61
"""As the core's: no member hears another in a later one, and the next must be a long of Java's."""
UNTIL_THEN = "until it holds its leader's log its vote counts only with all others'"
"""By then it holds whatever it may have acknowledged; sooner it elects nobody who lacks that."""
REMOVE_THEN = f"remove all but currterm, its vote, from this folder and start: {UNTIL_THEN}"
"""What is to be done about a log that a start refuses, or that cannot be read."""
NEW_VOTE = (
    "never guess a vote: write `voteLeader=` and `currTerm=N`, a line each, N above the term of"
    " every other member (status), all of which have to run, and start"
)
"""A vote that only this member knows of was for itself, and ended with its process; one for
another is in no later term than that one's own."""
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
    """What is wrong with a vote from before the last entry's term."""
    return f"term {term}, but the last entry is of term {last_term}"


class LostVote(CorruptLog):
    """It is unknown in which terms this member has voted, and for which members.

    Args:
        why: what was found.
        do: for people: what to do about it.
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
        voted_for: the member that has this node's vote in the term; "" if none has.
    """

    term: int = 0
    voted_for: str = ""


def _decode(data: bytes) -> TermVote:
    """Raises: RemoteProtocolError: it does not say both, is not the whole text, or out of range."""
    if not data.endswith(b"\n"):
        raise RemoteProtocolError("it does not end with a line end")
    value = decode_currterm(data)
    if not -1 <= value.term <= TERM_MAX:
        raise RemoteProtocolError(f"currTerm: expected -1 to {TERM_MAX}, found {value.term}")
    # Versions up to 0.1 count from -1; there nobody has voted yet.
    return TermVote(max(value.term, 0), (value.vote_leader or "") if value.term >= 0 else "")


def _left_in(disk: Disk, path: str) -> TermVote | None:
    """The file of a replacement that was interrupted; None if it is not whole."""
    try:
        return _decode(read_bytes(disk, path, FILE_BYTES_MAX))
    except RemoteProtocolError:
        return None


def read_term(disk: Disk, path: str, *, unsynced: bool = False) -> TermVote | None:
    """What the file says; None if nothing was ever written.

    Args:
        unsynced: None, too, if it cannot be read or only its replacement is there.

    Raises: LostVote: it is there and cannot be read.
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
    """Have it on the disk when this returns.

    Args:
        unsynced: have it in the page cache only, and for a moment no file of that name (B8).

    Raises: LogFull: no room, the old one stays. OSError: then it or the old one is there, whole.
    """
    assert 0 <= vote.term <= TERM_MAX
    value = TermAndVote(term=vote.term, vote_leader=vote.voted_for or None)
    if unsynced:
        _replace_unsynced(disk, path, encode_currterm(value))
    else:
        _replace(disk, path, encode_currterm(value))


def settle_term(disk: Disk, path: str, vote: TermVote) -> None:
    """Have on the disk what was just read, wherever it stood. Raises: as `write_term`."""
    temporary = f"{path}.tmp"
    if disk.exists(path):
        sync_file(disk, path)
    elif disk.exists(temporary) and _left_in(disk, temporary) == vote:
        # Often the only copy: to write it anew would begin with a file that says nothing.
        sync_file(disk, temporary)
        disk.rename(temporary, path)
    else:
        write_term(disk, path, vote)
        return
    settle_spares(disk, path.rpartition("/")[0])
    keep_spare(disk, path, FILE_BYTES_MAX)


def read_checkpoint(disk: Disk, path: str) -> LedgerCheckpoint:
    """What the file says; (-1, -1) if there is none or it cannot be read."""
    if disk.exists(path):
        try:
            return decode_ledger_checkpoint(read_bytes(disk, path, FILE_BYTES_MAX))
        except RemoteProtocolError:
            pass
    return LedgerCheckpoint(committed_index=-1, end_index=-1)


def write_checkpoint(disk: Disk, path: str, checkpoint: LedgerCheckpoint) -> None:
    """Have it on the disk when this returns.

    Raises: LogFull: no room, the old one stays. OSError: then it or the old one is there, whole.
    """
    _replace(disk, path, encode_ledger_checkpoint(checkpoint))


@attrs.define
class CheckpointFile:
    """The `checkpoint` of a store that runs, replaced again and again.

    Attributes:
        now: what it is to say.
        changing: see `DiskGuard`.
    """

    _disk: Disk
    _file: Replaced  # there may be none yet
    now: Callable[[], LedgerCheckpoint]
    changing: Callable[[str], AbstractContextManager[None]]

    def write(self) -> None:
        """Have it on the disk when this returns. Raises: LogFull: no room, the old one stays.
        StorageError: then it or the old one is there, whole.
        """
        with self.changing("saving the checkpoint"), self._needing_room():
            self._file.replace(encode_ledger_checkpoint(self.now()))

    async def write_beside(self) -> None:
        """As `write`, beside the loop, see `Replaced.replace_beside`."""
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
    """Upstream's order: temporary file, copy of the old one, deletion, rename."""
    _write(disk, f"{path}.tmp", data)
    if disk.exists(path):
        _write(disk, f"{path}.bak", read_bytes(disk, path, FILE_BYTES_MAX))
        disk.unlink(path)
    disk.rename(f"{path}.tmp", path)


def _write(disk: Disk, path: str, data: bytes) -> None:
    with closing(disk.open(path, "w" if disk.exists(path) else "x")) as file:
        file.resize(0)
        file.pwrite(data, 0)
