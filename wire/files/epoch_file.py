"""The epoch file of auto-switch HA: from which offset on a log was written in which epoch.

Upstream: apache/rocketmq, store/.../ha/autoswitch/EpochFileCache.java and
common/.../utils/CheckpointFile.java, 5.3.3; autoswitch-ha.md 4.2. The file is
`epochFileCheckpoint` in the store's folder; the file before it is kept beside it as `.bak`.

It is text, whose lines end as the machine's do, with LF here:

| Line | Content                                                                              |
|------|--------------------------------------------------------------------------------------|
| 1    | how many epochs there are                                                            |
| 2    | CRC-32 of the lines that follow, with their ends, without the highest bit; 0: none   |
| 3 .. | `EPOCH-OFFSET` for each, ascending in both                                           |

Where an epoch ends is not written: the next one begins there, and the last one is open.

Differs:
- Epochs that do not ascend are refused; upstream leaves some of them out as it reads.
- A line behind the last epoch is refused; upstream ignores it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

from wire.crc import crc32
from wire.errors import LocalProtocolError, RemoteProtocolError

FILE_NAME: Final = "epochFileCheckpoint"
BACKUP_NAME: Final = FILE_NAME + ".bak"
EPOCH_MAX: Final = 2**31 - 1
OFFSET_MAX: Final = 2**63 - 1
FILE_BYTES_MAX: Final = 16 << 20
"""The most bytes of a file that is read into memory, enough for some 500,000 epochs."""

_CRC_MASK: Final = 0x7FFFFFFF
_LINE = re.compile(rb"([0-9]{1,10})-([0-9]{1,19})")
_NUMBER = re.compile(rb"[0-9]{1,10}")


@attrs.frozen
class EpochStart:
    """An epoch, and the physical offset at which it begins."""

    epoch: int
    offset: int


def epochs_problem(epochs: Sequence[EpochStart]) -> str:
    """Return what is wrong with a list of epochs, or "".

    Right ones ascend in number, from 1 to EPOCH_MAX, and do not descend in offset. Two epochs may
    begin at one offset: nothing was written in the first of them.
    """
    before = EpochStart(0, 0)
    for each in epochs:
        if not before.epoch < each.epoch <= EPOCH_MAX:
            return f"epoch {each.epoch} follows epoch {before.epoch}"
        if not before.offset <= each.offset <= OFFSET_MAX:
            return f"epoch {each.epoch} begins at {each.offset}, the one before at {before.offset}"
        before = each
    return ""


def encode_epoch_file(epochs: Sequence[EpochStart]) -> bytes:
    """Encode the whole file.

    Raises:
        LocalProtocolError: the epochs do not ascend, or are out of range.
    """
    problem = epochs_problem(epochs)
    if problem:
        raise LocalProtocolError(problem)
    lines = "".join(f"{each.epoch}-{each.offset}\n" for each in epochs).encode()
    return b"%d\n%d\n%b" % (len(epochs), crc32(lines) & _CRC_MASK, lines)


def decode_epoch_file(data: bytes) -> tuple[EpochStart, ...]:
    """Decode the epochs of a file, in ascending order.

    Raises:
        RemoteProtocolError: the file is damaged, or of another format.
    """
    if len(data) > FILE_BYTES_MAX:
        raise RemoteProtocolError(f"an epoch file of {len(data)} bytes")
    count, crc, *lines = data.splitlines(keepends=True) if data.count(b"\n") > 1 else (b"", b"")
    stated = [_NUMBER.fullmatch(line.rstrip(b"\r\n")) for line in (count, crc)]
    if stated[0] is None or stated[1] is None:
        raise RemoteProtocolError("an epoch file begins with two numbers")
    if len(lines) != int(stated[0][0]):
        raise RemoteProtocolError(f"an epoch file of {len(lines)} epochs says {int(stated[0][0])}")
    found = crc32(b"".join(lines)) & _CRC_MASK
    if int(stated[1][0]) not in (0, found):
        raise RemoteProtocolError(f"the CRC of an epoch file is {found}, not {int(stated[1][0])}")
    epochs = tuple(map(_epoch, lines))
    problem = epochs_problem(epochs)
    if problem:
        raise RemoteProtocolError(f"an epoch file in which {problem}")
    return epochs


def _epoch(line: bytes) -> EpochStart:
    match = _LINE.fullmatch(line.rstrip(b"\r\n"))
    if match is None:
        raise RemoteProtocolError(f"a line of an epoch file is no epoch: {line[:60]!r}")
    return EpochStart(int(match[1]), int(match[2]))
