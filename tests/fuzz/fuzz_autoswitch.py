"""The fuzzer's targets in auto-switch HA: what masters, slaves, controllers and files say."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from fuzz_engine import Target
from fuzz_wire import REMOTE, files_of, frames_of

from wire import buffer
from wire.broker import controller, dialect
from wire.errors import RemoteProtocolError
from wire.files import epoch_file
from wire.files.epoch_file import EpochStart
from wire.ha import autoswitch, frames

_EPOCHS = (EpochStart(1, 0), EpochStart(2, 1570))
_MASTER = (
    autoswitch.encode_answer(autoswitch.HandshakeAnswer(3140, 2, _EPOCHS))
    + autoswitch.encode_frame_header(autoswitch.EpochFrameStarted(3140, 3, 2, 1570, 1570))
    + b"abc"
)
_SLAVE = (
    autoswitch.encode_request(autoswitch.HandshakeRequest(broker_id=2))
    + autoswitch.encode_report(0)
    + struct.pack(">ihhi", 1, 0, 0, 3)
    + b"b:1"
)
_INTS = (b"\0\0\0\1", b"\0\0\0\2", b"\xff" * 4, b"\x7f" + b"\xff" * 7, b"\0" * 16)
_BODIES: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "sync state set": (
        controller.decode_sync_state_set,
        b'{"syncStateSet":[1,2],"syncStateSetEpoch":3}',
    ),
    "elected master": (
        controller.decode_elect_master,
        b'{"brokerMemberGroup":{"brokerAddrs":{1:"a:1"},"brokerName":"b","cluster":"c"},'
        b'"syncStateSet":[1]}',
    ),
    "replicas": (
        controller.decode_replicas_info,
        b'{"replicasInfoTable":{"b":{"inSyncReplicas":[{"alive":true,"brokerAddress":"a:1",'
        b'"brokerId":1,"brokerName":"b"}],"masterEpoch":3,"notInSyncReplicas":[]}}}',
    ),
    "epoch cache": (
        controller.decode_epoch_cache,
        b'{"brokerId":0,"epochList":[{"endOffset":9,"epoch":1,"startOffset":0}],"maxOffset":9}',
    ),
    "broker sets": (controller.decode_names, b'["set1"]'),
}


def slave(data: bytes) -> object:
    """All at once, and byte by byte: the same messages, and the same refusal."""
    whole = _from_slave([data])
    assert whole == _from_slave([data[at : at + 1] for at in range(len(data))])
    return whole[1] or None


def _from_slave(chunks: list[bytes]) -> tuple[list[object], str]:
    decoder = autoswitch.SlaveDecoder()
    found: list[object] = []
    try:
        for chunk in chunks:
            decoder.receive_data(chunk)
            while (message := decoder.next_message()) is not buffer.NEED_DATA:
                found.append(message)
    except RemoteProtocolError as error:
        return found, str(error)
    return found, ""


def epochs(data: bytes) -> object:
    found = epoch_file.decode_epoch_file(data)
    assert epoch_file.decode_epoch_file(epoch_file.encode_epoch_file(found)) == found
    return None


def repair_epochs(data: bytearray) -> None:
    """Make the CRC of an epoch file right."""
    count, _, rest = bytes(data).partition(b"\n")
    _, end, lines = rest.partition(b"\n")
    if end:
        data[:] = b"%b\n%d\n%b" % (count, zlib.crc32(lines) & 0x7FFFFFFF, lines)


def body(decode: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """What is read can be written, and is read again."""

    def run(data: bytes) -> object:
        found = decode(data)
        assert decode(dialect.encode_body(found)) == found
        return None

    return run


def targets() -> tuple[Target, ...]:
    """All of them."""
    wire, documents = files_of(autoswitch, frames, buffer), files_of(controller, dialect)
    return (
        Target(name="ha with epochs, master", run=frames_of(autoswitch.MASTER_HEADER),
               seeds=(_MASTER,), files=wire, tokens=_INTS, size_max=400),
        Target(name="ha with epochs, slave", run=slave, seeds=(_SLAVE,), files=wire,
               tokens=_INTS, size_max=400),
        Target(name="epoch file", run=epochs, seeds=(epoch_file.encode_epoch_file(_EPOCHS),),
               files=files_of(epoch_file), raises=REMOTE, repair=repair_epochs,
               tokens=(b"3-1570\n", b"\r\n", b"-")),
        *(
            Target(name=name, run=body(decode), seeds=(seed,), files=documents, raises=REMOTE,
                   tokens=(b"null", b"-1", b"[]", b"{}", b'"', b"1:"))
            for name, (decode, seed) in _BODIES.items()
        ),
    )  # fmt: skip
