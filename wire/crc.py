"""CRC-32 of records, entries and files: the polynomial of zlib, Java's `CRC32` and DLedger's.

zlib-ng computes it with the processor's carry-less multiplication, some four times as fast as the
zlib of most systems. Where there is no wheel of it, Python's own `zlib` gives the same numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zlib import crc32
else:
    try:
        from zlib_ng.zlib_ng import crc32
    except ImportError:
        from zlib import crc32

__all__ = ["crc32"]
