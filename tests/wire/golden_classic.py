"""Access to the golden bytes of the classic mode, for the tests of this folder."""

import functools
import json
import pathlib
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent / "golden" / "classic"
VERSIONS = ("4.9.7", "5.3.3")
STREAMS = tuple((version, stream) for version in VERSIONS for stream in ("ha.1", "ha.2", "ha.3"))
STORES = (("4.9.7", "master"), ("5.3.3", "master"), ("5.3.3", "slave"), ("5.3.3", "late"))


@functools.cache
def manifest(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / version / "manifest.json").read_text())
    return found


def stream(version: str, name: str, end: str) -> bytes:
    """Everything one end ("client", "server") of an HA connection sent."""
    return (ROOT / version / "wire" / f"{name}.{end}.bin").read_bytes()


def segments(version: str, node: str) -> dict[int, bytes]:
    """The commit log of one node: file start -> content."""
    folder = ROOT / version / node / "commitlog"
    return {int(path.name): path.read_bytes() for path in sorted(folder.iterdir())}


def three_ways(data: bytes) -> dict[str, list[bytes]]:
    """A sample whole, byte by byte, and in chunks that cut everything."""
    return {
        "whole": [data],
        "bytes": [data[at : at + 1] for at in range(len(data))],
        "sevens": [data[at : at + 7] for at in range(0, len(data), 7)],
    }
