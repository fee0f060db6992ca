"""The wire dialect of auto-switch HA: a handshake about epochs, and frames that name theirs.

Source: apache/rocketmq store/ha/autoswitch/AutoSwitchHAConnection.java (5.3.3),
buildHandshakeBuffer, buildTransferHeaderBuffer, transferToSlave and changeTransferEpochToNext;
autoswitch-ha.md 2, 3.2 and T2, T12, T24.

The master's history and its confirm offset are asked for whenever something is sent. So a master
that is elected again goes on with its connections, and the next frame names the new epoch.

Differs from upstream:
- A frame names the epoch of its bytes. Upstream's names the epoch that follows in the frame that
  ends one, and never names the first one that way (autoswitch-ha.md 2.6).
- Bytes older than the first epoch are of epoch 0, which begins at 0. An answer does not list it,
  as upstream's epochs begin at 1. Upstream sends such bytes with whatever epoch was named before.
- Epochs without bytes are not listed, but for the last one, and the first one of a log: a replica
  that has bytes of it which the master never had learns so where they part.
- A master whose log is empty begins at 0, upstream's sends -1 until there is something.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

import attrs

from actors.epochs import BEFORE_EPOCHS, Epoch, History
from actors.ha.core.dialect import RequestDecoder
from actors.ha.core.extent import LogExtent
from actors.ha.core.start_rule import FirstByte, LastFile, StartRule
from wire.files.epoch_file import EpochStart
from wire.ha import autoswitch
from wire.ha.autoswitch import (
    EpochFrameStarted,
    HandshakeAnswer,
    HandshakeRequest,
    MasterMessage,
)
from wire.ha.frames import OFFSET_MAX, FrameDecoder, FrameMeter


def epoch_at(history: History, offset_bytes: int) -> tuple[Epoch, int]:
    """The epoch of the byte at this offset, and where it ends; OFFSET_MAX: it is the last one.

    Where epochs without bytes begin, the newest of them; before the first one, BEFORE_EPOCHS.
    """
    place = bisect_right(history, offset_bytes, key=lambda epoch: epoch.start_bytes)
    epoch = history[place - 1] if place else BEFORE_EPOCHS
    return epoch, history[place].start_bytes if place < len(history) else OFFSET_MAX


def listed(history: History) -> tuple[EpochStart, ...]:
    """The epochs that an answer lists: those that hold bytes, the first one, and the last one."""
    ends = [each.start_bytes for each in history[1:]]
    return tuple(
        EpochStart(epoch.number, epoch.start_bytes)
        for place, (epoch, end_bytes) in enumerate(zip(history, (*ends, OFFSET_MAX), strict=False))
        if epoch.number > 0 and (epoch.start_bytes < end_bytes or place == 0)
    )


def history_of(epochs: tuple[EpochStart, ...]) -> History:
    """The history that an answer lists. What it has below the first epoch is of none."""
    older = () if epochs and epochs[0].offset == 0 else (BEFORE_EPOCHS,)
    return (*older, *(Epoch(each.epoch, 0, "", each.offset) for each in epochs))


@attrs.frozen(kw_only=True)
class EpochHandshake:
    """The handshake of auto-switch HA.

    Attributes:
        broker_id: the own id, which the controller gave.
        who: gives the name of the replica that a request is of, "" if the controller has none such.
        history: gives the own log's history.
        async_learner, sync_from_last_file: what the own request says.
    """

    broker_id: int
    who: Callable[[HandshakeRequest], str]
    history: Callable[[], History]
    async_learner: bool = False
    sync_from_last_file: bool = False

    @property
    def request(self) -> bytes:
        return autoswitch.encode_request(
            HandshakeRequest(
                broker_id=self.broker_id,
                sync_from_last_file=self.sync_from_last_file,
                async_learner=self.async_learner,
            )
        )

    def identify(self, request: HandshakeRequest) -> str:
        return self.who(request)

    def answer(self, extent: LogExtent) -> bytes:
        epochs = listed(self.history())
        last_epoch = epochs[-1].epoch if epochs else -1
        return autoswitch.encode_answer(HandshakeAnswer(extent.written_bytes, last_epoch, epochs))

    def start_rule(self, request: HandshakeRequest) -> StartRule:
        return LastFile() if request.sync_from_last_file else FirstByte()


@attrs.frozen(kw_only=True)
class AutoSwitchDialect:
    """RocketMQ 5's auto-switch HA from 5.1.1 on; requests of 5.0.0 and 5.1.0 are read, too.

    Attributes:
        confirm: gives the confirm offset, -1 without one.
    """

    name: Final = "autoswitch"
    handshake: EpochHandshake
    confirm: Callable[[], int]
    start_rule: StartRule = attrs.field(factory=FirstByte, init=False)
    upstream: bool = False
    frame_header_bytes: Final = autoswitch.FRAME_HEADER_BYTES
    frame_body_max_bytes: Final = autoswitch.FRAME_BODY_MAX

    def stretch_end(self, offset_bytes: int) -> int:
        """No frame holds bytes of two epochs."""
        return epoch_at(self.handshake.history(), offset_bytes)[1]

    def encode_report(self, offset_bytes: int) -> bytes:
        return autoswitch.encode_report(offset_bytes)

    def encode_frame_header(self, offset_bytes: int, size_bytes: int) -> bytes:
        epoch, _ = epoch_at(self.handshake.history(), offset_bytes)
        return autoswitch.encode_frame_header(
            EpochFrameStarted(
                offset_bytes, size_bytes, epoch.number, epoch.start_bytes, self.confirm()
            )
        )

    def request_decoder(self) -> RequestDecoder:
        return autoswitch.SlaveDecoder()

    def frame_decoder(self) -> FrameDecoder[MasterMessage]:
        return FrameDecoder(autoswitch.MASTER_HEADER)

    def frame_meter(self) -> FrameMeter:
        return FrameMeter(autoswitch.MASTER_HEADER)
