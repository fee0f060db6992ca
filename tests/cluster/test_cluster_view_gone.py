"""Who is shown to lead after a node that led has gone."""

from __future__ import annotations

import attrs
from cluster_samples import cluster, node
from cluster_samples import master as master_group
from ledger_samples import follower, leader, member, members

from actors.cluster.terminal import plain_lines


def test_who_is_gone_leads_until_another_knows_of_a_later_term() -> None:
    gone, follows = member("n0", leader(term=3), "away"), member("n1", follower(term=3))
    assert members(gone, follows).leader_of("ledger") is not None
    campaigns = member("n2", follower(role="candidate", leader="", term=4))
    view = members(gone, follows, campaigns)
    assert view.leader_of("ledger") is None
    assert view.leader_in("ledger") == ("n0", 3, True)  # one that answers still says so
    view = members(gone, campaigns)
    assert (view.leader_of("ledger"), view.named_leader_of("ledger")) == (None, None)
    assert "no leader answers;" in plain_lines(view, {})[0]


def test_a_master_that_is_gone_stays_until_another_was_promoted() -> None:
    gone = attrs.evolve(node("n0", master_group()), state="away")
    assert cluster(nodes=(gone,)).leader_of("orders") is not None
    other = node("n1", master_group(role="slave", promotion=1))
    assert cluster(nodes=(gone, other)).leader_of("orders") is None
