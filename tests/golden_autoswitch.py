"""Access to the golden bytes of auto-switch HA."""

import functools
import gzip
import json
import pathlib
from typing import Any, Literal

ROOT = pathlib.Path(__file__).parent / "golden" / "autoswitch"
CONNECTIONS = tuple(path.stem for path in sorted((ROOT / "ha").glob("*.jsonl")))
End = Literal["slave", "master"]


def segments(connection: str, end: End) -> list[bytes]:
    """What one end of a connection sent, as it was received."""
    lines = (ROOT / "ha" / f"{connection}.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [bytes.fromhex(row["hex"]) for row in rows if row["dir"].startswith(end + ">")]


def file(name: str) -> bytes:
    """A file of a broker, for instance "broker-a/epochFileCheckpoint"."""
    return (ROOT / "files" / name).read_bytes()


@functools.cache
def frames() -> tuple[dict[str, Any], ...]:
    """The remoting frames of the session and of the probes.

    Each has `body`, `opaque`, the number of its request, and `handmade`: whether it is a request
    that Java did not write.
    """
    found = []
    for name in ("session", "probes"):
        for line in gzip.decompress((ROOT / f"{name}.jsonl.gz").read_bytes()).splitlines():
            row = json.loads(line)
            whole = bytes.fromhex(row["hex"])
            row["body"] = whole[len(whole) - row["body_bytes"] :]
            header_bytes = int.from_bytes(whole[5:8])  # the byte in front says JSON
            row["opaque"] = json.loads(whole[8 : 8 + header_bytes])["opaque"]
            row["handmade"] = name == "probes" and row["kind"] != "answer"
            found.append(row)
    return tuple(found)
