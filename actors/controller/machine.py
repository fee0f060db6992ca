"""The controllers' state machine: a DLedger group's entries are events about broker sets.

Source: apache/rocketmq, controller/.../impl/statemachine/DLedgerControllerStateMachine.java and
impl/event/EventSerializer.java, 5.3.3; autoswitch-ha.md 7.2.

Differs from upstream:
- It has snapshots: upstream's log grows for ever (autoswitch-ha.md T44).
- An entry that is no event changes nothing, and whoever appended it is told; upstream's log says so
  alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import attrs
import msgspec

from actors.controller.core.broker_sets import BrokerSet, BrokerSets
from actors.controller.core.liveness import Liveness
from actors.errors import StorageError
from actors.state_machine import LogEntry
from wire.broker.controller_events import decode_event
from wire.errors import RemoteProtocolError

FORMAT: Final = b"triolog controller 1\n"
"""The first line of a snapshot. A line of JSON for each broker set follows."""
STEP_SETS: Final = 200
"""Sets between two points at which others may run: a millisecond."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(BrokerSet).decode


@attrs.define
class ControllerMachine:
    """A `StateMachine` of `BrokerSets`.

    Attributes:
        sets: what the applied entries come to; only this object changes them.
        term: the term in which this member leads, and has applied all that came before; None: it
            does not.
        on_lead: called when `term` has changed; must not raise.
    """

    sets: BrokerSets = attrs.field(factory=BrokerSets)
    term: int | None = None
    on_lead: Callable[[], None] = lambda: None

    def apply(self, entries: Sequence[LogEntry]) -> Sequence[object]:
        """Take events. The result of each is None, or what is wrong with it, a
        `RemoteProtocolError`.
        """
        return [self._apply(entry.body) for entry in entries]

    def _apply(self, body: bytes) -> RemoteProtocolError | None:
        try:
            event = decode_event(body)
        except RemoteProtocolError as error:
            return error
        if event is not None:
            self.sets.apply(event)
        return None

    def save(self) -> Iterable[bytes]:
        """The sets as they are now."""
        return (FORMAT, *(_encode(each) + b"\n" for each in self.sets))

    def load(self, chunks: Iterator[bytes]) -> Iterator[None]:
        """Replace the sets.

        Raises:
            StorageError: it is no snapshot of a controller.
        """
        sets, lines = BrokerSets(self.sets.unclean), _lines(chunks)
        head = next(lines, b"")
        if head + b"\n" != FORMAT:
            raise StorageError(f"a controller's snapshot begins with {head[:40]!r}")
        for count, line in enumerate(lines, 1):
            sets.restore(_read(line))
            if count % STEP_SETS == 0:
                yield
        self.sets = sets

    def leader_started(self, term: int) -> None:
        """Note that this member leads."""
        self.term = term
        self.on_lead()

    def leader_stopped(self, term: int) -> None:
        """Note that it does not lead that term any more."""
        if self.term == term:
            self.term = None
            self.on_lead()


@attrs.define
class ControllerView:
    """What the state machine of one member has applied, for the member's controller to read.

    It outlives restarts of both.

    Attributes:
        unclean: of `BrokerSets`, also of those of the next machine.
        notifies: whether replicas are told of an election at once; else they ask for it.
        machine: the newest machine; only the group's state_machine_caller changes its state.
        living: which replicas live, as far as this member hears; only its controller changes it.
        listener: called when the machine's `term` may have changed.
    """

    unclean: bool = False
    notifies: bool = True
    machine: ControllerMachine = attrs.field(factory=ControllerMachine, init=False)
    living: Liveness = attrs.field(factory=Liveness, init=False)
    listener: Callable[[], None] = attrs.field(default=lambda: None, init=False)

    def make(self) -> ControllerMachine:
        """Make the machine of another start of the member."""
        self.machine = ControllerMachine(BrokerSets(self.unclean), on_lead=self._changed)
        self._changed()
        return self.machine

    def _changed(self) -> None:
        self.listener()


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The lines in chunks of any size. Raises: StorageError: the last one has no end."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        raise StorageError("a controller's snapshot ends within a line")


def _read(line: bytes) -> BrokerSet:
    try:
        return _decode(line)
    except msgspec.MsgspecError as error:
        raise StorageError(f"a broker set of a controller's snapshot: {error}") from None
