"""One PySyncObj member: `rival_pysyncobj.py OWN JOURNAL batch|at-once|tuned ADDRESS...`.

Its settings as they are, but for log compaction, which never begins here: the other groups that are
measured do not compact either. `batch` is its default: entries leave every 100 ms at the latest, or
with an answer; `at-once` sends each as it comes (appendEntriesUseBatch=False). `tuned` sends what
came every few milliseconds, in large messages, and has no journal: all is in memory.

The journal is a mapped file that PySyncObj 0.3.17 never flushes while it runs (journal.py,
syncobj.py): a member vouches for what is in its page cache.

Commands are those of `rivals/kit/kit.go`: a line of JSON on standard input, one on standard output.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import attrs
from bench_kit import percentiles_ms
from bench_load import WARM_UP_S

ENTRIES_MAX = 1 << 40
SECONDS_MAX = 10**9
END_TIMEOUT_S = 30.0
SETTINGS: dict[str, dict[str, Any]] = {
    "batch": {},
    "at-once": {"appendEntriesUseBatch": False},
    "tuned": {
        "autoTickPeriod": 0.002,
        "appendEntriesPeriod": 0.002,
        "appendEntriesBatchSizeBytes": 1 << 20,
        "sendBufferSize": 1 << 20,
        "recvBufferSize": 1 << 20,
        "connectionTimeout": 3600.0,  # it stands still while others have their turns
    },
}
"""How it is set up beside its defaults."""
Answered = Callable[[bool], None]


@attrs.define
class Window:
    """Keeps so many appends outstanding: each answer, good or bad, sends the next one.

    Attributes:
        submit: sends one append; later, from one thread, whichever that is, what it was given is
            called with whether the append was stored.
    """

    submit: Callable[[Answered], None]
    count: int
    seconds: float
    clock: Callable[[], float] = time.perf_counter
    latencies_s: list[float] = attrs.field(factory=list, init=False)
    refused: int = attrs.field(default=0, init=False)
    _outstanding: int = attrs.field(default=0, init=False)
    _from_s: float = attrs.field(default=0.0, init=False)
    _done: threading.Event = attrs.field(factory=threading.Event, init=False)

    def begin(self) -> None:
        self._from_s = self.clock() + WARM_UP_S
        self._outstanding = self.count
        for _ in range(self.count):
            self._send()

    def end(self, timeout_s: float) -> dict[str, float]:
        """Its figures. Raises: TimeoutError: some were never answered."""
        if not self._done.wait(timeout_s):
            raise TimeoutError(f"{self._outstanding} of {self.count} appends have no answer")
        found = {"k_per_s": len(self.latencies_s) / self.seconds / 1e3, "refused": self.refused}
        return found | percentiles_ms(self.latencies_s)

    def run(self) -> dict[str, float]:
        self.begin()
        return self.end(WARM_UP_S + self.seconds + END_TIMEOUT_S)

    def _send(self) -> None:
        began_s = self.clock()
        self.submit(lambda stored: self._answered(began_s, stored))

    def _answered(self, began_s: float, stored: bool) -> None:
        now_s, until_s = self.clock(), self._from_s + self.seconds
        if not stored:
            self.refused += 1
        elif self._from_s <= now_s < until_s:
            self.latencies_s.append(now_s - began_s)
        if now_s < until_s:
            self._send()
            return
        self._outstanding -= 1
        if not self._outstanding:
            self._done.set()


def opened(own: str, journal: str, how: str, addresses: list[str]) -> Any:
    """The member, which runs in a thread of its own."""
    import pysyncobj  # it is optional

    class Ledger(pysyncobj.SyncObj):  # type: ignore[misc]
        """Applies an entry by counting it."""

        entries = 0

        @pysyncobj.replicated  # type: ignore[untyped-decorator]
        def store(self, _body: bytes) -> None:
            self.entries += 1

    settings = pysyncobj.SyncObjConf(
        bindAddress=own,  # by default its port is taken on all of the machine's addresses
        journalFile=None if how == "tuned" else journal,
        logCompactionMinEntries=ENTRIES_MAX,
        logCompactionMinTime=SECONDS_MAX,
        **SETTINGS[how],
    )
    return Ledger(own, [each for each in addresses if each != own], settings)


def submitter(ledger: Any, size: int) -> Callable[[Answered], None]:
    body = b"x" * size

    def submit(answered: Answered) -> None:
        ledger.store(body, callback=lambda _result, error: answered(error == 0))

    return submit


def obey(ledger: Any, command: dict[str, Any]) -> Any:
    match command.pop("do"):
        case "status":
            return {"leads": ledger._isLeader(), "end": ledger.raftLastApplied}
        case "append":
            return Window(submitter(ledger, 5), 1, -WARM_UP_S).run()["refused"] == 0
        case "load":
            size = command.pop("size")
            return Window(submitter(ledger, size), **command).run()
        case unknown:
            raise ValueError(f"unknown command {unknown!r}")


def main(own: str, journal: str, how: str, *addresses: str) -> None:
    Path(journal).parent.mkdir(parents=True, exist_ok=True)
    ledger = opened(own, journal, how, list(addresses))
    print("{}", flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(ledger, json.loads(line))), flush=True)
    ledger.destroy()


if __name__ == "__main__":
    main(*sys.argv[1:])
