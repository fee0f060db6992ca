"""A state machine of the simulation: registers with compare-and-set, and counters, for the judge.

A command is an entry's body: `NAME;KEY WORD NUMBERS;` and padding of any bytes. NAME makes bodies
unique, KEY is one of REGISTERS or COUNTERS, WORD and NUMBERS are `write 5`, `cas 4 5` (4 may be
`none`), `add 5` or `read`. Every other body is no command, and changes only what the state says of
the log: how many entries with bodies there were, which one was the last, and a hash of all.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

import attrs

from actors.sim.judges.linear.registers import Add, CompareAndSet, Read, Write
from actors.state_machine import LogEntry

REGISTERS: Final = ("r0", "r1", "r2", "r3", "r4", "r5")
COUNTERS: Final = ("c0", "c1")
NONE: Final = "none"
SPLIT_BYTES: Final = 64 << 10
"""The size of the pieces in which a lazy `save` gives its filler."""
LOAD_STEPS: Final = 8
"""How many turns other tasks get while a snapshot is loaded, besides those between its chunks."""

Action: TypeAlias = Write | Read | CompareAndSet | Add
Did: TypeAlias = Literal["made", "loads", "loaded", "applied"]


@attrs.frozen(kw_only=True)
class MachineOptions:
    """Which kind of machine the members of a run have.

    Attributes:
        filler_bytes: how many bytes a snapshot has after the state, which set its size.
        lazy: whether `save` is a generator that reads the state step by step.
    """

    filler_bytes: int = 0
    lazy: bool = False


# ---- commands ----


def encode_command(name: str, key: str, action: Action, padding: bytes = b"") -> bytes:
    """Return the body of an entry with this command."""
    match action:
        case Write(value=value):
            words = f"write {value}"
        case CompareAndSet(expected=expected, value=value):
            words = f"cas {NONE if expected is None else expected} {value}"
        case Add(amount=amount):
            words = f"add {amount}"
        case Read():
            words = "read"
    return f"{name};{key} {words};".encode() + padding


def decode_command(body: bytes) -> tuple[str, Action] | None:
    """Return a command's key and action; None if the body is no command."""
    parts = body.split(b";", 2)
    if len(parts) < 3:
        return None
    match parts[1].decode("ascii", "replace").split():
        case [key, "write", value] if key in REGISTERS:
            return key, Write(int(value))
        case [key, "cas", expected, value] if key in REGISTERS:
            return key, CompareAndSet(None if expected == NONE else int(expected), int(value))
        case [key, "add", amount] if key in COUNTERS:
            return key, Add(int(amount))
        case [key, "read"] if key in (*REGISTERS, *COUNTERS):
            return key, Read()
    return None


def draw_action(rng: random.Random, value: int, seen: dict[str, Hashable]) -> tuple[str, Action]:
    """Draw what a client asks for next.

    Args:
        value: a value that no client has written.
        seen: what clients saw last, by key: a compare-and-set may find it.
    """
    if rng.random() < 0.2:
        key = rng.choice(COUNTERS)
        asked: tuple[Action, ...] = (Add(1), Add(1), Read())
        return key, rng.choice(asked)
    key = rng.choice(REGISTERS)
    kind = rng.random()
    if kind < 0.35:
        return key, Write(value)
    if kind < 0.65:
        return key, CompareAndSet(seen.get(key), value)
    return key, Read()


# ---- the state ----


@attrs.define
class State:
    """The state that all entries up to one have made.

    Attributes:
        values: the values of keys that were ever changed.
        count: how many entries had a body.
        last: the index of the last of these; -1 if there was none.
        chain: the hash of all of these, in order, in hexadecimal digits.
    """

    values: dict[str, int] = attrs.field(factory=dict)
    count: int = 0
    last: int = -1
    chain: str = "0" * 16

    def apply(self, index: int, term: int, body: bytes) -> Hashable:
        """Apply an entry, and return its result."""
        head = f"{self.chain} {index} {term} ".encode()
        self.chain = hashlib.blake2b(head + body, digest_size=8).hexdigest()
        self.count += 1
        self.last = index
        found = decode_command(body)
        if found is None:
            return None
        key, action = found
        match action:
            case Read():
                return self.read(key)
            case Write(value=value):
                self.values[key] = int(str(value))
                return "written"
            case CompareAndSet(expected=expected, value=value):
                if self.read(key) != expected:
                    return False
                self.values[key] = int(str(value))
                return True
            case Add(amount=amount):
                self.values[key] = self.values.get(key, 0) + amount
                return "added"

    def read(self, key: str) -> int | None:
        """Return the value of a register, None at first, or the sum of a counter."""
        return self.values.get(key, 0 if key in COUNTERS else None)

    def encode(self) -> bytes:
        """Return the state as one line; equal states give equal lines."""
        return json.dumps(attrs.asdict(self), sort_keys=True).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> State:
        """Return the state in a snapshot's bytes. Raises: ValueError: they hold none."""
        return cls(**json.loads(data.partition(b"\n")[0]))


def filler(state: State, size_bytes: int) -> bytes:
    """Return the bytes that follow the state in a snapshot; they differ for every state."""
    return (state.chain.encode() * (size_bytes // len(state.chain) + 1))[:size_bytes]


def snapshot_bytes(state: State, options: MachineOptions) -> bytes:
    """Return all bytes of a snapshot of that state."""
    return state.encode() + filler(state, options.filler_bytes)


# ---- the machine ----


@attrs.define(eq=False)
class SimRegisters:
    """A member's state machine; implements `StateMachine`.

    Attributes:
        did: called with what it did, the indexes that it was given, and itself.
        loading: whether it is between two steps of a load.
    """

    options: MachineOptions
    did: Callable[[Did, tuple[int, ...], SimRegisters], None]
    state: State = attrs.field(factory=State)
    loading: bool = False

    def __attrs_post_init__(self) -> None:
        self.did("made", (), self)

    def apply(self, entries: Sequence[LogEntry]) -> Sequence[object]:
        results = [self.state.apply(one.index, one.term, one.body) for one in entries]
        self.did("applied", tuple(one.index for one in entries), self)
        return results

    def save(self) -> Iterable[bytes]:
        if self.options.lazy:
            return self._pieces()
        return [snapshot_bytes(self.state, self.options)]

    def _pieces(self) -> Iterator[bytes]:
        """Yield pieces of the state as it is at each step; the state may not change meanwhile."""
        yield self.state.encode()
        size = self.options.filler_bytes
        for at in range(0, size, SPLIT_BYTES):  # a multiple of the chain's length
            yield filler(self.state, min(SPLIT_BYTES, size - at))

    def load(self, chunks: Iterator[bytes]) -> Generator[None, None, None]:
        self.loading = True
        try:
            self.did("loads", (), self)
            data = b""
            for chunk in chunks:
                data += chunk
                yield
            for _ in range(LOAD_STEPS):
                yield
            state = State.decode(data)
            if data != snapshot_bytes(state, self.options):
                raise ValueError("the snapshot's bytes are not those that `save` gave")
            self.state = state
        finally:
            self.loading = False
        self.did("loaded", (), self)

    def leader_started(self, term: int) -> None: ...

    def leader_stopped(self, term: int) -> None: ...
