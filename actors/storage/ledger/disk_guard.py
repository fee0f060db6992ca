"""What a disk's error means to a store: a failed read is one answer, a failed change is the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol, TypeVar

import attrs

from actors.env.protocols import Disk
from actors.errors import CorruptLog, StorageError
from actors.storage.ledger.ledger import FileGone
from actors.storage.log.syncer import lost_text

T = TypeVar("T")


class Closable(Protocol):
    """Files of a store, some of which may hold nothing yet."""

    def close(self, *, remove_spare: bool) -> None: ...


@attrs.define
class DiskGuard:
    """Watches the disk of one store.

    Attributes:
        root: its folder, for people.
        disk: where it is.
        failed: the change that failed; "" if none has.
    """

    root: str
    disk: Disk
    failed: str = ""

    def reading(self, read: Callable[[], T]) -> T:
        """What `read` gives of what the store holds.

        Raises: StorageError; CorruptLog: a file of it is missing.
        """
        try:
            return read()
        except FileGone as gone:
            raise CorruptLog(str(gone)) from None
        except OSError as error:
            raise StorageError(f"{self.root}: a read failed: {error}") from error

    @contextmanager
    def changing(self, what: str) -> Iterator[None]:
        """A disk's error in here is final: what the disk holds is unknown afterwards.

        Raises: StorageError: this change failed, or one did before.
        """
        if self.failed:
            raise StorageError(f"{self.root}: not used after a failure: {self.failed}")
        try:
            yield
        except FileNotFoundError as error:
            self.failed = lost_text(self.disk, str(error.filename))
            raise StorageError(self.failed) from None
        except StorageError as error:
            self.failed = str(error)
            raise
        except OSError as error:
            self.failed = f"{what} failed: {error}"
            raise StorageError(f"{self.root}: {self.failed}") from error

    def close(self, files: Iterable[Closable], *, remove_spare: bool) -> None:
        """Release all of them, in this order. What is spare stays after a failure.

        Raises: StorageError: what was spare could not be removed.
        """
        removes = remove_spare and not self.failed
        with ExitStack() as stack:
            if removes:
                stack.enter_context(self.changing("the stop"))
            for each in reversed(tuple(files)):
                stack.callback(each.close, remove_spare=removes)
