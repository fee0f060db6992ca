"""One run of a comparison: a group under load and faults, then restarted and read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import attrs
import trio
from bench_kit import percentiles_ms
from compare_audit import Audit, audit, read_back
from compare_load import Acked, Load
from compare_script import Hit, Stage, outages, title

READY_S: Final = 60.0
CONTENDERS: Final[dict[str, dict[str, Any]]] = {
    "classic": {"copies": 2},
    "dledger": {},
    "dledger fast": {
        "heartbeat_interval_s": 0.15,
        "vote_interval_min_s": 0.05,
        "vote_interval_max_s": 0.2,
    },
}
"""Settings of groups of three; all synced, the rest by default: a DLedger leader is missed after
three heartbeats of 2 s, with fast timers after 0.45 s."""


def elects(contender: str) -> bool:
    """Whether it is a DLedger group."""
    return contender != "classic"


@attrs.frozen(kw_only=True)
class Run:
    """What one run has shown.

    Attributes:
        calm: the latencies in seconds of appends before the first fault.
        calm_s: how long that was.
        hits: faults in their order.
        outages: of each, in seconds; None: nothing was acknowledged any more.
        again_bytes: of log, that members were sent again.
        audit: of all records.
    """

    calm: Sequence[float]
    calm_s: float
    hits: Sequence[Hit]
    outages: Sequence[float | None]
    again_bytes: int
    audit: Audit

    def figures(self, *, timed: bool) -> dict[str, float | None]:
        """By row of the table. `timed`: the clock was a real one."""
        found: dict[str, float | None] = {}
        if timed:
            latencies = percentiles_ms(self.calm)
            found["appends/s"] = len(self.calm) / self.calm_s
            found["append p50 ms"] = latencies["p50_ms"]
            found["append p99 ms"] = latencies["p99_ms"]
        times: Counter[str] = Counter()
        for hit, outage in zip(self.hits, self.outages, strict=True):
            row = f"outage ms: {title(hit.fault)}"
            times[row] += 1
            row += f" ({times[row]})" if times[row] > 1 else ""
            found[row] = None if outage is None else outage * 1e3
        return {**found, **self.counts()}

    def counts(self) -> dict[str, float | None]:
        """What is counted, by row."""
        return {
            "log sent again KB": self.again_bytes / 1e3,
            "acknowledged": self.audit.acknowledged,
            "acknowledged lost": self.audit.lost,
            "acknowledged reordered": self.audit.reordered,
            "strange or twice": self.audit.strange,
            "outcome unknown": self.audit.unknown,
        }


async def run_on(
    stage: Stage, load: Load, faults: Callable[[Stage, Load], Awaitable[list[Hit]]]
) -> Run:
    """Load a started group, do to it what `faults` does, kill and start all, and read the logs.

    Raises: NotEven, NotRejoined, NotReady.
    """
    async with trio.open_nursery() as operator:
        operator.start_soon(stage.tend)
        async with trio.open_nursery() as clients:
            await clients.start(load.run)
            await load.wait_acknowledged(0.0, READY_S)
            if not load.acked:
                raise NotReady(f"nothing was acknowledged within {READY_S:g} s")
            began_s = trio.current_time()
            hits = await faults(stage, load)
            load.stop()
        again_bytes = stage.again_bytes()
        await stage.restart_all()
        logs = await read_back(stage)
        operator.cancel_scope.cancel()
    first_s = min((hit.at_s for hit in hits), default=trio.current_time())
    return Run(
        calm=[each.ended_s - each.first_s for each in between(load.acked, began_s, first_s)],
        calm_s=first_s - began_s,
        hits=hits,
        outages=outages(load.acked, hits),
        again_bytes=again_bytes,
        audit=audit(load.acked, load.unknown, logs),
    )


class NotReady(Exception):
    """A group took no appends at all."""


def between(acked: Sequence[Acked], begin_s: float, end_s: float) -> list[Acked]:
    """What was answered in that time."""
    return [each for each in acked if begin_s <= each.ended_s < end_s]
