"""The fuzzer itself finds what is planted, stops what runs too long, and repeats itself."""

from __future__ import annotations

import pytest
from fuzz_engine import Finding, Fuzzer, Target, TooMuchWork


def planted(data: bytes) -> object:
    """A decoder with a mistake behind a magic, a length and a flag, one after the other."""
    if data[:2] != b"MG":
        raise ValueError("no magic")
    size = int.from_bytes(data[2:4])
    if size != len(data) - 4:
        raise ValueError(f"size {size} of {len(data)}")
    if size < 3:
        raise ValueError("too small")
    if data[4] & 0x80:
        return [0][size]  # the mistake
    return None


def spinning(data: bytes) -> object:
    count = int.from_bytes(data[:4])
    while count:
        count -= 1
    return None


def hoarding(data: bytes) -> object:
    return bytes(int.from_bytes(data[:1]) << 20)


def target(run: object, *seeds: bytes) -> Target:
    return Target(name="t", run=run, seeds=seeds, files=frozenset({__file__}), raises=(ValueError,))  # type: ignore[arg-type]


def found(seed: int) -> Finding | None:
    return Fuzzer.of(target(planted, b"MG\0\1a"), seed).run(100_000)


@pytest.mark.parametrize("seed", range(3))
def test_a_mistake_behind_three_checks_is_found(seed: int) -> None:
    finding = found(seed)
    assert finding is not None
    assert isinstance(finding.error, IndexError)
    with pytest.raises(IndexError):
        planted(finding.data)


def test_the_same_seed_finds_the_same() -> None:
    first, again, other = found(1), found(1), found(2)
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.data == again.data != other.data


def test_what_runs_too_long_is_a_finding() -> None:
    finding = Fuzzer.of(target(spinning, b"\0\0\0\5"), 0).run(1000)
    assert finding is not None
    assert isinstance(finding.error, TooMuchWork)


def test_what_takes_too_much_memory_is_reported() -> None:
    fuzzer = Fuzzer.of(target(hoarding, b"\5"), 0)
    fuzzer.start()
    with pytest.raises(AssertionError):
        fuzzer.check_memory()


def test_documented_errors_are_no_findings() -> None:
    fuzzer = Fuzzer.of(target(planted, b"MG\0\1a"), 0)
    fuzzer.start()
    assert fuzzer.finding is None
    assert fuzzer.corpus == [b"MG\0\1a", b""]  # each said something new
