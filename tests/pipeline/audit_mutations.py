"""Each kind of violation, put into the event logs of a real run by rewriting lines.

A mutation changes the logs in place and names the audits that have to fire, and no other may. Those
that name none are lawful: an audit that fires there is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

import attrs
from event_lines_kit import Line, Logs, become, group_in, of_kind, place

HOUR_US: Final = 3_600_000_000
FAR: Final = 1_000_000_000
HANDLER: Final = "ledger/entry_pusher/entry_handler"


@attrs.frozen
class Mutation:
    """One way to break a run's logs.

    Attributes:
        what: in words, for the matrix.
        apply: changes the logs in place.
        fires: names of audits.
        junk: text behind the last line of the first node's log.
    """

    what: str
    apply: Callable[[Logs], None]
    fires: tuple[str, ...]
    junk: str = ""


def nothing(logs: Logs) -> None:
    pass


def leader_of(logs: Logs) -> Line:
    """The first RoleChanged of a leader."""
    return next(of_kind(logs, "RoleChanged", role="LEADER"))


def followers(logs: Logs, led: Line) -> Iterator[Line]:
    """Who said that it follows that leader in its term."""
    return of_kind(logs, "RoleChanged", role="FOLLOWER", term=led["term"], leader=led["node"])


def second_leader(logs: Logs) -> None:
    line = next(followers(logs, leader_of(logs)))
    line.update(role="LEADER", leader=line["node"])


def other_leader_named(logs: Logs) -> None:
    line = next(followers(logs, leader_of(logs)))
    line.update(leader=line["node"])


def role_before(logs: Logs, line: Line) -> Line | None:
    """The same member's RoleChanged before this one."""
    own = [each for each in logs[line["node"]] if each["kind"] == "RoleChanged"]
    at = own.index(line)
    return own[at - 1] if at else None


def term_falls(logs: Logs, over_boots: bool) -> None:
    for line in of_kind(logs, "RoleChanged", role="CANDIDATE"):
        before = role_before(logs, line)
        if before and before["term"] > 0 and (before["boot"] != line["boot"]) is over_boots:
            line["term"] = before["term"] - 1
            return
    raise AssertionError("no candidate that could fall")


def commits(logs: Logs, part: str) -> list[Line]:
    """CommittedRose of one actor of the node that told most of them."""
    told = [
        [line for line in lines if line["kind"] == "CommittedRose" and line["path"].endswith(part)]
        for lines in logs.values()
    ]
    return max(told, key=len)


def commit_falls(logs: Logs, part: str) -> None:
    told = commits(logs, part)
    for one, two in pairwise(told):
        if (one["boot"], one["incarnation"]) == (two["boot"], two["incarnation"]):
            one["index"], two["index"] = two["index"], one["index"]
            return
    raise AssertionError("nobody committed twice")


def held_by(logs: Logs, *others: str) -> None:
    line = commits(logs, "quorum_ack_checker")[-1]
    line["holders"] = [line["node"], *others]


def removed(logs: Logs, down: int, then: int) -> None:
    """A follower removes from `down` below what it called committed, and goes on at `then`."""
    line = commits(logs, "entry_handler")[-1]
    node, index = line["node"], line["index"]
    later = spare(logs, node, place(line))
    become(
        later,
        "LedgerTruncated",
        HANDLER,
        session=line["session"],
        index=index - down,
        end=index + 3,
        next=index + then,
    )


def spare(logs: Logs, node: str, after: tuple[int, int] = (0, 0)) -> Line:
    """An event of a node that no audit looks at, behind a place in its log."""
    return next(
        line for line in logs[node] if place(line) > after and line["kind"].startswith("Actor")
    )


def opened_twice(logs: Logs) -> None:
    """Somebody opens by the number of another one, above all that there is."""
    line = max(of_kind(logs, "GroupOpened"), key=lambda each: each["number"])
    other = next(node for node in logs if node != line["node"])
    fields = {"number": line["number"], "token": 1, "start_bytes": FAR, "heard": []}
    last = logs[other][-1]["boot"]
    late = spare(logs, other, (last, 0))
    become(late, "GroupOpened", "roles/orders", **fields, forced=False)


def say(logs: Logs, node: str, *events: tuple[str, str, dict[str, Any]]) -> None:
    """The node says these events of the auto-switch group `pair`, in this order, in its last boot.

    Args:
        events: of each the kind, the place in the group and the fields.
    """
    last = logs[node][-1]["boot"]
    own = [each for each in logs[node] if each["boot"] == last and each["kind"][:5] == "Actor"]
    promise = {"members": [*logs], "java_members": [], "sure_copies": 1, "durability": "synced"}
    become(
        own[0],
        "GroupConfigured",
        "pair",
        **promise,
        mode="autoswitch",
        store="file",
        upstream=False,
    )
    for line, (kind, where, fields) in zip(own[1:], events, strict=False):
        become(line, kind, f"pair/{where}", **fields)
    assert len(own) > len(events)


def epoch(number: int, start: int) -> tuple[str, str, dict[str, Any]]:
    return "EpochBegun", "epochs", {"epoch": number, "start_bytes": start}


def in_set(number: int, *ids: int) -> tuple[str, str, dict[str, Any]]:
    return "SyncStateSetTaken", "group_transfer", {"in_sync": [*ids], "set_epoch": number}


def counted(slave: str, end: int) -> tuple[str, str, dict[str, Any]]:
    fields = {"slave": slave, "connection": 1, "offset_bytes": end}
    return "SlaveAcked", "group_transfer", fields


def answer(end: int) -> tuple[str, str, dict[str, Any]]:
    fields = {"first_bytes": 0, "next_bytes": end, "appends": 1, "records": 1}
    return "AppendsAcknowledged", "group_transfer", fields


def opened_log(end: int) -> tuple[str, str, dict[str, Any]]:
    fields = {"was_clean": False, "scanned_from_bytes": 0, "end_bytes": end, "record_count": 0}
    return "RecoveryFinished", "storage/store", {**fields, "kept_bytes": 0, "reason": ""}


def replicas_as_they_should(logs: Logs) -> None:
    """One after the other leads, epochs are burnt, and a tail that nobody counted is cut."""
    one, two, *_ = logs
    say(logs, one, opened_log(0), epoch(1, 0), in_set(2, 1, 2), counted(two, 100), answer(100))
    follows = {"session": 1, "master": one, "number": 1, "end_bytes": 0}
    reported = {"session": 1, "offset_bytes": 150}
    say(
        logs,
        two,
        opened_log(0),
        ("SlaveVerified", "ha_client", follows),
        ("OffsetReported", "ha_client", reported),
        opened_log(120),
        epoch(5, 120),
        in_set(3, 2),
        answer(130),
    )


def two_of_an_epoch(logs: Logs) -> None:
    for node in [*logs][:2]:
        say(logs, node, epoch(3, 0))


def epoch_falls(logs: Logs) -> None:
    say(logs, next(iter(logs)), epoch(4, 0), epoch(3, 0))


def two_sets_of_a_number(logs: Logs) -> None:
    one, two, *_ = logs
    say(logs, one, in_set(3, 1, 2))
    decided = {"cluster": "c", "broker": "pair", "in_sync": [1, 3], "epoch": 3, "master_epoch": 1}
    say(logs, two, ("SyncStateSetChanged", "controller", decided))


def beyond_the_set(logs: Logs) -> None:
    one, two, three = logs
    told = (epoch(1, 0), in_set(2, 1, 2, 3), counted(two, 100), counted(three, 99), answer(100))
    say(logs, one, *told)
    for slave in (two, three):
        say(logs, slave, ("OffsetReported", "ha_client", {"session": 1, "offset_bytes": 100}))


def elected_below(logs: Logs) -> None:
    one, two, *_ = logs
    say(logs, one, epoch(1, 0), in_set(1, 1), answer(100))
    say(logs, two, epoch(2, 90))


def cut_below(logs: Logs) -> None:
    """A deposed master is cut below what it has answered."""
    one = next(iter(logs))
    say(logs, one, opened_log(0), epoch(1, 0), in_set(1, 1), answer(100), opened_log(90))


def configured(logs: Logs, **changed: Any) -> None:
    """Both groups, in all boots."""
    for line in of_kind(logs, "GroupConfigured"):
        line.update(changed)


def by_upstream(logs: Logs) -> None:
    """What each promise of ours forbids, in groups that promise no such thing."""
    configured(logs, upstream=True)
    second_leader(logs)
    term_falls(logs, over_boots=False)
    commit_falls(logs, "quorum_ack_checker")
    held_by(logs)
    removed(logs, down=0, then=0)
    opened_twice(logs)
    slaves_had_less(logs)
    opened_below(logs, forced=False)
    came_back_shorter(logs, by_master=True)


def without_power(logs: Logs) -> None:
    """Two nodes were killed, as many as hold an answer: it may have been in their caches only."""
    configured(logs, durability="written")
    opened_below(logs, forced=False)


def opened_below(logs: Logs, forced: bool) -> None:
    line = max(of_kind(logs, "GroupOpened"), key=lambda each: each["number"])
    assert line["number"] > 0
    line.update(start_bytes=0, forced=forced)


def slaves_had_less(logs: Logs) -> None:
    """The last answer of all, and no slave that had reported its end."""
    answer = list(of_kind(logs, "AppendsAcknowledged"))[-1]
    for line in of_kind(logs, "SlaveAcked", node=answer["node"], boot=answer["boot"]):
        line["offset_bytes"] = min(line["offset_bytes"], answer["next_bytes"] - 1)


def counted_too_high(logs: Logs) -> None:
    """n2 was never killed, so its own log has all that it reported."""
    list(of_kind(logs, "SlaveAcked", slave="n2"))[-1]["offset_bytes"] += FAR


def came_back_shorter(logs: Logs, by_master: bool) -> None:
    """A node's second boot finds a first byte of what it had answered for, or had reported: a log
    of none is one that an operator emptied.
    """
    kind = "AppendsAcknowledged" if by_master else "OffsetReported"
    held = {line["node"] for line in of_kind(logs, kind, boot=1)}
    lines = (line for line in of_kind(logs, "RecoveryFinished", boot=2) if line["node"] in held)
    next(line for line in lines if group_in(line) == "orders")["end_bytes"] = 1


def hole(logs: Logs) -> None:
    """Lines are gone without which others would look broken: an opening, what slaves reported."""
    opening = list(of_kind(logs, "GroupOpened"))[-1]
    lines = logs[opening["node"]]
    at = lines.index(opening)
    acked = next(each for each in lines[at:] if each["kind"] == "SlaveAcked")
    lines.remove(acked)
    del lines[at]


def other_line(logs: Logs) -> None:
    """A second line of one event's key, of another time: as from a log that somebody edited."""
    lines = logs["n1"]
    lines.append({**lines[5], "ts_us": lines[5]["ts_us"] + 1, "incarnation": 77})


def declared(logs: Logs) -> None:
    lines = logs["n2"]
    at = lines.index(spare(logs, "n2"))
    first = lines[at]["seq"]
    become(lines[at + 1], "EventsDropped", "event_log", first_seq=first, last_seq=first)
    del lines[at]


def deleted_unread(logs: Logs, later: int) -> None:
    """A line is gone, and the oldest that its node had left is the next one, or one behind that."""
    lines = logs["n2"]
    at = lines.index(spare(logs, "n2"))
    oldest = lines[at + 1 + later]
    said = spare(logs, "n2", place(oldest))
    left = {"oldest_boot": oldest["boot"], "oldest_seq": oldest["seq"]}
    become(said, "EventFilesExpired", "event_log", files=1, size_bytes=9, **left)
    del lines[at]


def node_missing(logs: Logs) -> None:
    del logs["n2"]


def unknown_kind(logs: Logs) -> None:
    spare(logs, "n1")["kind"] = "Sneezed"


def other_type(logs: Logs) -> None:
    next(of_kind(logs, "LogSynced"))["offset_bytes"] = "many"


def clock_back(logs: Logs) -> None:
    lines = logs["n1"]
    for line in lines[len(lines) // 2 :]:
        line["ts_us"] -= HOUR_US


MUTATIONS: Final = (
    Mutation("the run as it was", nothing, ()),
    Mutation("a follower takes itself for the leader", second_leader, ("one_leader_per_term",)),
    Mutation("a follower follows another leader", other_leader_named, ("one_leader_per_term",)),
    Mutation(
        "a term falls within a boot",
        lambda logs: term_falls(logs, over_boots=False),
        ("terms_never_go_back",),
    ),
    Mutation(
        "a term falls over a restart",
        lambda logs: term_falls(logs, over_boots=True),
        ("terms_never_go_back",),
    ),
    Mutation(
        "a leader's committed index falls",
        lambda logs: commit_falls(logs, "quorum_ack_checker"),
        ("committed_never_falls",),
    ),
    Mutation(
        "a follower's committed index falls",
        lambda logs: commit_falls(logs, "entry_handler"),
        ("committed_never_falls",),
    ),
    Mutation(
        "a leader commits what it alone has",
        held_by,
        ("committed_on_a_majority",),
    ),
    Mutation(
        "a leader counts itself, and a stranger",
        lambda logs: held_by(logs, "n9"),
        ("committed_on_a_majority",),
    ),
    Mutation(
        "a follower removes what is committed",
        lambda logs: removed(logs, down=0, then=0),
        ("nothing_committed_removed",),
    ),
    Mutation("a follower removes what is not committed", lambda logs: removed(logs, -1, 1), ()),
    Mutation("a log begins anew behind its end", lambda logs: removed(logs, 5, 900), ()),
    Mutation("two nodes open by one promotion", opened_twice, ("one_master_per_promotion",)),
    Mutation(
        "an answer before any slave had it", slaves_had_less, ("acknowledged_on_enough_nodes",)
    ),
    Mutation(
        "a slave counts for more than it reported",
        counted_too_high,
        ("slaves_counted_as_they_reported",),
    ),
    Mutation(
        "a slave is promoted without what was answered",
        lambda logs: opened_below(logs, forced=False),
        ("nothing_acknowledged_lost",),
    ),
    Mutation("the same, written only, and two nodes lost their power", without_power, ()),
    Mutation("the same by force", lambda logs: opened_below(logs, forced=True), ()),
    Mutation(
        "a master comes back without what it answered",
        lambda logs: came_back_shorter(logs, by_master=True),
        ("nothing_acknowledged_cut",),
    ),
    Mutation(
        "a slave comes back without what it reported",
        lambda logs: came_back_shorter(logs, by_master=False),
        ("nothing_acknowledged_cut",),
    ),
    Mutation("most of these in groups with upstream's rules", by_upstream, ()),
    Mutation("an auto-switch group whose masters change", replicas_as_they_should, ()),
    Mutation("two replicas begin one epoch", two_of_an_epoch, ("one_master_per_epoch",)),
    Mutation("a replica's epoch falls", epoch_falls, ("epochs_never_go_back",)),
    Mutation("a set's number is given twice", two_sets_of_a_number, ("one_set_per_number",)),
    Mutation(
        "a master answers without one of the set",
        beyond_the_set,
        ("acknowledged_on_the_whole_set",),
    ),
    Mutation(
        "a master is elected that lacks what was answered",
        elected_below,
        ("nothing_acknowledged_lost",),
    ),
    Mutation(
        "a deposed master is cut below what it answered",
        cut_below,
        ("nothing_acknowledged_cut",),
    ),
    Mutation("lines are lost", hole, ("event_logs_without_holes",)),
    Mutation("a line is changed", other_line, ("event_logs_without_holes",)),
    Mutation("a node drops an event and says so", declared, ("no_events_dropped",)),
    Mutation(
        "events are deleted as too old before they are read",
        lambda logs: deleted_unread(logs, later=0),
        ("read_before_deleted",),
    ),
    Mutation(
        "events are missing, and others were deleted",
        lambda logs: deleted_unread(logs, later=1),
        ("event_logs_without_holes",),
    ),
    Mutation("the log of a node is missing", node_missing, ("every_node_has_a_log",)),
    Mutation("a line is half written", nothing, ("every_line_is_an_event",), junk='{"node":"n'),
    Mutation("an event of an unknown kind", unknown_kind, ("events_of_this_version",)),
    Mutation("a field of another type", other_type, ("events_of_this_version",)),
    Mutation("a clock is put back", clock_back, ("clocks_never_go_back",)),
)
