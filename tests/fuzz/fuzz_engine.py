"""A small coverage-guided fuzzer for what reads bytes: mutate, run, keep what reaches new things.

A target is a function of bytes that returns or raises one of its documented errors. New is: an arc
between two lines of the target's own files (seen with `sys.settrace`), how often an arc was taken
by powers of two, and the text of an error without its numbers (the only view into decoders written
in C). Time is bounded by counting lines, not seconds, so that a finding depends on nothing but the
seed: an input may run `LINES_FIRST` lines, and `lines_per_byte` more for each of its bytes.

Why not atheris: its wheel (3.0.0) installs and is kept by Google, but it brings 35 MB of libFuzzer
for x86-64, runs until its process ends, and repeats nothing from a seed inside a test suite. The
targets are plain functions of bytes, so whoever has it can pass them to `atheris.Setup`.
"""

from __future__ import annotations

import random
import re
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, TypeAlias

import attrs

LINES_FIRST = 20_000
MEMORY_FIRST_BYTES = 4 << 20
MUTATIONS_MAX = 6
INTERESTING = (0, 1, 2, 4, 8, 20, 91, 127, 128, 255, 256, 4095, 4096, 32767, 32768, 65535)
INTERESTING_WIDE = (2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)

Arc: TypeAlias = tuple[CodeType, int, int]
Feature: TypeAlias = tuple[Any, ...]
Repair: TypeAlias = Callable[[bytearray], None]


class TooMuchWork(BaseException):
    """An input ran more lines than its size allows. No target may catch it."""


@attrs.frozen(kw_only=True)
class Target:
    """One reader of bytes.

    Attributes:
        name: of the target, unique.
        run: reads the bytes; raises `AssertionError` where two readings disagree.
        seeds: correct samples to begin with.
        files: source files whose lines count, absolute.
        raises: the errors that a reader may answer bad bytes with.
        repair: makes checksums right after a mutation, so that what lies behind them is reached.
        tokens: pieces worth inserting.
        size_max: longest input.
        lines_per_byte: see the module's text.
    """

    name: str
    run: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    files: frozenset[str]
    raises: tuple[type[Exception], ...] = ()
    repair: Repair | None = None
    tokens: tuple[bytes, ...] = ()
    size_max: int = 4096
    lines_per_byte: int = 100


@attrs.frozen(kw_only=True)
class Finding:
    """An input that broke a target's promise.

    Attributes:
        error: what was raised instead.
    """

    target: str
    data: bytes
    error: BaseException


@attrs.define
class Watch:
    """Traces the lines of some files while it is entered."""

    _files: frozenset[str]
    _lines_max: int
    arcs: dict[Arc, int] = attrs.field(factory=dict)
    lines: int = 0
    _before: Any = None

    def __enter__(self) -> Watch:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        if code.co_filename not in self._files:
            return None
        arcs, previous = self.arcs, -1

        def local(frame: FrameType, event: str, _: object) -> Any:
            nonlocal previous
            line = frame.f_lineno if event == "line" else -2
            if event == "line":
                self.lines += 1
                if self.lines > self._lines_max:
                    raise TooMuchWork(f"{self.lines} lines")
            elif event != "return":
                return local
            arc = (code, previous, line)
            arcs[arc] = arcs.get(arc, 0) + 1
            previous = line
            return local

        return local

    def features(self) -> Iterator[Feature]:
        for arc, count in self.arcs.items():
            yield (*arc, count.bit_length())


@attrs.define
class Fuzzer:
    """One target and what was learnt about it.

    Attributes:
        corpus: inputs that reached something new, the seeds first.
        executions: how many inputs were run.
        finding: the first broken promise, which ends it.
    """

    target: Target
    _rng: random.Random
    corpus: list[bytes] = attrs.field(factory=list)
    executions: int = 0
    finding: Finding | None = None
    _seen: set[Feature] = attrs.field(factory=set)

    @classmethod
    def of(cls, target: Target, seed: int) -> Fuzzer:
        return cls(target, random.Random(f"{seed}:{target.name}"))

    @property
    def arcs_count(self) -> int:
        return len({feature[:3] for feature in self._seen if len(feature) == 4})

    def start(self) -> None:
        """Run the seeds, the empty input too."""
        for data in (*self.target.seeds, b""):
            self._try(data)

    def step(self) -> None:
        """Run one mutated input."""
        self._try(self._mutated())

    def run(self, executions: int) -> Finding | None:
        """Seeds, then so many mutated inputs; ends at the first finding."""
        self.start()
        while self.finding is None and self.executions < executions:
            self.step()
        return self.finding

    def check_memory(self, bytes_per_byte: int = 64) -> None:
        """Run the corpus again and measure. Raises: AssertionError: one takes too much memory."""
        for data in self.corpus:
            tracemalloc.start()
            try:
                _run(self.target, data)
                peak_bytes = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            allowed_bytes = MEMORY_FIRST_BYTES + bytes_per_byte * len(data)
            assert peak_bytes <= allowed_bytes, (self.target.name, peak_bytes, data)

    def _try(self, data: bytes) -> None:
        if self.finding is not None:
            return
        self.executions += 1
        watch = Watch(self.target.files, LINES_FIRST + self.target.lines_per_byte * len(data))
        try:
            with watch:
                outcome = _run(self.target, data)
        except (Exception, TooMuchWork) as error:  # noqa: BLE001 - that is what is looked for
            self.finding = Finding(target=self.target.name, data=data, error=error)
            return
        found = {*watch.features(), ("outcome", outcome)}
        if not found <= self._seen:
            self._seen |= found
            self.corpus.append(data)

    def _mutated(self) -> bytes:
        rng = self._rng
        data = bytearray(rng.choice(self.corpus))
        for _ in range(rng.randint(1, MUTATIONS_MAX)):
            rng.choice(_MUTATIONS)(self, data)
        del data[self.target.size_max :]
        if self.target.repair is not None and rng.random() < 0.8:
            self.target.repair(data)
        return bytes(data)

    # ---- mutations: each changes `data` in place ----

    def _flip(self, data: bytearray) -> None:
        if data:
            data[self._rng.randrange(len(data))] ^= 1 << self._rng.randrange(8)

    def _byte(self, data: bytearray) -> None:
        if data:
            data[self._rng.randrange(len(data))] = self._rng.randrange(256)

    def _number(self, data: bytearray) -> None:
        width = self._rng.choice((1, 2, 4, 8))
        if len(data) < width:
            return
        at = self._rng.randrange(len(data) - width + 1)
        now = int.from_bytes(data[at : at + width])
        value = self._rng.choice((*INTERESTING, *INTERESTING_WIDE, len(data), now + 1, now - 1))
        value *= self._rng.choice((1, 1, 1, -1))
        data[at : at + width] = (value % (1 << 8 * width)).to_bytes(width)

    def _digits(self, data: bytearray) -> None:
        """A decimal number in a text becomes another one."""
        found = list(re.finditer(rb"-?\d+", data))
        if found:
            match = self._rng.choice(found)
            value = self._rng.choice((*INTERESTING, *INTERESTING_WIDE, 10**30))
            words = (b"%d" % value, b"-%d" % value, b"1e999", b"%d.5" % value, b"null", b"true")
            data[match.start() : match.end()] = self._rng.choice(words)

    def _cut(self, data: bytearray) -> None:
        del data[self._rng.randint(0, len(data)) :]

    def _remove(self, data: bytearray) -> None:
        at = self._rng.randint(0, len(data))
        del data[at : at + self._rng.randint(1, 32)]

    def _insert(self, data: bytearray) -> None:
        at = self._rng.randint(0, len(data))
        data[at:at] = self._rng.randbytes(self._rng.randint(1, 16))

    def _repeat(self, data: bytearray) -> None:
        at = self._rng.randint(0, len(data))
        piece = data[at : at + self._rng.randint(1, 64)]
        data[at:at] = piece * self._rng.choice((1, 1, 2, 8, 32))

    def _token(self, data: bytearray) -> None:
        if self.target.tokens:
            at = self._rng.randint(0, len(data))
            token = self._rng.choice(self.target.tokens)
            data[at : at + self._rng.choice((0, len(token)))] = token

    def _splice(self, data: bytearray) -> None:
        other = self._rng.choice(self.corpus)
        at, other_at = self._rng.randint(0, len(data)), self._rng.randint(0, len(other))
        data[at:] = other[other_at:]


_MUTATIONS = (
    Fuzzer._flip,
    Fuzzer._byte,
    Fuzzer._number,
    Fuzzer._number,
    Fuzzer._digits,
    Fuzzer._cut,
    Fuzzer._remove,
    Fuzzer._insert,
    Fuzzer._repeat,
    Fuzzer._token,
    Fuzzer._splice,
)


_WORDLESS = re.compile(r"['\"].*|[^a-z ]+", re.DOTALL)
"""What an error's text says of the input itself: numbers, hex, all that is quoted."""


def _run(target: Target, data: bytes) -> str:
    """What came of it, without numbers. Raises whatever is no documented error."""
    try:
        result = target.run(data)
    except target.raises as error:
        words = _WORDLESS.sub("#", str(error))[:60]
        return f"{type(error).__name__}: {words}"
    return type(result).__name__
