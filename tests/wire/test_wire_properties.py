import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import LocalProtocolError
from wire.files.properties import (
    DELAY_LEVELS_MS,
    PROPERTIES_BYTES_MAX,
    decode_properties,
    delivery_time,
    encode_properties,
    find_value,
    java_string_hash,
    queue_tags_code,
    tags_code,
    tags_code_of_bytes,
)


def find_property(block: bytes, name: bytes) -> bytes | None:
    return find_value(b"\2" + block, b"\2" + name + b"\1")


@pytest.mark.parametrize(
    ("block", "wanted"),
    [
        (b"", {}),
        (b"a\1b\2", {"a": "b"}),
        (b"a\1b", {"a": "b"}),
        (b"a\1b\2c\1d", {"a": "b", "c": "d"}),
        (b"a\1b\2\2c\1d\2\2", {"a": "b", "c": "d"}),
        (b"a\1b\2a\1c\2", {"a": "c"}),
        (b"a\1b\2a\1\2", {"a": "b"}),
        (b"a\1\2\1b\2ab\2a", {}),
        (b"a\1b\1c\2", {"a": "b\1c"}),
        ("Größe\1ü\2".encode(), {"Größe": "ü"}),
        ("鍵\1値😀\2".encode(), {"鍵": "値😀"}),
        (b"a\1\xff\2", {"a": "\ufffd"}),
    ],
)
def test_blocks_are_read_as_upstream_does(block: bytes, wanted: dict[str, str]) -> None:
    assert decode_properties(block) == wanted
    for name, value in wanted.items():
        found = find_property(block, name.encode())
        assert found is not None
        assert found.decode("utf-8", "replace") == value
    assert find_property(block, b"absent") is None


def test_a_block_ends_with_a_separator() -> None:
    assert encode_properties({"a": "b", "c": "d"}) == b"a\1b\2c\1d\2"
    assert encode_properties({}) == b""


@pytest.mark.parametrize(
    ("name", "value"),
    [("", "v"), ("n", ""), ("n\1", "v"), ("n\2", "v"), ("n", "v\2"), ("n", "\ud800")],
)
def test_what_nobody_could_read_back_is_refused(name: str, value: str) -> None:
    with pytest.raises(LocalProtocolError, match="propert"):
        encode_properties({name: value})


def test_the_block_is_limited() -> None:
    longest = encode_properties({"k": "v" * (PROPERTIES_BYTES_MAX - 3)})
    assert len(longest) == PROPERTIES_BYTES_MAX == 32767
    with pytest.raises(LocalProtocolError, match="32768 bytes of properties, at most 32767"):
        encode_properties({"k": "v" * (PROPERTIES_BYTES_MAX - 2)})


names = st.text(st.characters(exclude_characters="\1\2", exclude_categories=["Cs"]), min_size=1)
values = st.text(st.characters(exclude_characters="\2", exclude_categories=["Cs"]), min_size=1)


@given(st.dictionaries(names, values, max_size=8), st.booleans())
def test_properties_round_trip(properties: dict[str, str], final: bool) -> None:
    block = encode_properties(properties)
    if not final:  # as 4.9 writes it
        block = block.removesuffix(b"\2")
    assert decode_properties(block) == properties
    assert list(decode_properties(block)) == list(properties)


pieces = st.sampled_from([b"TAGS", b"KEYS", b"\1", b"\1", b"\2", b"\2", b"x", b"\xff", b"\xc3"])


@given(st.lists(pieces, max_size=20).map(b"".join))
def test_finding_one_property_equals_reading_all(block: bytes) -> None:
    found = find_property(block, b"TAGS")
    wanted = decode_properties(block).get("TAGS")
    assert (None if found is None else found.decode("utf-8", "replace")) == wanted


@pytest.mark.parametrize(
    ("block", "wanted"),
    [
        (b"TAGS\1a\2TAGS\1\2", b"a"),
        (b"TAGS\1\2TAGS\1", None),
        (b"TAGS\1\1\2", b"\1"),
        (b"TAGS\1a" + b"\2TAGS\1" * 500_000, b"a"),
    ],
    ids=["one", "none", "separator", "many"],
)
def test_empty_values_do_not_count_and_take_no_time(block: bytes, wanted: bytes | None) -> None:
    assert find_property(block, b"TAGS") == wanted


# Values printed by Java 17: "...".hashCode().
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", 0),
        ("a", 97),
        ("tag0", 3552214),
        ("TopicTest", -1902610879),
        ("polygenelubricants", -(2**31)),
        ("Grüße", 69215351),
        ("😀", 1772899),
        ("名", 21517),
    ],
)
def test_java_string_hash(text: str, wanted: int) -> None:
    assert java_string_hash(text) == wanted
    assert tags_code(text) == wanted
    assert tags_code_of_bytes(text.encode()) == wanted


def test_no_tags_have_code_0() -> None:
    assert tags_code(None) == 0


@given(st.text(max_size=50))
def test_java_string_hash_is_the_polynomial(text: str) -> None:
    data = text.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]
    wanted = sum(unit * 31**power for power, unit in enumerate(reversed(units)))
    assert (java_string_hash(text) - wanted) % 2**32 == 0
    assert -(2**31) <= java_string_hash(text) < 2**31


# --- delayed messages -----------------------------------------------------------------------------


def test_the_default_levels() -> None:
    assert len(DELAY_LEVELS_MS) == 18
    assert DELAY_LEVELS_MS[:5] == (1000, 5000, 10_000, 30_000, 60_000)
    assert DELAY_LEVELS_MS[-3:] == (1_800_000, 3_600_000, 7_200_000)


@pytest.mark.parametrize(
    ("delay", "wanted"),
    [
        ("1", 1100), ("18", 7_200_100), ("19", 7_200_100), ("2147483647", 7_200_100), ("+2", 5100),
        ("0", None), ("-1", None), ("", None), ("x", None), ("1.5", None), ("²", None),
        ("9" * 5000, None),
    ],
)  # fmt: skip
def test_delivery_time(delay: str, wanted: int | None) -> None:
    assert delivery_time(delay, 100) == wanted


def test_delivery_time_without_levels_is_a_second() -> None:
    assert delivery_time("3", 100, ()) == 1100


def test_delivery_time_wraps_as_a_java_long() -> None:
    """A record may have any store time, and a unit of a consume queue holds a long."""
    assert delivery_time("1", 2**63 - 1) == -(2**63) + 999


@pytest.mark.parametrize(
    ("topic", "properties", "wanted"),
    [
        ("SCHEDULE_TOPIC_XXXX", {"TAGS": "a", "DELAY": "1"}, 1100),
        ("SCHEDULE_TOPIC_XXXX", {"TAGS": "a", "DELAY": "0"}, 97),
        ("SCHEDULE_TOPIC_XXXX", {"TAGS": "a"}, 97),
        ("T", {"TAGS": "a", "DELAY": "1"}, 97),
        ("T", {}, 0),
    ],
)
def test_queue_tags_code(topic: str, properties: dict[str, str], wanted: int) -> None:
    assert queue_tags_code(topic, properties, 100) == wanted
