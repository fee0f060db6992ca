"""The conformance checklist of classic HA, item by item, with the tests that show each.

`python tests/conformance.py` prints the table as Markdown. A test claims items with
`@pytest.mark.checklist(16, 18)`; `test_conformance.py` refuses an item that no test claims and that
is not named in `LATER`, and a claim of an item that does not exist.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ITEMS: dict[int, str] = {
    1: "listens on the HA port; a used port fails the start with a clear error",
    2: "sends no byte to a new connection before 8 bytes have arrived",
    3: "a report of 0 starts at the first byte; with compat at the start of the last file",
    4: "a report inside the log starts exactly there, also inside a message",
    5: "frames are contiguous, never cross a file, keep the size limit, contain blank tails",
    6: "a heartbeat is an empty frame at the next offset, only when idle",
    7: "reports split or coalesced at any byte are understood; the last complete one wins",
    8: "a report below 0 or above the end closes, the first one included; acknowledges nothing",
    9: "a first report below the log's first byte is refused and visible",
    10: "20 s without a report close the connection and free everything",
    11: "10,000 connect-and-close probes leave nothing behind",
    12: "a stalled slave slows neither the other one nor the producers",
    13: "an append wakes an idle writer at once",
    14: "connects to the address it was given; retries at least every 5 s; connect time-out 5 s",
    15: "the first report leaves within 1 s and equals the local end",
    16: "a frame at another offset appends nothing, closes and is counted",
    17: "an empty log accepts a first offset only at a multiple of the file size",
    18: "a frame split anywhere is applied once; many frames in one read all",
    19: "frames up to 4,194,292 bytes; larger or negative sizes close",
    20: "reports exactly what is appended (written) or synced (synced), never lower",
    21: "a report every 5 s when idle, whatever comes in, also while a sync hangs",
    22: "20 s of silence close the connection and it reconnects",
    23: "another master's address closes the old connection",
    24: "a failed append on the slave is never acknowledged and is visible",
    25: "kill -9 anywhere: a message boundary, replication goes on, logs equal",
    26: "PUT_OK only after the required number of distinct slaves",
    27: "a slave down: FLUSH_SLAVE_TIMEOUT in time, stored, readable once replicated",
    28: "100 puts with a dead slave end together, not one after the other",
    29: "a put acknowledged when examined is PUT_OK even after its deadline",
    30: "a 4 MiB message is replicated and acknowledged once",
    31: "asynchronous groups never wait for a slave",
    32: "4.x policy: SLAVE_NOT_AVAILABLE by connection and lag",
    33: "5.x policy: admission by the number in sync",
    34: "a slave that reconnects does not count twice",
    35: "the loss of all slaves lowers what decisions rely on",
    36: "flush and replication failing together",
    37: "file names, sizes, blank record and message fields as golden bytes say",
    38: "length + 8 = rest of the file fits, one more goes to the next file",
    39: "a store written by Java loads here, and the reverse",
    40: "the slave's commit log equals the master's byte for byte, blanks included",
    41: "consume queue and index of the slave equal the master's",
    42: "dispatch waits on a cut message and goes on",
    43: "checkpoint of 4,096 bytes; abort present while running, gone after a clean stop",
    44: "unclean recovery cuts torn, damaged and empty ends",
    45: "recovery: only a blank, prepared next file, exact file end, no consume queue",
    46: "expiry keeps the last file, obeys time and disk marks; a reader ends cleanly",
    47: "a synced put completes only after the sync; a failed sync is never PUT_OK",
    48: "a full disk stops puts, and appends on a slave, visibly",
    56: "stock broker properties form a working pair",
    57: "a value that does not parse is an error",
    58: "a slave refuses puts and serves reads",
    59: "status per slave and of the slave's own side",
    60: "flow control keeps the rate without a storm of empty frames",
    61: "a clean stop: client, listener, connections, waits, then the store",
    62: "recorded Java sessions replayed both ways give the same log",
}
"""Metadata synchronisation (49-55) belongs to a later version as a whole."""

LATER: dict[int, str] = {
    14: "discovery through a name server; configured addresses are here",
    39: "a Java broker reading our store; reading Java's is here",
    56: "stock broker.conf files",
    58: "remote pull by RocketMQ consumers; refusing puts and our own reads are here",
}
"""What is left for a later version, in full or in the part that is named."""


def claims(tests: Path) -> Iterator[tuple[int, str]]:
    """(item, "file::test") for every test function marked with `checklist`."""
    for path in sorted(tests.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for decorator in node.decorator_list:
                    name = f"{path.relative_to(tests)}::{node.name}"
                    yield from ((item, name) for item in _marked(decorator))


def _marked(decorator: ast.expr) -> tuple[int, ...]:
    if not isinstance(decorator, ast.Call) or not ast.unparse(decorator.func).endswith(
        "mark.checklist"
    ):
        return ()
    return tuple(int(ast.literal_eval(argument)) for argument in decorator.args)


def table(tests: Path) -> str:
    """The Markdown table: item, what it says, its tests, what is left."""
    found: dict[int, list[str]] = {}
    for item, name in claims(tests):
        found.setdefault(item, []).append(name)
    rows = ["| Item | Says | Tests | Later |", "|---|---|---|---|"]
    for item, title in ITEMS.items():
        names = "<br>".join(f"`{name}`" for name in found.get(item, [])) or "-"
        rows.append(f"| {item} | {title} | {names} | {LATER.get(item, '')} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(table(Path(__file__).parent) + "\n")
