"""Received bytes that a simulated system keeps."""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class SimHeld:
    """Received bytes that the system keeps; `Held` of the protocols."""

    _data: bytes

    def __len__(self) -> int:
        return len(self._data)

    def take(self, size: int) -> bytes:
        assert 0 < size <= len(self._data)
        data, self._data = self._data[:size], self._data[size:]
        return data
