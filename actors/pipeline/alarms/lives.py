"""The rule: no node begins anew, without what it was and knew.

Who empties a node's directory knows, who puts an old copy in its place may not. A node that begins
anew has forgotten whom it voted for and what it vouched for. Told once for each of its groups; from
there on the other rules take it for a new node.
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
