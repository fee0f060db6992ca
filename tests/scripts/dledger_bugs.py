"""DLedger's known bugs, numbered as in dledger.md 11: B can lose or fork what is committed, V
stops a group or a member. `traps` prints and plays them.
"""

from __future__ import annotations

BUGS: dict[str, str] = {
    "B1": "older terms are committed by counting",
    "B2": "a new leader truncates whole logs",
    "B3": "a conflict goes back to the start of its term",
    "B4": "pushes are taken from anybody",
    "B5": "votes by a log that is gone",
    "B6": "what was cut comes back",
    "B7": "a cut by the leader's positions",
    "B8": "a vote is forgotten",
    "B9": "acknowledged before a sync",
    "B10": "the end's term is the current one",
    "B11": "an append says nothing of what is before",
    "B12": "committed above the end",
    "B13": "readers see what is not committed",
    "B14": "committed without a comparison",
    "V1": "a larger term is not heard",
    "V2": "a lost refusal blocks for ever",
    "V3": "COMPARE and INSTALL_SNAPSHOT without end",
    "V4": "the term before the log is not kept",
    "V5": "the second snapshot fails",
    "V6": "older entries are not sent again",
    "V7": "a full queue blocks all requests",
    "V8": "a lost log is not noticed",
    "V9": "votes beside a leader",
    "V10": "a leader with a full disk",
    "V11": "a deposed leader's appends",
    "V12": "one entry a round trip",
    "V13": "batch answers without a count",
    "V14": "heartbeats behind pushes",
    "V15": "a transfer without an answer",
}

_NEW = "of 0.4.0, whose dialect is not spoken here"
WITHOUT: dict[str, str] = {
    **dict.fromkeys(("B2", "B3", "B4", "B5", "B7", "V3", "V4", "V5", "V6"), _NEW),
    "B10": "of 0.1; `compat` follows 0.3.1.2",
    "V7": "of 0.3.1.1 and older; `compat` follows 0.3.1.2",
    "V14": "comes with the connections between members",
}
"""Bugs without a script, and why."""
