"""Auto-switch HA's messages: a handshake about epochs, then frames of commit log and reports.

Upstream: apache/rocketmq, store/.../ha/autoswitch/AutoSwitchHAClient.java and
AutoSwitchHAConnection.java, 5.3.3; autoswitch-ha.md 2. Each message begins with the state of the
connection that it belongs to, an int: 1 in the handshake, 2 in the transfer.

Handshake request, slave to master (REQUEST_BYTES = 16):

| Offset | Width | Type  | Field             | Meaning                                            |
|--------|-------|-------|-------------------|----------------------------------------------------|
| 0      | 4     | int   | state             | 1                                                  |
| 4      | 2     | short | syncFromLastFile  | 1: an empty slave wants the master's last file     |
| 6      | 2     | short | asyncLearner      | 1: it never joins the sync state set               |
| 8      | 8     | long  | brokerId          | given by the controller, 1 to 2^32 - 1             |

5.0.0 and 5.1.0 have the slave's address instead of its id: its length, an int at 8, and as many
bytes of UTF-8 at 12.

Handshake answer, master to slave (ANSWER_BYTES = 20, then 12 for each epoch):

| Offset | Width | Type | Field      | Meaning                                                    |
|--------|-------|------|------------|------------------------------------------------------------|
| 0      | 4     | int  | state      | 1                                                          |
| 4      | 4     | int  | body size  | 12 * the number of epochs                                  |
| 8      | 8     | long | max offset | where the master's log ends                                |
| 16     | 4     | int  | epoch      | the last epoch; -1: there is none                          |
| 20     | 12    | raw  | epochs     | each: epoch, int; its first offset, long. They ascend      |

5.0.0 has two longs more, both 0, in front of the epochs; they are told by a first epoch of 0.

Frame, master to slave (FRAME_HEADER_BYTES = 36, then the body):

| Offset | Width | Type | Field       | Meaning                                   | Range          |
|--------|-------|------|-------------|-------------------------------------------|----------------|
| 0      | 4     | int  | state       | 2                                         |                |
| 4      | 4     | int  | size        | body bytes; 0 is a heartbeat              | 0 .. 4 194 268 |
| 8      | 8     | long | offset      | physical offset of the first body byte    | 0 .. 2^63-1    |
| 16     | 4     | int  | epoch       | the epoch that the master is sending      | 0 .. 2^31-1    |
| 20     | 8     | long | epoch start | where it begins, perhaps above the body   | 0 .. 2^63-1    |
| 28     | 8     | long | confirm     | up to here readers may see the log        | -1 .. 2^63-1   |
| 36     | size  | raw  | body        | commit log, cut anywhere, not per message |                |

A heartbeat of a master that does not know yet where to begin has the offset -1.

Report, slave to master (REPORT_BYTES = 12): the state 2, an int, and where the slave's log ends, a
long.

Differs:
- A Java master reads a request when 12 of its 16 bytes are there, and takes the id from what comes
  next (autoswitch-ha.md T47); here it is read when it is whole.
- An answer may list ANSWER_EPOCHS_MAX epochs. Upstream's master closes the connection for ever when
  it has more than 1,000 (autoswitch-ha.md T24).
- What `wire.ha.classic` refuses of its frames is refused here, too.
"""

from __future__ import annotations

import struct
from typing import Final, Literal, TypeAlias

import attrs

from wire.buffer import NEED_DATA, NeedData, ReceiveBuffer
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.files.epoch_file import EPOCH_MAX, EpochStart, epochs_problem
from wire.ha.frames import (
    JAVA_BUFFER_BYTES,
    OFFSET_MAX,
    RECEIVE_LIMIT_BYTES,
    FrameStarted,
    HeaderLayout,
    Report,
    frame_problem,
)

HANDSHAKE: Final = 1
TRANSFER: Final = 2
REQUEST_BYTES: Final = 16
ADDRESS_BYTES_MAX: Final = 50
"""The most bytes of a slave's address: a 5.0.0 slave builds its request in 62 bytes."""
ANSWER_BYTES: Final = 20
EPOCH_BYTES: Final = 12
FRAME_HEADER_BYTES: Final = 36
FRAME_BODY_MAX: Final = JAVA_BUFFER_BYTES - FRAME_HEADER_BYTES
REPORT_BYTES: Final = 12
ANSWER_EPOCHS_MAX: Final = (JAVA_BUFFER_BYTES - ANSWER_BYTES) // EPOCH_BYTES
"""The most epochs in an answer, which a Java slave collects in its buffer of 4 MiB."""
BROKER_ID_MAX: Final = 2**32 - 1
"""The highest id of a broker. A request with a higher one would look like one of 5.0.0."""

_STATE = struct.Struct(">i")
_REQUEST = struct.Struct(">ihhq")
_OLD_REQUEST = struct.Struct(">ihhi")
_ANSWER = struct.Struct(">iiqi")
_OLD_ANSWER_BYTES = 36
_EPOCH = struct.Struct(">iq")
_FRAME_HEADER = struct.Struct(">iiqiqq")
_REPORT = struct.Struct(">iq")


@attrs.frozen(kw_only=True)
class HandshakeRequest:
    """The first message of a slave.

    Attributes:
        broker_id: the id that the controller gave the slave; None for a slave of 5.0.0 or 5.1.0.
        address: the address of such a slave, "host:port"; "" otherwise.
        sync_from_last_file: whether it begins with the master's last file if it is empty.
        async_learner: whether it never joins the sync state set.
    """

    broker_id: int | None
    address: str = ""
    sync_from_last_file: bool = False
    async_learner: bool = False


SlaveMessage: TypeAlias = HandshakeRequest | Report


@attrs.frozen
class HandshakeAnswer:
    """The master's history.

    Attributes:
        end: the physical offset at which its log ends, or -1 without a log.
        last_epoch: its last epoch, or -1 without any.
        epochs: all epochs, ascending in number and offset.
    """

    end: int
    last_epoch: int
    epochs: tuple[EpochStart, ...]


@attrs.frozen
class EpochFrameStarted(FrameStarted):
    """The header of a frame is complete.

    Attributes:
        epoch, epoch_start: the epoch that the master sends, and where it begins. Upstream names the
            epoch that follows in the frame that ends an epoch, so it may begin above the body.
        confirm: the master's confirm offset, or -1 without one.
    """

    epoch: int
    epoch_start: int
    confirm: int


MasterMessage: TypeAlias = HandshakeAnswer | EpochFrameStarted


def encode_request(request: HandshakeRequest) -> bytes:
    """Encode a slave's first message.

    Raises:
        LocalProtocolError: `broker_id` is not in 1 .. BROKER_ID_MAX. Requests of 5.0.0 are read
            only, never written.
    """
    broker_id = request.broker_id
    if broker_id is None or not 1 <= broker_id <= BROKER_ID_MAX:
        raise LocalProtocolError(f"broker id {broker_id} is not in 1..{BROKER_ID_MAX}")
    learner = request.async_learner
    return _REQUEST.pack(HANDSHAKE, request.sync_from_last_file, learner, broker_id)


def encode_answer(answer: HandshakeAnswer) -> bytes:
    """Encode the master's answer to a slave's first message.

    Raises:
        LocalProtocolError: the epochs do not ascend, are out of range, or are too many.
    """
    problem = _answer_problem(answer)
    if problem:
        raise LocalProtocolError(problem)
    size = len(answer.epochs) * EPOCH_BYTES
    head = _ANSWER.pack(HANDSHAKE, size, answer.end, answer.last_epoch)
    return head + b"".join(_EPOCH.pack(each.epoch, each.offset) for each in answer.epochs)


def encode_report(offset: int) -> bytes:
    """Encode the slave's report that its log ends at `offset` (0 .. OFFSET_MAX).

    Raises:
        LocalProtocolError: `offset` is out of range.
    """
    if not 0 <= offset <= OFFSET_MAX:
        raise LocalProtocolError(f"report offset {offset} is not in 0..{OFFSET_MAX}")
    return _REPORT.pack(TRANSFER, offset)


def encode_frame_header(frame: EpochFrameStarted) -> bytes:
    """Encode the header before `frame.size` bytes of commit log.

    Raises:
        LocalProtocolError: a field is out of range.
    """
    problem = _frame_problem(frame)
    if problem is not None:
        raise LocalProtocolError(str(problem))
    return _FRAME_HEADER.pack(
        TRANSFER, frame.size, frame.offset, frame.epoch, frame.epoch_start, frame.confirm
    )


def _answer_problem(answer: HandshakeAnswer) -> str:
    epochs = answer.epochs
    if len(epochs) > ANSWER_EPOCHS_MAX:
        return f"{len(epochs)} epochs are more than {ANSWER_EPOCHS_MAX}"
    if not -1 <= answer.end <= OFFSET_MAX:
        return f"max offset {answer.end} is not in -1..{OFFSET_MAX}"
    if answer.last_epoch != (epochs[-1].epoch if epochs else -1):
        return f"epoch {answer.last_epoch} is not the last one of the list"
    return epochs_problem(epochs)


def _frame_problem(frame: EpochFrameStarted) -> RemoteProtocolError | None:
    unknown_place = frame.size == 0 and frame.offset == -1
    problem = frame_problem(0 if unknown_place else frame.offset, frame.size, FRAME_BODY_MAX)
    if problem is not None:
        return problem
    if not 0 <= frame.epoch <= EPOCH_MAX or not 0 <= frame.epoch_start <= OFFSET_MAX:
        return RemoteProtocolError(
            f"frame of epoch {frame.epoch}, which begins at {frame.epoch_start}: both are 0 or more"
        )
    if not -1 <= frame.confirm <= OFFSET_MAX:
        return RemoteProtocolError(f"confirm offset {frame.confirm} is not in -1..{OFFSET_MAX}")
    return None


@attrs.frozen
class _MasterHeader:
    """The headers of a master's messages, as a `HeaderLayout`. An answer has no body."""

    first_bytes: int = ANSWER_BYTES

    def header_bytes(self, head: bytes) -> int:
        size: int
        state, size, _, _ = _ANSWER.unpack_from(head)
        if state == TRANSFER:
            return FRAME_HEADER_BYTES
        if state != HANDSHAKE:
            raise RemoteProtocolError(f"a master's message begins with {state}, not with 1 or 2")
        if not 0 <= size <= ANSWER_EPOCHS_MAX * EPOCH_BYTES or size % EPOCH_BYTES:
            raise RemoteProtocolError(f"handshake answer of {size} bytes of epochs")
        if size and len(head) == ANSWER_BYTES:
            return ANSWER_BYTES + EPOCH_BYTES
        return (_OLD_ANSWER_BYTES if _is_old(head) else ANSWER_BYTES) + size

    def read(self, header: bytes) -> MasterMessage:
        if _STATE.unpack_from(header)[0] == TRANSFER:
            _, size, offset, epoch, epoch_start, confirm = _FRAME_HEADER.unpack(header)
            frame = EpochFrameStarted(offset, size, epoch, epoch_start, confirm)
            problem = _frame_problem(frame)
            if problem is not None:
                raise problem
            return frame
        _, _, end, last_epoch = _ANSWER.unpack_from(header)
        epochs = header[_OLD_ANSWER_BYTES if _is_old(header) else ANSWER_BYTES :]
        answer = HandshakeAnswer(end, last_epoch, tuple(map(_epoch, _EPOCH.iter_unpack(epochs))))
        found = _answer_problem(answer)
        if found:
            raise RemoteProtocolError(f"handshake answer: {found}")
        return answer


def _is_old(head: bytes) -> bool:
    """Return whether a list of epochs follows 16 bytes of zeros, as in 5.0.0: no epoch is 0."""
    return len(head) > ANSWER_BYTES and not any(head[ANSWER_BYTES : ANSWER_BYTES + 4])


def _epoch(fields: tuple[int, int]) -> EpochStart:
    return EpochStart(*fields)


MASTER_HEADER: Final[HeaderLayout[MasterMessage]] = _MasterHeader()
"""The layout for `FrameDecoder` and `FrameMeter`."""


class SlaveDecoder:
    """The master's side: takes bytes from a slave, and returns its requests and reports.

    After `receive_data` call `next_message` until it returns NEED_DATA.
    """

    __slots__ = ("_buffer", "_failed", "_head")

    def __init__(self) -> None:
        self._buffer = ReceiveBuffer(RECEIVE_LIMIT_BYTES)
        self._failed: RemoteProtocolError | None = None
        self._head = b""

    def receive_data(self, data: bytes) -> None:
        """Add received bytes.

        Raises:
            LocalProtocolError: `next_message` was not called for RECEIVE_LIMIT_BYTES.
        """
        self._buffer.append(data)

    def next_message(self) -> SlaveMessage | Literal[NeedData.NEED_DATA]:
        """Return the next message, or NEED_DATA.

        Raises:
            RemoteProtocolError: the state is unknown, or a field is out of range. Every later call
                raises the same.
        """
        if self._failed is not None:
            raise self._failed
        try:
            while len(self._head) < (wanted := _slave_message_bytes(self._head)):
                more = self._buffer.take_exactly(wanted - len(self._head))
                if more is None:
                    return NEED_DATA
                self._head += more
            message, self._head = _read_slave_message(self._head), b""
        except RemoteProtocolError as error:
            self._failed = error
            raise
        return message


def _slave_message_bytes(head: bytes) -> int:
    """Return how many bytes the message has, or how many of them are needed to know that."""
    if len(head) < REPORT_BYTES:
        return REPORT_BYTES
    address_bytes: int
    state, _, _, address_bytes = _OLD_REQUEST.unpack_from(head)
    if state == TRANSFER:
        return REPORT_BYTES
    if state != HANDSHAKE:
        raise RemoteProtocolError(f"a slave's message begins with {state}, not with 1 or 2")
    if not 0 <= address_bytes <= ADDRESS_BYTES_MAX:
        raise RemoteProtocolError(
            f"handshake with an address of {address_bytes} bytes, or a broker id above"
            f" {BROKER_ID_MAX}"
        )
    return _OLD_REQUEST.size + address_bytes if address_bytes else REQUEST_BYTES


def _read_slave_message(data: bytes) -> SlaveMessage:
    if _STATE.unpack_from(data)[0] == TRANSFER:
        offset: int = _REPORT.unpack(data)[1]
        if offset < 0:
            raise RemoteProtocolError(f"report {offset} is negative")
        return Report(offset)
    _, from_last_file, learner, address_bytes = _OLD_REQUEST.unpack_from(data)
    broker_id, address = None, ""
    if address_bytes:
        try:
            address = data[_OLD_REQUEST.size :].decode()
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"handshake: the address is no UTF-8: {error}") from None
    else:
        broker_id = _REQUEST.unpack(data)[3]
    return HandshakeRequest(
        broker_id=broker_id,
        address=address,
        sync_from_last_file=from_last_file == 1,
        async_learner=learner == 1,
    )
