"""A snapshot of the own machine while it is written, piece by piece.

Upstream: openmessaging/dledger, snapshot/SnapshotManager.java, saveSnapshot, tag 0.4.0, which
writes it in one call.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from actors.dledger.machine_errors import machine_failed
from actors.errors import MachineFailed
from actors.state_machine import StateMachine
from actors.storage.dledger.snapshots import CHUNK_BYTES, TAKEN, SnapshotFolder, Writer


@attrs.define
class SnapshotTaking:
    """One that is being written.

    Attributes:
        index, term: of the last entry that it stands for.
        holds: the machine's own state is read: it may not change meanwhile.
    """

    index: int
    term: int
    holds: bool
    writer: Writer
    _chunks: Iterator[bytes]
    _rest: memoryview = attrs.field(factory=lambda: memoryview(b""))

    @classmethod
    def begin(
        cls, machine: StateMachine, folder: SnapshotFolder, index: int, term: int
    ) -> SnapshotTaking:
        """Raises: MachineFailed; LogFull, OSError."""
        writer = folder.writer(TAKEN)
        try:
            state = machine.save()
            chunks = iter((state,) if isinstance(state, bytes) else state)
        except Exception as error:
            raise machine_failed("save()", error) from error
        return cls(index, term, not isinstance(state, bytes | list | tuple), writer, chunks)

    def step(self) -> bool:
        """Write one piece. False: there is none left.

        Raises: MachineFailed; LogFull, SnapshotTooLarge, OSError.
        """
        if not self._rest:
            try:
                self._rest = memoryview(next(self._chunks))
            except StopIteration:
                if not self.writer.size_bytes:
                    raise MachineFailed("the state machine's save() gave no byte") from None
                return False
            except Exception as error:
                raise machine_failed("save()", error) from error
        self.writer.write(self._rest[:CHUNK_BYTES])
        self._rest = self._rest[CHUNK_BYTES:]
        return True
