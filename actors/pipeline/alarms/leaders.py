"""The rule: a term has one leader, a promotion or epoch one master. It needs no order and no clock.

What a node led is forgotten once it begins anew. Where all nodes of a group begin anew, their terms
do as well: a node that leads before the others are read may be reported beside the leader of an
earlier boot. That finding stands beside those that the nodes begin anew.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from actors.pipeline.alarms.facts import Fact
from actors.pipeline.alarms.findings import Finding, by_fact

TERMS_MAX = 1000
"""How many terms are remembered, the highest ones; lower ones come from logs of days ago."""
UNITS = {"leads": "term", "masters": "promotion", "elected": "epoch"}


@attrs.define
class Leaders:
    """The leaders of one group over time.

    Attributes:
        known: nodes by what of UNITS and number, in the order in which they were read.
    """

    known: dict[str, dict[int, list[str]]] = attrs.field(factory=dict)

    def take(self, fact: Fact) -> Iterator[Finding]:
        """Take a fact of any node, in any order. A node that leads again is no second leader."""
        if fact.what == "anew":
            self._forget(fact.node)
        if fact.what not in UNITS:
            return
        terms = self.known.setdefault(fact.what, {})
        nodes = terms.setdefault(fact.number, [])
        if fact.node in nodes:
            return
        if nodes:
            yield by_fact(fact, "two_leaders", nodes[0], fact.number, UNITS[fact.what])
        nodes.append(fact.node)
        if len(terms) > TERMS_MAX:
            del terms[min(terms)]

    def _forget(self, node: str) -> None:
        for what, terms in self.known.items():
            others = {
                number: [each for each in nodes if each != node] for number, nodes in terms.items()
            }
            self.known[what] = {number: nodes for number, nodes in others.items() if nodes}
