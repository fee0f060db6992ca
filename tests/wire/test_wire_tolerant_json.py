"""The exact and the tolerant reading of JSON objects: what is read, noted and refused."""

import enum
import json
import random
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from wire.errors import RemoteProtocolError
from wire.remoting import tolerant_json
from wire.remoting.tolerant_json import Int, Long, TolerantDecoder, always


class Colour(enum.Enum):
    RED = "RED"
    GREEN = "GREEN"


class Inner(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    n: Int


class Sample(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    UNREAD: ClassVar[frozenset[str]] = frozenset({"made"})
    colour: Colour | None = None
    data: bytes | None = None
    inner: Inner | None = None
    inners: tuple[Inner, ...] = always(())
    long: Long = always(-1)
    made: Int = always(0)
    text: str | None = None
    texts: tuple[str, ...] | None = None


_decode = TolerantDecoder(Sample).decode


@pytest.mark.parametrize(
    "body",
    ['{"colour":"GREEN","long":5}', '{"later":{"a":[1]},"long":5}', '{"made":"x","long":5}', "{}"],
)
def test_what_any_reader_may_leave_out_or_add_is_not_counted_as_loose(body: str) -> None:
    found, loose = _decode(body.encode())
    assert not loose
    assert found.long == json.loads(body).get("long", -1)
    assert found.made == 0


@pytest.mark.parametrize(
    "body",
    ['{"LONG":5}', '{"long":"5"}', '{"long":5.0}', '{"colour":"green","long":5}',
     '{"inners":[{"n":1},{"N":1}],"long":5}', '{"inner":{"n":"1"},"long":5}',
     '{"inner":null,"LONG":5}', '{"colour":1,"long":5}', '{"colour":"LATER","long":5}',
     '{"colour":1,"later":0,"long":"5"}'],
)  # fmt: skip
def test_what_needs_tolerance_is_counted(body: str) -> None:
    found, loose = _decode(body.encode())
    assert loose
    assert found.long == 5


DEEP = 200_000


@pytest.mark.parametrize(
    "body",
    [
        b'{"later":' + b"[" * DEEP + b"]" * DEEP + b"}",
        b'{"later":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
        b"[" * DEEP,
        b'{"LONG":5,"inner":' + b"[" * DEEP + b"]" * DEEP + b"}",
    ],
    ids=["unknown lists", "unknown objects", "at the top", "behind a careless key"],
)
def test_deep_nesting_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="Sample: "):
        _decode(body)


@pytest.mark.parametrize(
    "body",
    [b"", b" ", b"null", b"[]", b'"x"', b"5", b"{", b'{"a"}', b"{'long':1}", b"{long:1}",
     b'{"long":1,}', b'{"long":1}{"long":1}', b"\xef\xbb\xbf{}", b'{"text":"\xff"}',
     b'{"\xff":1}', b'{"text":"\\ud800"}', b'{"long":NaN}', b'{"long":1e999}',
     b'{"TEXT":"\xff"}'],
)  # fmt: skip
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="Sample: "):
        _decode(body)


def test_only_a_limited_number_of_values_is_read_slowly() -> None:
    """A value of two bytes may cost hundreds there."""
    fitting = b'{"LONG":5,"texts":["",' + b'"",' * (tolerant_json.TOLERANT_COMMAS_MAX - 2) + b'""]}'
    assert _decode(fitting)[0].long == 5
    more = fitting.replace(b"[", b'["",')
    with pytest.raises(RemoteProtocolError, match="Sample with 100001 commas not as"):
        _decode(more)
    assert _decode(more.replace(b"LONG", b"long"))[0].long == 5
    long_text = b'{"LONG":5,"data":"%s"}' % (b"AAAA" * 2_000_000)
    assert _decode(long_text)[0].data == bytes(6_000_000)


samples = st.builds(
    Sample,
    colour=st.none() | st.sampled_from(Colour),
    data=st.none() | st.binary(max_size=20),
    inner=st.none() | st.builds(Inner, n=st.integers(-(2**31), 2**31 - 1)),
    inners=st.lists(st.builds(Inner, n=st.integers(-(2**31), 2**31 - 1)), max_size=3).map(tuple),
    long=st.integers(-(2**63), 2**63 - 1),
    text=st.none() | st.text(max_size=5),
    texts=st.none() | st.lists(st.text(max_size=5), max_size=2).map(tuple),
)


def _careless(value: Any, rng: random.Random) -> Any:
    """The same in other words: quoted numbers, keys in another case, unknown keys."""
    if isinstance(value, dict):
        changed = {
            rng.choice([key, key.upper(), f"_{key}"]): _careless(each, rng)
            for key, each in value.items()
        }
        return {"unknown": [{}], **changed} if rng.random() < 0.5 else changed
    if isinstance(value, list):
        return [_careless(each, rng) for each in value]
    if isinstance(value, int):
        return rng.choice([value, str(value)])
    return value


@given(samples, st.randoms(use_true_random=False))
def test_any_careless_writing_reads_as_the_careful_one(sample: Sample, rng: random.Random) -> None:
    careful = msgspec.json.encode(sample)
    assert _decode(careful) == (sample, False)
    careless = _careless(json.loads(careful), rng)
    assert _decode(json.dumps(careless).encode())[0] == sample


def test_defaults_that_java_writes_are_written_and_nulls_are_not() -> None:
    assert msgspec.json.encode(Sample()) == b'{"inners":[],"long":-1,"made":0}'
    assert _decode(b'{"made":"no number","long":"7"}') == (Sample(long=7), True)


@pytest.mark.parametrize("value", ["2", "-1", "true", "1.5", "[]", "{}", "9" * 4000, "9" * 9999])
def test_an_enum_is_a_name_or_an_ordinal(value: str) -> None:
    with pytest.raises(RemoteProtocolError, match="Sample: "):
        _decode(b'{"colour":%s}' % value.encode())


@pytest.mark.parametrize(
    "body",
    [
        b'{"%s":1,"long":null}',
        b'{"inner":{"%s":1}}',
        b'{"colour":"%s","long":[]}',
        b'{"data":"%s"}',
    ],
)
def test_an_error_is_one_short_line_whatever_the_peer_wrote(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        _decode(body % (b"\\n" * 5000))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200
