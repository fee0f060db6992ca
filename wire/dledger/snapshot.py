"""`snapshot_meta`: the last entry in a snapshot of a DLedger state machine, and its checksum.

Upstream: openmessaging/dledger, snapshot/SnapshotMeta.java, tag 0.4.0: a JSON object with
`lastIncludedIndex` and `lastIncludedTerm`, beside a file `data`, in a folder `snapshot_<index>`.

Differs: more keys, which upstream's reader passes over; it knows of no damage.

| Key               | Meaning                                                   |
|-------------------|-----------------------------------------------------------|
| dataBytes         | size of `data`                                            |
| dataCrc           | its CRC-32                                                |
| lastIncludedIndex | of the last entry that it stands for                      |
| lastIncludedTerm  | that entry's term                                         |
| members           | the group's members when it was taken, sorted             |
| metaCrc           | CRC-32 of the object as it is written with 0 here         |
"""

from __future__ import annotations

from typing import Final

import msgspec

from wire.crc import crc32
from wire.errors import RemoteProtocolError
from wire.remoting.tolerant_json import Long

FOLDER: Final = "snapshot"
PREFIX: Final = "snapshot_"
DATA: Final = "data"
META: Final = "snapshot_meta"
META_BYTES_MAX: Final = 65_536
"""The most bytes that are read of such a file; some hundred are written."""


class SnapshotMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields of the file; see the module's text."""

    data_bytes: Long
    data_crc: Long
    last_included_index: Long
    last_included_term: Long
    members: tuple[str, ...] = ()
    meta_crc: Long = 0


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SnapshotMeta).decode


def encode_meta(meta: SnapshotMeta) -> bytes:
    """Encode the file; `meta_crc` is computed here."""
    crc = crc32(_encode(msgspec.structs.replace(meta, meta_crc=0)))
    return _encode(msgspec.structs.replace(meta, meta_crc=crc))


def decode_meta(data: bytes) -> SnapshotMeta:
    """Decode the file. Raises: RemoteProtocolError: it is no such object, or its CRC differs."""
    try:
        meta = _decode(data)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"{META}: {error}") from None
    if encode_meta(meta) != data:
        raise RemoteProtocolError(f"{META}: its checksum differs from its content")
    if meta.last_included_index < 0 or meta.last_included_term < 0 or meta.data_bytes < 1:
        raise RemoteProtocolError(f"{META}: numbers that cannot be: {meta}")
    return meta


def folder_name(index: int) -> str:
    """Return the folder's name of the snapshot of the state after all entries up to `index`."""
    assert index >= 0
    return f"{PREFIX}{index}"


def index_of(name: str) -> int | None:
    """Return the index in a name of `folder_name`; None for any other name."""
    digits = name.removeprefix(PREFIX)
    if digits == name or not digits.isascii() or not digits.isdecimal():
        return None
    return int(digits) if folder_name(int(digits)) == name else None
