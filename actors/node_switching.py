"""Changing who is master at an operator's word: whichever member is asked carries it out.

A base of `Node`.
"""

from __future__ import annotations

from typing import Any

from actors.api.member_requests import Members
from actors.api.promotion import Promotion
from actors.ha.core.promotion import Wish
from actors.node_roles import NodeRoles


class NodeSwitching(NodeRoles):
    """See `actors.api.handle.NodeHandle` for each method."""

    async def promote(self, group: str, node: str | None, force: bool) -> dict[str, Any]:
        """See `NodeHandle.promote`."""
        self._part(group)
        found = self.config.groups[group]
        java = found.java_nodes
        wish = Wish(
            group=group,
            members=tuple(each for each in found.members if each not in java),
            java=java,
            file_master=found.master,
            counting=found.counting_nodes,
            copies=found.sure_copies,
            synced=found.durability == "synced",
            node=node,
            force=force,
        )
        members = Members(own=self, config=self.config, network=self._network, group=group)
        return await Promotion(wish, members, self.config.drain_timeout_s).run()
