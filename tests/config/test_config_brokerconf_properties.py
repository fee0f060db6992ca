"""Java's properties format: each expected value is what java.util.Properties gives."""

from __future__ import annotations

import pytest

from actors.config.brokerconf.files import parse_file
from actors.config.brokerconf.properties import Entry, parse_properties
from actors.errors import ConfigError


def pairs(data: bytes) -> list[tuple[str, str]]:
    return [(each.key, each.value) for each in parse_properties(data, "f")]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a=1", [("a", "1")]),
        (b"a = 1", [("a", "1")]),
        (b"a:1", [("a", "1")]),
        (b"a : = 1", [("a", "= 1")]),
        (b"a 1", [("a", "1")]),
        (b"a\t\f 1", [("a", "1")]),
        (b"  a=1 ", [("a", "1 ")]),
        (b"a", [("a", "")]),
        (b"a=", [("a", "")]),
        (b"=1", [("", "1")]),
        (b"a==1", [("a", "=1")]),
        (b"", []),
        (b"\n \t\n\r\n", []),
        (b"#a=1\n!b=2\n  # c=3\nd=4 # no comment", [("d", "4 # no comment")]),
        (b"a=1\nb=2\rc=3\r\nd=4", [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]),
        (b"a=1,\\\n   2,\\\r\n\t3", [("a", "1,2,3")]),
        (b"a\\\n b=1", [("ab", "1")]),
        (b"a=1\\\\\nb=2", [("a", "1\\"), ("b", "2")]),
        (b"a=1\\\\\\\nb=2", [("a", "1\\b=2")]),
        (b"a=1\\\n#b=2", [("a", "1#b=2")]),
        (b"a=1\\\n\nb=2", [("a", "1"), ("b", "2")]),
        (b"a=1\\", [("a", "1")]),
        (b"#a\\\nb=2", [("b", "2")]),
        (b"a\\=b\\:c\\ d=1", [("a=b:c d", "1")]),
        (b"a=\\t\\n\\r\\f\\q\\\\\\=", [("a", "\t\n\r\fq\\=")]),
        (b"a=\\u0041\\u00e4\\ud83d\\ude00", [("a", "A\u00e4\U0001f600")]),
        (b"\\u0061=1", [("a", "1")]),
        ("a=\u00e4".encode(), [("a", "\u00e4")]),
        ("a=\u00e4".encode("iso-8859-1"), [("a", "\u00e4")]),
        (b"\xef\xbb\xbfa=1", [("a", "1")]),
        (b"a=1\na=2", [("a", "1"), ("a", "2")]),
        (b"a=\x00", [("a", "\x00")]),
    ],
)
def test_what_java_reads(data: bytes, expected: list[tuple[str, str]]) -> None:
    assert pairs(data) == expected


def test_the_line_is_where_an_entry_begins() -> None:
    found = parse_properties(b"# one\n\na=1\\\n 2\nb=3", "f")
    assert found == (Entry("a", "12", 3), Entry("b", "3", 5))


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"\na=\\u12", "f:2: expected four hexadecimal digits after \\u, found '12'"),
        (b"a=\\uzzzz", "f:1: expected four hexadecimal digits after \\u, found 'zzzz'"),
        (b"a=\\ud800", "f:1: expected a character, found half a surrogate pair"),
    ],
)
def test_what_is_no_character(data: bytes, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_properties(data, "f")
    assert caught.value.problems == (line,)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_another_encoding_is_named(encoding: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_properties("\ufeffbrokerId=0\n".encode(encoding), "broker.conf")
    assert str(caught.value) == "broker.conf: expected UTF-8 or ISO-8859-1, found UTF-16"


def test_of_a_key_that_is_given_again_the_last_counts() -> None:
    found = parse_file(b"brokerId=1\nfileReservedTime=5\nbrokerId=2\nbrokerId=3\nz=1\nz=2\n", "f")
    assert found.value("brokerId") == 3
    assert found.notes == (
        "f:4: key brokerId: counts; given before, line 1, 3",
        "f:6: key z: counts; given before, line 5",
        "f: keys that mean nothing here: z",
    )


def test_a_wrong_value_that_does_not_count_is_no_mistake() -> None:
    assert parse_file(b"brokerId=x\nbrokerId=2", "f").value("brokerId") == 2


def test_unknown_keys_are_listed_once_with_what_is_near() -> None:
    found = parse_file(b"enableAcl=true\nbrokerID=1\nenableAcl=\n=x\n\\n=1", "f")
    assert found.notes[-1] == (
        'f: keys that mean nothing here: enableAcl, brokerID (did you mean brokerId?), "", "\\n"'
    )


def test_all_mistakes_of_a_file_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_file(b"brokerId=x\nbrokerRole=MASTER\nlistenPort=0", "f")
    assert [line.partition(": expected")[0] for line in caught.value.problems] == [
        "f:1: key brokerId",
        "f:2: key brokerRole",
        "f:3: key listenPort",
    ]
