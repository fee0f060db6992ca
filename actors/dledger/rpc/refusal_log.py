"""Warnings about members that refuse each other, one for each change: the log `triolog.dledger`."""

from __future__ import annotations

import logging
from typing import Final

import attrs

_LOGGER: Final = logging.getLogger("triolog.dledger")


@attrs.define
class RefusalLog:
    """What was said last of each peer.

    Attributes:
        group: its name begins each line.
    """

    group: str
    _said: dict[str, str] = attrs.field(factory=dict, init=False)

    def say(self, peer: str, words: str) -> None:
        """Warn, unless the same was said of that peer last.

        Args:
            words: the whole sentence; "": it is over, and the same words would be news again.
        """
        if words == self._said.get(peer, ""):
            return
        self._said[peer] = words
        if words:
            _LOGGER.warning("%s: %s", self.group, words)

    def forget(self) -> None:
        """What is said next is news."""
        self._said.clear()
