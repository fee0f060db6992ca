"""Logs warnings about members that refuse each other, one for each change, as `triolog.dledger`.

Numbers are no change: how full a disk is, of which many refusals speak, is another at each look.
"""

from __future__ import annotations

import logging
import re
from typing import Final

import attrs

_LOGGER: Final = logging.getLogger("triolog.dledger")
_NUMBERS: Final = re.compile(r"\b\d[\d.,]*(?:%| (?:[KMGT]iB|bytes)\b)?")


@attrs.define
class RefusalLog:
    """Keeps the last warning about each peer, so that none is repeated.

    Attributes:
        group: the group's name, with which each line begins.
    """

    group: str
    _said: dict[str, str] = attrs.field(factory=dict, init=False)

    def say(self, peer: str, text: str) -> None:
        """Log a warning, unless it is the same as the last one about that peer, but for numbers.

        Args:
            text: the whole sentence; "" if its reason is gone, so that it would be logged again.
        """
        kind = _NUMBERS.sub("#", text)
        if kind == self._said.get(peer, ""):
            return
        self._said[peer] = kind
        if text:
            _LOGGER.warning("%s: %s", self.group, text)

    def forget(self) -> None:
        """Forget the last warnings, so that the next ones are logged."""
        self._said.clear()
