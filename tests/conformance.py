"""The conformance checklists of each document of `wire/spec`, with the tests of each item.

`python tests/conformance.py [autoswitch] [broker] [classic] [dledger]` prints the tables as
Markdown. A test claims items with `@pytest.mark.checklist(16, 18)`, of another list than the
classic one with `@pytest.mark.checklist(4, of="dledger")`; `test_conformance.py` refuses an item
that no test claims and that is named neither as later nor as coming, and a claim of an item that
does not exist.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Checklist(NamedTuple):
    """The list of one document of `wire/spec`.

    Attributes:
        items: number and what it says, short.
        later: what is left for a later version, in full or in the part that is named.
        coming: items without a test whose part of the work is not there yet; a claim ends it.
    """

    items: dict[int, str]
    later: dict[int, str]
    coming: dict[int, str]


_CLASSIC_ITEMS: dict[int, str] = {
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
    49: "metadata of each kind is on the slave within a period, its files and .bak as upstream's",
    50: "the failure of one kind stops neither the others nor later rounds",
    51: "unquoted integer keys are read, unknown fields kept, our own output is fastjson's",
    52: "an equal data version writes nothing, another one ends in equal tables and versions",
    53: "no reader on a slave sees an empty or partial topic table",
    54: "a copy never moves consumer offsets back",
    55: "topics are asked for at listenPort - 2, all else at listenPort",
    56: "stock broker properties form a working pair",
    57: "a value that does not parse is an error",
    58: "a slave refuses puts and serves reads",
    59: "status per slave and of the slave's own side",
    60: "flow control keeps the rate without a storm of empty frames",
    61: "a clean stop: client, listener, connections, waits, then the store",
    62: "recorded Java sessions replayed both ways give the same log",
}
_CLASSIC_LATER: dict[int, str] = {
    14: "discovery through a name server; configured addresses are here",
    39: "a Java broker reading our store; reading Java's is here",
    56: "a slave alone that finds its master by name servers only",
    58: "remote pull by RocketMQ consumers; refusing puts and our own reads are here",
}

_DLEDGER_ITEMS: dict[int, str] = {
    1: "frames round trip; a 51004 request with a binary header is refused",
    2: "byte-exact entry and index vectors",
    3: "currterm and checkpoint of Java are read, ours by Java's rules",
    4: "JSON samples parse; minimal PUSH; unknown keys; Base64 with +, / and =",
    5: "wrong remoteId 401, wrong group 400, base fields copied, leaderId set",
    6: "vote table rows 1 to 11, each alone, and their order",
    7: "a vote survives a restart, and a crash between the steps of writing it",
    8: "first campaign keeps the term; WAIT_TO_VOTE_NEXT raises it; REVOTE_IMMEDIATELY does not",
    9: "heartbeat of a larger term: 416 first, follower on the next",
    10: "a PUSH does not refresh the heartbeat clock",
    11: "COMPARE before the term's first heartbeat: 405, the leader retries",
    12: "compare: equal end, longer and shorter follower, mismatch, no overlap",
    13: "an empty leader sends nothing; the first append starts replication",
    14: "at most 1000 unacknowledged pushes per peer",
    15: "a caught-up leader sends a COMMIT within about 1 s after the last push",
    16: "a lost APPEND reply: the entry is sent again after 1000 ms and answered 200",
    17: "reordered APPENDs are stored in order",
    18: "a gap older than 1 s: 406, COMPARE, repaired; also if that 406 is lost",
    19: "the quota limits one peer's bytes per second, and no other's",
    20: "a stale-term PUSH of each type changes nothing",
    21: "dialect N: xTerm and xIndex",
    22: "a new leader never shortens a follower's committed log",
    23: "a new leader killed after its first TRUNCATE round loses nothing acknowledged",
    24: "Figure 8: an old term's entry is committed only below one of the current term",
    25: "a follower's commit never passes its verified match index",
    26: "truncation and restart leave no ghost entry",
    27: "a re-based follower keeps its log over a restart",
    28: "torn entry, torn or missing index: recovery ends at the last whole entry",
    29: "an entry ending 8 bytes before the file's end fits, one more rolls, oversize is refused",
    30: "10001 waiting calls: 503; after time-outs the count falls",
    31: "no quorum: 502 within the limit; a deposed leader's calls end",
    32: "transfer: lag 417, appends during it 506, success and failure",
    33: "an isolated node returns without deposing a healthy leader more than once",
    34: "disk full: 415, and the leader steps down",
    35: "an old-style batch reply (count missing) is understood",
    36: "groups of one, two and four: their quorums",
    37: "mixed groups with Java in each role, kills and partitions",
    38: "a set test with SIGKILL and with loss of unsynced pages",
}

_DLEDGER_LATER: dict[int, str] = {
    21: "dialect N is not spoken",
    38: "loss of unsynced pages is simulated",
}

_DLEDGER_COMING: dict[int, str] = {}

_BROKER_ITEMS: dict[int, str] = {
    1: "a Java broker registers; its topics are in routes at once",
    2: "registration bodies: plain, with blanks, compressed text; the CRC, and 0 for none",
    3: "a first registration with exactly one topic: 1; with 0, 2 or a later one: 0",
    4: "a slave hears of a living master, and adds no topics beside it",
    5: "a promoted address has one entry",
    6: "an older state from another address is ignored with code 0",
    7: "a lost connection removes; the last address removes topics and cluster",
    8: "120 s of silence remove; 904 and 322 renew",
    9: "ids in quotes from version 401 on, or as asked for; unknown topic: 17",
    10: "the shapes of 106, 206, 224, 304 and 901",
    11: "100, 101, 102, 219 survive a restart; order topics in the answer to 103",
    12: "205 and 327 count; 216 removes; unknown code: 3",
    13: "two name servers, and either stopped",
    66: "every mqadmin command exits 0 and prints the right values",
    67: "what 4.9.7's clusterList needs is there under both spellings",
    68: "topicStatus, consumerProgress and resetOffsetByTime read our keys in quotes",
    69: "updateTopic twice is once; deleteTopic removes data, offsets and route; system topic: 29",
    70: "a topic at a slave: 16; a setting that is not changed here: 29, with the key",
    71: "unsupported codes: 3, and the command ends within 3 s",
    72: "the HA status while a slave copies",
    73: "random bytes and impossible lengths close the connection and hurt nothing else",
    74: "1000 connections with a push consumer each on one topic; the bound of memory",
    75: "a client that does not read is cut off, others are unaffected",
    76: "requests with binary headers are answered",
    77: "a clock that jumps by an hour ends nothing",
}
"""What concerns a name server, operators or every port. The rest is about a broker's port, which a
later version has."""

_BROKER_LATER: dict[int, str] = {
    66: "commands about consumers, offsets and messages of a broker of ours",
    68: "all of it: our broker's port answers nothing about offsets and consumers",
    69: "data and offsets, which consumers at our broker's port have first",
    71: "the end of commands that ask for consumers, beside a broker of ours",
    74: "all of it: our broker's port has no consumers",
}

_BROKER_COMING: dict[int, str] = {}

_AUTOSWITCH_ITEMS: dict[int, str] = {
    1: "a handshake of 16 bytes, split anywhere, is read once and only when it is whole",
    2: "the answer: 20 + 12n bytes, epochs ascend, max offset, last epoch",
    3: "a frame's header of 36 bytes; heartbeats have the next offset",
    4: "a report of 12 bytes after every append",
    5: "requests of 5.0.0 and 5.1.0 and the answer of 36 bytes are recognised",
    6: "no frame holds two epochs, two files, or more than haTransferBatchSize",
    7: "a frame whose epoch begins above its body is taken, and the epoch with its start",
    8: "heartbeats after 5 s; either side closes after 20 s of silence",
    9: "an empty slave begins at the last file with syncFromLastFile, else at the first byte",
    10: "a frame at another offset closes, nothing is appended",
    11: "no body above 4 MiB - 36 is configured or sent",
    12: "the epoch file as upstream reads it; the CRCs; a damaged one falls back to .bak",
    13: "the four examples of a consistent point",
    14: "a slave ahead is cut to the master's end: log, queues, epochs, confirm offset",
    15: "what was cut does not come back after a crash",
    16: "without a consistent point nothing is cut, and that is visible",
    17: "half a message at the end leaves before connecting, and before serving as master",
    18: "elections without writes keep histories apart; an epoch without data stays",
    19: "a master's restart with the same epoch changes no entry",
    20: "an epoch beyond the log's end is dropped on load",
    21: "deleting old files prunes epochs, never the last one",
    22: "a role change with no greater epoch is ignored",
    23: "the order of becoming master",
    24: "the first message's queue offset after a switch",
    25: "until then appends are refused with 14, reads go on",
    26: "to slave: the role first, pending appends end with 12",
    27: "a failure within a role change leaves the broker fenced, and is retried",
    28: "the same master again keeps its connections",
    29: "a fenced broker neither registers nor takes appends",
    30: "who joins the sync state set",
    31: "who leaves it",
    32: "while a change is pending the union acknowledges; a refusal clears it",
    33: "minInSyncReplicas refuses before, all-ack waits for all, 12 after the time-out",
    34: "the confirm offset is the minimum of the set, and survives a restart",
    35: "nobody reads above the confirm offset",
    36: "two members that leave at once both leave",
    37: "AlterSyncStateSet: 2013, 2002, 2000, 2001, 2003, 2006 in this order",
    38: "the first election takes the asker, later ones epoch, offset, priority",
    39: "nobody to elect: 2004 and the master cleared, or 2012",
    40: "a master that lives: 2011 with header and body",
    41: "silence of 10 s or a closed connection leads to an election and a 1008",
    42: "ids survive a crash after each step, none is burnt or given twice",
    43: "a changed address is noted, ids stay",
    44: "2007 of who does not lead; 1005 everywhere; a new leader goes on from the log",
    45: "living brokers are cleaned with force alone",
    46: "integer keys without quotes are read; mqadmin reads ours",
    47: "an isolated master stops to acknowledge after the announced time",
    48: "a slave's topics are never away while they are copied",
}
_AUTOSWITCH_LATER: dict[int, str] = {
    4: "when it is sent",
    14: "when it is cut",
    16: "that it is visible",
    18: "the elections themselves",
    21: "who deletes the files",
    25: "that reads go on: they fail while the group's tree starts as the new role's",
    28: "the role change itself",
    33: "the refusal, and the time-out",
    34: "where it is kept through a restart",
    35: "who keeps readers below it",
    42: "the replica's own steps",
    46: "mqadmin against ours",
}
_AUTOSWITCH_COMING: dict[int, str] = {}

CHECKLISTS = {
    "autoswitch": Checklist(_AUTOSWITCH_ITEMS, _AUTOSWITCH_LATER, _AUTOSWITCH_COMING),
    "broker": Checklist(_BROKER_ITEMS, _BROKER_LATER, _BROKER_COMING),
    "classic": Checklist(_CLASSIC_ITEMS, _CLASSIC_LATER, {}),
    "dledger": Checklist(_DLEDGER_ITEMS, _DLEDGER_LATER, _DLEDGER_COMING),
}


def claims(tests: Path, of: str) -> Iterator[tuple[int, str]]:
    """(item, "file::test") for every test function marked with `checklist` of that list."""
    for path, tree in _marking(tests):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for decorator in node.decorator_list:
                    name = f"{path.relative_to(tests)}::{node.name}"
                    yield from ((item, name) for item in _marked(decorator, of))


def _marking(tests: Path) -> Iterator[tuple[Path, ast.Module]]:
    """The files of tests that have the word in them; the others have no such mark."""
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text()
        if "checklist" in text:
            yield path, ast.parse(text)


def _marked(decorator: ast.expr, of: str) -> tuple[int, ...]:
    if not isinstance(decorator, ast.Call) or not ast.unparse(decorator.func).endswith(
        "mark.checklist"
    ):
        return ()
    options = {option.arg: ast.literal_eval(option.value) for option in decorator.keywords}
    if options.get("of", "classic") != of:
        return ()
    return tuple(int(ast.literal_eval(argument)) for argument in decorator.args)


def lists_named(tests: Path) -> set[str]:
    """Every list that a mark names."""
    found = set()
    for _, tree in _marking(tests):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.checklist"):
                found |= {str(ast.literal_eval(each.value)) for each in node.keywords}
    return found


def table(tests: Path, of: str) -> str:
    """The Markdown table: item, what it says, its tests, what is left."""
    checklist = CHECKLISTS[of]
    found: dict[int, list[str]] = {}
    for item, name in claims(tests, of):
        found.setdefault(item, []).append(name)
    rows = ["| Item | Says | Tests | Later |", "|---|---|---|---|"]
    left = {**checklist.coming, **checklist.later}
    for item, title in checklist.items.items():
        names = "<br>".join(f"`{name}`" for name in found.get(item, [])) or "-"
        rows.append(f"| {item} | {title} | {names} | {left.get(item, '')} |")
    return "\n".join(rows)


if __name__ == "__main__":
    tables = [table(Path(__file__).parent, of) for of in sys.argv[1:] or CHECKLISTS]
    sys.stdout.write("\n\n".join(tables) + "\n")
