"""Who came to a DLedger port lately from an address of no member, and was turned away."""

from __future__ import annotations

from typing import Final

import attrs

LATELY_S: Final = 60.0
"""Who stays away for so long is forgotten: a member tries again each second."""
STRANGERS_MAX: Final = 8
"""That are remembered: whoever can reach the port can come from many addresses."""


@attrs.define
class Strangers:
    """See the module's text. Written by the port's server; others look, as at a `LeaderBoard`."""

    _came_s: dict[str, float] = attrs.field(factory=dict, init=False)  # address -> last

    def came(self, address: str, now_s: float) -> bool:
        """Note one. Returns: whether that is news; never while STRANGERS_MAX others are known."""
        known = self.lately(now_s)
        self._came_s = {each: self._came_s[each] for each in known}
        is_news = address not in known
        if is_news and len(known) >= STRANGERS_MAX:
            return False
        self._came_s[address] = now_s
        return is_news

    def lately(self, now_s: float) -> tuple[str, ...]:
        """The addresses of those who came within LATELY_S, at most STRANGERS_MAX."""
        return tuple(each for each, at_s in self._came_s.items() if now_s - at_s <= LATELY_S)
