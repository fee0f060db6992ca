"""The clients of the mixed groups notice what is wrong with a log. Needs no Java."""

from __future__ import annotations

import random
import threading
import time

import attrs
import pytest
from interop_ledger_clients import Clients
from interop_processes import wait_for

from wire.dledger.codes import ResponseCode
from wire.dledger.entry import Entry
from wire.dledger.rpc import (
    AppendEntryRequest,
    AppendEntryResponse,
    GetEntriesRequest,
    GetEntriesResponse,
    Request,
    Response,
)

pytestmark = pytest.mark.real_io
APPENDS = 40
TURN = 20
WRONG = ["lost", "changed", "stands before what was there", "shown as another"]
WAIT_S = 30.0


@attrs.define
class Members:
    """One log that all of them show, wrong as `wrong` says: at entry TURN, or in every read."""

    wrong: str
    bodies: list[bytes] = attrs.field(factory=list)
    ours: tuple[str, ...] = ("n0",)
    _turned: bool = False
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def ask(self, name: str, request: Request, *, timeout_s: float) -> Response | None:
        with self._lock:
            if isinstance(request, AppendEntryRequest):
                return self._append(name, request.body or b"")
            assert isinstance(request, GetEntriesRequest)
            return self._get(request.begin_index or 0)

    def _append(self, name: str, body: bytes) -> Response | None:
        if name == "n2":
            return AppendEntryResponse(code=ResponseCode.NOT_LEADER, leader_id="n0")
        now = len(self.bodies) == TURN and not self._turned
        self._turned |= now
        index = len(self.bodies)
        if now and self.wrong == "stands before what was there":
            self.bodies.insert(0, body)
            return None
        if not (now and self.wrong == "lost"):
            self.bodies.append(body + b"!" * (now and self.wrong == "changed"))
        return None if now and self.wrong == "unknown" else success(index)

    def _get(self, index: int) -> Response:
        if index >= len(self.bodies):
            return GetEntriesResponse(code=ResponseCode.INDEX_OUT_OF_RANGE)
        body = self.bodies[index] + b"?" * (self.wrong == "shown as another")
        entry = Entry(body=body, index=index, magic=1, pos=0, size=48 + len(body), term=0)
        return GetEntriesResponse(code=ResponseCode.SUCCESS, entries=(entry,))


def success(index: int) -> AppendEntryResponse:
    return AppendEntryResponse(code=ResponseCode.SUCCESS, index=index)


def history_of(members: Members) -> Clients:
    clients = Clients(members)
    clients.start([random.Random(seed).getrandbits(32) for seed in range(3)])
    deadline = time.monotonic() + WAIT_S
    while (
        min(clients.by_leader.total() - APPENDS, clients.reads - 1) < 0
        and time.monotonic() < deadline
    ):
        clients.check()
        time.sleep(0.01)
    clients.stop()
    assert clients.by_leader.total() >= APPENDS
    assert clients.reads > 0
    return clients


@pytest.mark.parametrize("wrong", ["", "unknown"])
def test_a_good_log(wrong: str) -> None:
    members = Members(wrong)
    clients = history_of(members)
    assert clients.judge(members.bodies) == []
    unknown = [each for each in clients.operations if each.returned is None]
    assert len(unknown) == (wrong == "unknown")
    if wrong == "":
        assert clients.acknowledged == dict(enumerate(members.bodies))


@pytest.mark.parametrize("wrong", WRONG)
def test_a_bad_log(wrong: str) -> None:
    members = Members(wrong)
    assert history_of(members).judge(members.bodies)


def test_a_log_that_has_lost_its_end() -> None:
    members = Members("")
    clients = history_of(members)
    assert clients.judge(members.bodies[:-1])


def test_a_client_that_fails_is_reported() -> None:
    class Broken(Members):
        def ask(self, name: str, request: Request, *, timeout_s: float) -> Response | None:
            raise ZeroDivisionError

    clients = Clients(Broken(""))
    clients.start([0])
    with pytest.raises(ZeroDivisionError):
        wait_for(clients.check, "its failure", timeout_s=WAIT_S)
    with pytest.raises(ZeroDivisionError):
        clients.stop()
