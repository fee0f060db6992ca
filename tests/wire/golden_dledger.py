"""Access to the golden bytes of DLedger, for the tests of this folder and for the fuzzer."""

import functools
import json
import pathlib
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).parent.parent / "golden" / "dledger"
SCENARIOS = tuple(sorted(path.stem for path in ROOT.glob("[0-9]*.ndjson")))
STORES = ("store-n0", "store-n1", "store-n2", "store-divergent")
DATA_FILE_BYTES = 4096
INDEX_FILE_BYTES = 1024


class Recorded(NamedTuple):
    """One frame on a link, and the name of the request that it is or answers."""

    name: str
    is_reply: bool
    frame: bytes


def _rows(name: str) -> list[dict[str, Any]]:
    lines = (ROOT / f"{name}.ndjson").read_text().split("\n")
    return [json.loads(line) for line in lines if line]


@functools.cache
def frames(scenario: str) -> tuple[Recorded, ...]:
    rows = _rows(scenario)
    return tuple(
        Recorded(row["name"], row["kind"] == "reply", row["frame"].encode("latin-1"))
        for row in rows[1:]
    )


def all_frames() -> tuple[Recorded, ...]:
    return tuple(frame for scenario in SCENARIOS for frame in frames(scenario))


@functools.cache
def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "manifest.json").read_text())
    return found


def files(store: str, kind: str) -> dict[int, bytes]:
    """The "data" or "index" files of a store: start -> content."""
    folder = ROOT / store / kind
    return {int(path.name): path.read_bytes() for path in sorted(folder.iterdir())}


def careless() -> list[dict[str, Any]]:
    """What fastjson made of bodies that no Java node would write."""
    return _rows("fastjson")


def binary_headers() -> dict[str, bytes]:
    lines = (ROOT / "binary-headers.txt").read_text().split("\n")
    pairs = [line.split() for line in lines if line]
    return {name: bytes.fromhex(digits) for name, digits in pairs}


def three_ways(data: bytes) -> dict[str, list[bytes]]:
    """A sample whole, byte by byte, and in chunks that cut everything."""
    return {
        "whole": [data],
        "bytes": [data[at : at + 1] for at in range(len(data))],
        "sevens": [data[at : at + 7] for at in range(0, len(data), 7)],
    }
