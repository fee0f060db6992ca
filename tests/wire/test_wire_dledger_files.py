"""currterm and checkpoint: Java's are read, ours are read by Java's rules."""

import contextlib

import golden_dledger as golden
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.dledger.files import (
    TEXT_BYTES_MAX,
    LedgerCheckpoint,
    TermAndVote,
    decode_currterm,
    decode_ledger_checkpoint,
    decode_properties_file,
    encode_currterm,
    encode_ledger_checkpoint,
)
from wire.errors import LocalProtocolError, RemoteProtocolError


@pytest.mark.checklist(3, of="dledger")
@pytest.mark.parametrize("store", golden.STORES)
def test_files_of_java_are_read_and_written_alike(store: str) -> None:
    wanted = golden.manifest()[store]
    data = (golden.ROOT / store / "currterm").read_bytes()
    found = decode_currterm(data)
    assert found == TermAndVote(
        term=int(wanted["currterm"]["currTerm"]),
        vote_leader=wanted["currterm"]["voteLeader"] or None,
    )
    assert encode_currterm(found) == data
    data = (golden.ROOT / store / "checkpoint").read_bytes()
    checkpoint = decode_ledger_checkpoint(data)
    assert checkpoint == LedgerCheckpoint(
        committed_index=int(wanted["checkpoint"]["committedIndex"]),
        end_index=int(wanted["checkpoint"]["endIndex"]),
    )
    assert encode_ledger_checkpoint(checkpoint) == data


@pytest.mark.checklist(3, of="dledger")
@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"a=1\nb=2\n", {"a": "1", "b": "2"}),
        (b"a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        (b"# a=1\n  ! b=2\n\n \t\n c = 3 \n", {"c": "3 "}),
        (b"a:1\nb 2\nc\t=\t3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        (b"a==1\nb=:2\nc = = 3\n", {"a": "=1", "b": ":2", "c": "= 3"}),
        (b"a=1\\\n   2\n", {"a": "12"}),
        (b"a=1\\\\\nb=2\n", {"a": "1\\", "b": "2"}),
        (b"a=1\\\r\n2\\\\\\\n3", {"a": "12\\3"}),
        (b"# no\\\na=1\n", {"a": "1"}),
        (b"a\\=b=\\u0041\\t\\q\\\\\n", {"a=b": "A\tq\\"}),
        (b"a=1\na=2\n", {"a": "2"}),
        (b"=1\n", {"": "1"}),
        (b"a=\\", {"a": ""}),
        (b"\\\na=1", {"a": "1"}),
        (b"\xe9=\xff", {"\xe9": "\xff"}),
        (b"", {}),
    ],
)
def test_rules_of_java_properties(data: bytes, wanted: dict[str, str]) -> None:
    """Each line's reading was compared with java.util.Properties.load of Java 17."""
    assert decode_properties_file(data) == wanted


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ("\ufeffa=1\nb=2\n".encode(), {"a": "1", "b": "2"}),
        ("\ufeff#a\nb=\xe9\n".encode(), {"b": "\xe9"}),
        ("\ufeff".encode(), {}),
    ],
)
def test_a_mark_of_utf_8_is_no_part_of_the_first_key(data: bytes, wanted: dict[str, str]) -> None:
    """As Java would read it; the file is people's."""
    assert decode_properties_file(data) == wanted


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_another_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(RemoteProtocolError, match="found UTF-16"):
        decode_properties_file("\ufeffa=1\n".encode(encoding))


@pytest.mark.checklist(3, of="dledger")
def test_any_order_and_comments_are_read() -> None:
    data = b"#Sat Nov 21\ncurrTerm=7\nvoteLeader=\n"
    assert decode_currterm(data) == TermAndVote(term=7, vote_leader=None)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "currterm without currTerm"),
        (b"currTerm=1\n", "currterm without voteLeader"),
        (b"voteLeader=n0\n", "currterm without currTerm"),
        (b"currTerm=\nvoteLeader=\n", "currTerm is ''"),
        (b"currTerm=1_0\nvoteLeader=\n", "currTerm is '1_0'"),
        (b"currTerm=1 \nvoteLeader=\n", "currTerm is '1 '"),
        (b"currTerm=\xb2\nvoteLeader=\n", "currTerm is"),
        (b"currTerm=9223372036854775808\nvoteLeader=\n", "not a long"),
        (b"currTerm=" + b"1" * 5000 + b"\nvoteLeader=\n", "not a long"),
        (b"currTerm=1\nvoteLeader=\\u00", "unfinished unicode escape"),
        (b"x" * (TEXT_BYTES_MAX + 1), "at most 65536"),
    ],
)
def test_a_damaged_currterm_is_refused(data: bytes, reason: str) -> None:
    """Upstream starts with term 0 and no vote, and may vote again in a term."""
    with pytest.raises(RemoteProtocolError, match=reason):
        decode_currterm(data)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", (-1, -1)),
        (b"committedIndex=5\n", (5, -1)),
        (b"endIndex= 7 \ncommittedIndex=\n", (-1, 7)),
        (b"committedIndex=-1\nendIndex=+3", (-1, 3)),
    ],
)
def test_a_checkpoint_may_say_less(data: bytes, wanted: tuple[int, int]) -> None:
    found = decode_ledger_checkpoint(data)
    assert (found.committed_index, found.end_index) == wanted


def test_a_checkpoint_that_is_no_number_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="endIndex is 'x', not a long"):
        decode_ledger_checkpoint(b"endIndex=x\n")


@pytest.mark.parametrize("vote", ["a\\b", " n0", "n0\n", "é", "n\t0", "\ud800"])
def test_an_id_that_java_would_read_as_another_is_refused(vote: str) -> None:
    with pytest.raises(LocalProtocolError, match="would not be read back"):
        encode_currterm(TermAndVote(term=1, vote_leader=vote))


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_numbers_out_of_range_are_our_error(value: int) -> None:
    with pytest.raises(LocalProtocolError, match="is not a long"):
        encode_currterm(TermAndVote(term=value, vote_leader=None))
    with pytest.raises(LocalProtocolError, match="is not a long"):
        encode_ledger_checkpoint(LedgerCheckpoint(committed_index=0, end_index=value))


longs = st.integers(-(2**63), 2**63 - 1)
ids = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="\\"))


@given(longs, ids)
def test_files_round_trip(number: int, vote: str) -> None:
    value = TermAndVote(term=number, vote_leader=vote or None)
    assert decode_currterm(encode_currterm(value)) == value
    checkpoint = LedgerCheckpoint(committed_index=number, end_index=~number)
    assert decode_ledger_checkpoint(encode_ledger_checkpoint(checkpoint)) == checkpoint


@given(st.binary(max_size=80) | st.text("a=: \\\n\r#u01", max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for decode in (decode_currterm, decode_ledger_checkpoint):
        with contextlib.suppress(RemoteProtocolError):
            decode(data)
