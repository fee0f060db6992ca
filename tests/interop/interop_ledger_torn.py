"""Entries that a Java member wrote only the beginning of when it was killed, and kept.

Java copies an entry into a mapped file, and a kill that finds it at that, in a page fault or
while others have the processor, leaves zeros from there on. A start looks at no body
(dledger.md 3.5, step 5), so the member leads or follows with that entry as if a client had asked
for it. One of some hundred kills does so. The append had no answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import attrs
from interop_ledger_files import LedgerFiles

_LED = re.compile(r"^role=LEADER term=(\d+) ", re.MULTILINE)


@attrs.frozen
class Torn:
    """One of them.

    Attributes:
        index, term: of the entry.
        kept: bytes of the body that were written.
        whole: the body that a client asked for.
    """

    index: int
    term: int
    kept: int
    whole: bytes

    def __str__(self) -> str:
        return (
            f"entry {self.index} of term {self.term} was torn in a killed Java leader's file:"
            f" {self.kept} of {len(self.whole)} bytes"
        )


def terms_led(out: Path) -> set[int]:
    """In which a Java member led, by the lines that it wrote; none without them."""
    text = out.read_text(errors="replace") if out.exists() else ""
    return {int(term) for term in _LED.findall(text)}


def torn_entries(
    log: LedgerFiles, in_doubt: Collection[bytes], terms: Collection[int]
) -> list[Torn]:
    """Those of `log` that nobody asked for as they are.

    Args:
        in_doubt: bodies of the appends that were not answered.
        terms: in which a Java member led; entries of other terms are not excused.
    """
    found = []
    for index, (term, body) in enumerate(zip(log.terms, log.bodies, strict=True)):
        if term in terms and body.endswith(b"\0") and body not in in_doubt:
            kept = len(body.rstrip(b"\0"))
            likely = [each for each in in_doubt if _begins_alike(each, body, kept)]
            found += [Torn(index, term, kept, whole) for whole in likely if len(likely) == 1]
    return found


def _begins_alike(asked: bytes, written: bytes, kept: int) -> bool:
    """The clients' bodies have no zeros, so that what ends before them is what was written."""
    return 0 < kept < len(asked) == len(written) and asked[:kept] == written[:kept]


def as_in_the_log(torn: Iterable[Torn], bodies: Mapping[int, bytes]) -> dict[bytes, bytes]:
    """What lies there, by what was asked for. Args: bodies: by index."""
    return {each.whole: bodies[each.index] for each in torn}
