"""The epochs of a slave's log, as its client has them: compared, followed, and readers' limit.

A client owns them while it runs, in dialects whose handshake is about epochs. What blocks for the
disk is plain code, which it runs beside the loop.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from actors.epochs import History
from actors.ha.core.epoch_trail import Agreement, OwnLog
from actors.storage.commitlog import store_messages
from actors.storage.commitlog.epoch_store import EpochStore, record_begins
from actors.storage.log.log_reader import LogReader
from wire.ha.autoswitch import HandshakeAnswer


@attrs.define(kw_only=True)
class OwnEpochs:
    """See the module's text.

    Attributes:
        master: its name.
        told_epoch: in which the controllers have named the master; 0: they have not.
        make_reader: makes a reader of the log.
        cut: is told where the log has to be cut before it may follow. That is not the client's to
            do, whose connection has ended: the store opens anew.
        confirmed: is told up to where readers may see the log, whenever that rises.
    """

    store: EpochStore
    master: str
    told_epoch: int
    make_reader: Callable[[], LogReader]
    cut: Callable[[int], None]
    confirmed: Callable[[int], None]
    _confirm_bytes: int = attrs.field(default=-1, init=False)

    def agree(self, answer: HandshakeAnswer, log: store_messages.LogRange) -> Agreement:
        """Compare with what a master has answered. It blocks. Raises: OSError."""
        reader = self.make_reader()
        try:
            return OwnLog(
                history=self.store.history,
                min_bytes=log.min_bytes,
                end_bytes=log.written_bytes,
                begins=record_begins(reader, log.written_bytes),
                known_bytes=self.store.known_bytes,
            ).agree(answer, told_epoch=self.told_epoch)
        finally:
            reader.close()

    def follow(self, theirs: History, end_bytes: int) -> None:
        """Have the master's epochs on the disk, up to that end. It blocks. Raises: OSError."""
        self.store.follow(theirs, end_bytes)

    def may_see(self, confirm_bytes: int) -> None:
        """Note what the master says of readers."""
        if confirm_bytes > self._confirm_bytes:
            self._confirm_bytes = confirm_bytes
            self.confirmed(confirm_bytes)
