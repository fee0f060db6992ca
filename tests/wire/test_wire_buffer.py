import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.buffer import ReceiveBuffer
from wire.errors import LocalProtocolError


def test_a_whole_chunk_is_handed_out_without_a_copy() -> None:
    buffer = ReceiveBuffer(100)
    chunk = bytes(range(50))
    buffer.append(chunk)
    assert buffer.take_some(50) is chunk
    buffer.append(chunk)
    assert buffer.take_exactly(50) is chunk
    assert len(buffer) == 0


def test_take_exactly_takes_nothing_while_too_few_wait() -> None:
    buffer = ReceiveBuffer(100)
    buffer.append(b"abc")
    assert buffer.take_exactly(4) is None
    assert len(buffer) == 3
    buffer.append(b"de")
    assert buffer.take_exactly(4) == b"abcd"
    assert buffer.take_some(100) == b"e"


def test_take_some_ends_with_the_chunk() -> None:
    buffer = ReceiveBuffer(100)
    buffer.append(b"abc")
    buffer.append(b"def")
    assert [buffer.take_some(2) for _ in range(4)] == [b"ab", b"c", b"de", b"f"]
    assert buffer.take_some(2) == b""
    assert buffer.take_some(0) == b""
    assert buffer.take_exactly(0) == b""


def test_the_limit_counts_what_waits() -> None:
    buffer = ReceiveBuffer(4)
    buffer.append(b"abcd")
    buffer.append(b"")
    with pytest.raises(LocalProtocolError, match="4 bytes wait, 1 more exceed 4"):
        buffer.append(b"e")
    assert buffer.take_exactly(4) == b"abcd"
    buffer.append(b"efgh")
    assert len(buffer) == 4


@given(st.lists(st.binary(max_size=20), max_size=20), st.lists(st.integers(0, 30), max_size=30))
def test_bytes_leave_in_the_order_they_came(chunks: list[bytes], sizes: list[int]) -> None:
    buffer = ReceiveBuffer(1000)
    whole = b"".join(chunks)
    for chunk in chunks:
        buffer.append(chunk)
    taken = b""
    for number, size in enumerate(sizes):
        if number % 2:
            taken += buffer.take_some(size)
        else:
            piece = buffer.take_exactly(size)
            assert (piece is None) == (len(whole) - len(taken) < size)
            taken += piece or b""
        assert taken == whole[: len(taken)]
        assert len(buffer) == len(whole) - len(taken)
