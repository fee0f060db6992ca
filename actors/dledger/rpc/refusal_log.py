"""Logs warnings about members that refuse each other, one for each change, as `triolog.dledger`."""

from __future__ import annotations

import logging
from typing import Final

import attrs

_LOGGER: Final = logging.getLogger("triolog.dledger")


@attrs.define
class RefusalLog:
    """Keeps the last warning about each peer, so that none is repeated.

    Attributes:
        group: the group's name, with which each line begins.
    """

    group: str
    _said: dict[str, str] = attrs.field(factory=dict, init=False)

    def say(self, peer: str, text: str) -> None:
        """Log a warning, unless it is the same as the last one about that peer.

        Args:
            text: the whole sentence; "" if its reason is gone, so that it would be logged again.
        """
        if text == self._said.get(peer, ""):
            return
        self._said[peer] = text
        if text:
            _LOGGER.warning("%s: %s", self.group, text)

    def forget(self) -> None:
        """Forget the last warnings, so that the next ones are logged."""
        self._said.clear()
