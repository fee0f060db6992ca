"""What a disk's error means to a store: a failed read is one answer, a failed change is the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import attrs

from actors.errors import CorruptLog, StorageError
from actors.storage.dledger.ledger import FileGone

T = TypeVar("T")


@attrs.define
class DiskGuard:
    """Of one store on disk.

    Attributes:
        root: its folder, for people.
        failed: the change that failed; "" if none has.
    """

    root: str
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
        except OSError as error:
            self.failed = f"{what} failed: {error}"
            raise StorageError(f"{self.root}: {self.failed}") from error
