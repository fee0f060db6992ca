"""Where a member of ours answers otherwise than the recorded Java node, and why: all of it.

Answers are named by recording, node, connection, number and request. Fields of the header are in
capitals; "-" stands for a field that is not there.
"""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Difference:
    """Answers that differ on purpose, all in the same fields."""

    why: str
    places: tuple[str, ...]
    java: dict[str, Any]
    ours: dict[str, Any]


RAISED_AT_ONCE = """A member of ours takes a larger term at once, also while it waits for votes;
upstream's candidate first waits its own round out, and says TERM_NOT_READY all the while."""
RAISED_BY_PUSH = """A push of a larger term raises the term, as a heartbeat of it does; so the first
heartbeat is followed. Upstream looks at no push's term before it follows somebody."""
RAISED_AT_START = """A member that starts with its own vote in the present term takes the next one,
for it may have led in this one; so the first heartbeat of the next term is followed."""
OTHER_CLOCK = """The recorded node had just taken the term in its own campaign; ours hears of it by
this request, and the next one gets the vote."""
TERM_GATE = """A push of an older term changes nothing, and gets the present term as its answer."""
NOT_COMPARED = """Nothing was compared in this session, so nothing is known to equal the leader's
log: the leader is asked to compare. Upstream commits by what it has, compared or not; and it keeps
an append that does not fit until it is sent once more."""
NO_RANGE = """A member that follows nobody refuses with the range that its log had when it last
followed somebody, none before; no leader reads the range in a 405."""
NO_BODY = """An append without a body is refused as such; upstream's handler ends in an error."""
NO_PULL = """PULL is not served; upstream says that it is, and its handler ends in an error."""
NO_SNAPSHOTS = """INSTALL_SNAPSHOT is known here, dialect N's members speak it; a group of dialect L
refuses it by the body's code."""

DIFFERENCES = (
    Difference(
        why=RAISED_AT_ONCE,
        places=("01 n0 c1 #8 VOTE", "01 n0 c1 #11 VOTE", "01 n0 c1 #14 VOTE"),
        java={"term": 0, "voteResult": "REJECT_TERM_NOT_READY"},
        ours={"term": 1, "voteResult": "ACCEPT"},
    ),
    Difference(
        why=RAISED_AT_ONCE,
        places=("01 n0 c1 #29 HEART_BEAT", "01 n0 c1 #33 HEART_BEAT"),
        java={"code": 416},
        ours={"code": 200},
    ),
    Difference(
        why=RAISED_AT_ONCE,
        places=("09 n2 c36 #80 VOTE",),
        java={"term": 3, "voteResult": "REJECT_TERM_NOT_READY"},
        ours={"term": 4, "voteResult": "ACCEPT"},
    ),
    Difference(
        why=OTHER_CLOCK,
        places=("01 n2 c4 #6 VOTE",),
        java={"term": 1, "voteResult": "ACCEPT"},
        ours={"term": 0, "voteResult": "REJECT_TERM_NOT_READY"},
    ),
    Difference(
        why=OTHER_CLOCK,
        places=("01 n2 c4 #9 VOTE",),
        java={"term": 0, "voteResult": "REJECT_TERM_NOT_READY"},
        ours={"term": 1, "voteResult": "ACCEPT"},
    ),
    Difference(
        why=RAISED_AT_START,
        places=("06 n1 c26 #183 HEART_BEAT",),
        java={"code": 416},
        ours={"code": 200},
    ),
    Difference(
        why=RAISED_AT_START,
        places=("06 n1 c26 #190 PUSH", "06 n1 c26 #192 PUSH"),
        java={"code": 405},
        ours={"code": 200},
    ),
    Difference(
        why=RAISED_BY_PUSH,
        places=(
            "08 n2 c34 #270 HEART_BEAT",
            "10 n0 c39 #137 HEART_BEAT",
            "12 n1 c55 #123 HEART_BEAT",
        ),
        java={"code": 416},
        ours={"code": 200},
    ),
    Difference(
        why=RAISED_BY_PUSH,
        places=(
            "08 n2 c34 #273 PUSH",
            "08 n2 c34 #277 PUSH",
            "08 n2 c34 #281 PUSH",
            "08 n2 c34 #285 PUSH",
        ),
        java={"code": 405},
        ours={"code": 200},
    ),
    Difference(
        why=RAISED_BY_PUSH,
        places=(
            "12 n1 c55 #126 PUSH",
            "12 n1 c55 #128 PUSH",
            "12 n1 c55 #134 PUSH",
            "12 n1 c55 #136 PUSH",
        ),
        java={"code": 405},
        ours={"code": 406},
    ),
    Difference(
        why=RAISED_BY_PUSH + " " + NOT_COMPARED,
        places=("10 n0 c39 #142 PUSH", "10 n0 c39 #148 PUSH"),
        java={"code": 405},
        ours={"code": 406},
    ),
    Difference(
        why=NOT_COMPARED,
        places=("10 n0 c39 #156 PUSH", "10 n0 c39 #160 PUSH", "10 n0 c39 #171 PUSH"),
        java={"code": 200},
        ours={"code": 406},
    ),
    Difference(
        why=NOT_COMPARED,
        places=("10 n0 c39 #173 PUSH",),
        java={"code": 413},
        ours={"code": 406},
    ),
    Difference(
        why=NO_RANGE,
        places=("04 n1 c20 #27 PUSH",),
        java={"beginIndex": 0, "endIndex": 34},
        ours={"beginIndex": -1, "endIndex": -1},
    ),
    Difference(
        why=NO_RANGE,
        places=("08 n2 c34 #267 PUSH",),
        java={"beginIndex": 0, "endIndex": 38},
        ours={"beginIndex": -1, "endIndex": -1},
    ),
    Difference(
        why=NO_RANGE,
        places=("09 n0 c24 #85 PUSH",),
        java={"endIndex": 37},
        ours={"endIndex": 35},
    ),
    Difference(
        why=TERM_GATE,
        places=("04 n0 c21 #29 PUSH",),
        java={"code": 200, "term": 0},
        ours={"code": 403, "term": 1},
    ),
    Difference(
        why=TERM_GATE,
        places=("09 n1 c30 #319 PUSH",),
        java={"code": 405, "term": 3},
        ours={"code": 403, "term": 4},
    ),
    Difference(
        why=NO_BODY,
        places=("04 n1 c20 #4 APPEND", "04 n1 c20 #8 APPEND"),
        java={"CODE": 1, "REMARK": True, "body": "-"},
        ours={
            "CODE": 200,
            "REMARK": False,
            "body": {
                "code": 411,
                "group": "g",
                "index": -1,
                "leaderId": "n1",
                "pos": -1,
                "remoteId": "n1",
                "term": -1,
            },
        },
    ),
    Difference(why=NO_PULL, places=("04 n1 c20 #13 PULL",), java={"CODE": 1}, ours={"CODE": 3}),
    Difference(
        why=NO_SNAPSHOTS,
        places=("04 n1 c20 #15 INSTALL_SNAPSHOT",),
        java={"CODE": 3, "REMARK": True, "body": "-"},
        ours={"CODE": 200, "REMARK": False, "body": {"code": 303, "group": "g", "term": -1}},
    ),
)
