"""Two rules: no node begins anew, without what it was and knew; and no copy of a log is damaged.

Who empties a node's directory knows, who puts an old copy in its place may not. A node that begins
anew has forgotten whom it voted for and what it vouched for. Told once for each of its groups; from
there on the other rules take it for a new node. Damage is told once for each range and life.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.pipeline.alarms.facts import Fact
from actors.pipeline.alarms.findings import Finding


def begun_anew(fact: Fact) -> Iterator[Finding]:
    """A fact, of any node."""
    if fact.what == "anew":
        yield Finding(
            alarm="begun_anew",
            group=fact.group,
            subject=fact.node,
            node=fact.node,
            boot=fact.boot,
            seq=fact.seq,
            at_us=fact.ts_us,
            value=fact.boot,
            unit="boot",
        )


def rotten(fact: Fact) -> Iterator[Finding]:
    """A fact, of any node."""
    if fact.what == "rotten":
        yield Finding(
            alarm="rotten",
            group=fact.group,
            subject=fact.who,
            node=fact.node,
            boot=fact.boot,
            seq=fact.seq,
            at_us=fact.ts_us,
            value=fact.number,
            unit="bytes",
        )
