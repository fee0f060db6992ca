"""The epoch file: Java's files, the check values of autoswitch-ha.md 4.2, and damage."""

from __future__ import annotations

import golden_autoswitch as golden
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.crc import crc32
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.files.epoch_file import (
    EPOCH_MAX,
    FILE_BYTES_MAX,
    OFFSET_MAX,
    EpochStart,
    decode_epoch_file,
    encode_epoch_file,
)

JAVA = {
    "broker-a/epochFileCheckpoint.before-truncation": [(1, 0)],
    "broker-a/epochFileCheckpoint": [(1, 0), (2, 1338), (3, 2234), (4, 2901)],
    "broker-b/epochFileCheckpoint": [(1, 0), (2, 1338), (3, 2234), (4, 2901)],
    "broker-b/epochFileCheckpoint.bak": [(1, 0), (2, 1338), (3, 2234)],
    "broker-c/epochFileCheckpoint": [(1, 0), (2, 1338), (3, 2234), (4, 2901)],
}


def starts(*pairs: tuple[int, int]) -> tuple[EpochStart, ...]:
    return tuple(EpochStart(*pair) for pair in pairs)


def file_of(*lines: str, end: str = "\n") -> bytes:
    """A file of such lines with the right count and CRC."""
    text = "".join(line + end for line in lines).encode()
    return f"{len(lines)}{end}{crc32(text) & 0x7FFFFFFF}{end}".encode() + text


@pytest.mark.checklist(12, of="autoswitch")
@pytest.mark.parametrize("name", JAVA)
def test_files_of_java_are_read_and_written_alike(name: str) -> None:
    data = golden.file(name)
    assert decode_epoch_file(data) == starts(*JAVA[name])
    assert encode_epoch_file(starts(*JAVA[name])) == data


@pytest.mark.checklist(12, of="autoswitch")
@pytest.mark.parametrize(
    ("epochs", "crc"),
    [
        ([(7, 7000), (8, 8000)], 773307083),
        ([(1, 0), (2, 1570)], 1190946436),
        ([(1, 0)], 1725254278),
    ],
)
def test_check_values(epochs: list[tuple[int, int]], crc: int) -> None:
    assert encode_epoch_file(starts(*epochs)).split(b"\n")[1] == str(crc).encode()


def test_lines_of_another_system_and_no_crc_are_read() -> None:
    assert decode_epoch_file(file_of("1-0", "2-9", end="\r\n")) == starts((1, 0), (2, 9))
    assert decode_epoch_file(b"1\n0\n5-77\n") == starts((5, 77))
    assert decode_epoch_file(b"0\n0\n") == ()


def test_an_epoch_without_bytes_has_the_offset_of_the_next() -> None:
    epochs = starts((1, 0), (4, 100), (6, 100))
    assert decode_epoch_file(encode_epoch_file(epochs)) == epochs


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "begins with two numbers"),
        (b"1\n", "begins with two numbers"),
        (b"x\n0\n1-0\n", "begins with two numbers"),
        (b"-1\n0\n", "begins with two numbers"),
        (b"1\n0\n", "of 0 epochs says 1"),
        (b"1\n0\n1-0\n2-9\n", "of 2 epochs says 1"),
        (b"1\n17\n1-0\n", "the CRC"),
        (file_of("1-0", "word"), "is no epoch"),
        (file_of("1--5"), "is no epoch"),
        (file_of(" 1-5"), "is no epoch"),
        (file_of("0-5"), "epoch 0 follows"),
        (file_of("1-0", "1-7"), "epoch 1 follows epoch 1"),
        (file_of("1-8", "2-7"), "begins at 7"),
        (file_of(f"{EPOCH_MAX + 1}-0"), "follows epoch 0"),
        (file_of(f"1-{OFFSET_MAX + 1}"), "begins at"),
        (bytes(FILE_BYTES_MAX + 1), "bytes"),
    ],
)
def test_damage_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(RemoteProtocolError, match=what):
        decode_epoch_file(data)


@pytest.mark.parametrize("epochs", [[(2, 0), (1, 5)], [(1, 5), (2, 4)], [(0, 0)], [(1, -1)]])
def test_what_does_not_ascend_is_not_written(epochs: list[tuple[int, int]]) -> None:
    with pytest.raises(LocalProtocolError, match="epoch"):
        encode_epoch_file(starts(*epochs))


@given(st.binary(max_size=60))
def test_any_bytes_are_epochs_or_refused(data: bytes) -> None:
    try:
        epochs = decode_epoch_file(data)
    except RemoteProtocolError:
        return
    assert decode_epoch_file(encode_epoch_file(epochs)) == epochs


@given(st.sets(st.integers(1, EPOCH_MAX), max_size=8), st.data())
def test_what_is_written_is_read(numbers: set[int], data: st.DataObject) -> None:
    offsets = st.integers(0, OFFSET_MAX)
    drawn = sorted(data.draw(st.lists(offsets, min_size=len(numbers), max_size=len(numbers))))
    epochs = starts(*zip(sorted(numbers), drawn, strict=True))
    encoded = encode_epoch_file(epochs)
    assert decode_epoch_file(encoded) == epochs
    for at in range(len(encoded) if epochs else 0):
        broken = encoded[:at] + bytes([encoded[at] ^ 1]) + encoded[at + 1 :]
        if broken.split(b"\n")[1].strip(b"0"):  # a CRC of 0 is not checked
            with pytest.raises(RemoteProtocolError):
                decode_epoch_file(broken)
