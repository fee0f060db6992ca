"""Numbers of bytes for people."""

from __future__ import annotations

_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size(count_bytes: int) -> str:
    """Bytes for people: `64 MiB`, `1.5 GiB`, `300 bytes`."""
    for unit, name in _UNITS:
        if count_bytes >= unit:
            return f"{count_bytes / unit:.4g} {name}"
    return f"{count_bytes} bytes"
