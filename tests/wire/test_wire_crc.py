"""CRC-32 by either library."""

import importlib
import sys
import zlib
from random import Random

import pytest

import wire.crc


@pytest.mark.parametrize("has_wheel", [True, False])
def test_it_is_zlibs(has_wheel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        if not has_wheel:
            patched.setitem(sys.modules, "zlib_ng.zlib_ng", None)
        crc32 = importlib.reload(wire.crc).crc32
        assert crc32.__module__ == ("zlib_ng.zlib_ng" if has_wheel else "zlib")
    rng, running, expected = Random(1), 0, 0
    for size in [*range(130), 1 << 16, (1 << 20) + 7]:
        data = rng.randbytes(size)
        assert crc32(data) == crc32(memoryview(data)) == zlib.crc32(data)
        running, expected = crc32(data, running), zlib.crc32(data, expected)
        assert running == expected
    importlib.reload(wire.crc)
