"""What code cites of `wire/spec` is there: sections, and ids of known bugs.

A citation is a document's name and its sections or ids, as in `dledger.md 6.2 and 7`; T alone is an
id of `classic-ha.md`, B and V of `dledger.md`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "wire" / "spec"
DOCUMENTS: Final = ("autoswitch-ha.md", "broker.md", "classic-ha.md", "dledger.md")
OF_ID: Final = {"T": "classic-ha.md", "B": "dledger.md", "V": "dledger.md"}
SUFFIXES: Final = {".md", ".py", ".toml", ".txt"}
ID: Final = r"\b[TBV][1-9][0-9]?b?\b"
PLACE: Final = rf"(?:[0-9]+(?:\.[0-9]+)*|{ID})"
BETWEEN: Final = r"(?:,|\band\b|\bto\b|[\s#`])+"
CITED: Final = re.compile(
    rf"\b({'|'.join(map(re.escape, DOCUMENTS))})`?[\s#]+({PLACE}(?:{BETWEEN}{PLACE})*)"
)
NAMELESS: Final = re.compile(rf"\b[Ss]pecifications?,?[\s#]+(?:sections?[\s#]+)?{PLACE}")


def places(document: str) -> set[str]:
    """Numbers of its sections, and ids that begin a row of its tables."""
    text = (SPEC / document).read_text()
    return {
        *re.findall(r"(?m)^##+ ([0-9]+(?:\.[0-9]+)?)\b", text),
        *re.findall(rf"(?m)^\| ({ID}) \|", text),
    }


PLACES: Final = {document: places(document) for document in DOCUMENTS}


def cited(text: str, own: str = "") -> Iterator[tuple[str, str]]:
    """Document and place of each citation. `own`: the document that the text is."""
    for found in CITED.finditer(text):
        yield from ((found[1], place) for place in re.findall(PLACE, found[2]))
    for place in re.findall(ID, CITED.sub("", text)):
        yield own or OF_ID[place[0]], place


def mistakes(text: str, own: str = "") -> list[str]:
    """Citations of what is not there, and those that name no document."""
    return [
        *(
            f"{document} {place}"
            for document, place in cited(text, own)
            if place not in PLACES[document]
        ),
        *NAMELESS.findall(text),
    ]


def sources() -> Iterator[Path]:
    """What people read in the repository: code, documents and scripts."""
    for top in ("actors", "examples", "tests", "wire"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in SUFFIXES and "golden" not in path.parts and path != Path(__file__):
                yield path
    yield from (
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "actors/ARCHITECTURE.md")
    )


def test_what_is_cited_is_there() -> None:
    found, count = [], 0
    for path in sources():
        text = path.read_text()
        own = path.name if path.parent == SPEC and path.name in DOCUMENTS else ""
        found += [f"{path.relative_to(ROOT)}: {each}" for each in mistakes(text, own)]
        count += len(CITED.findall(text))
    assert not found, "\n".join(found)
    assert count > 100, "it looks where the citations are"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_numbers_its_sections_in_order(document: str) -> None:
    text = (SPEC / document).read_text()
    numbers = [
        tuple(map(int, each.split("."))) for each in re.findall(r"(?m)^##+ ([0-9.]+\d|\d)", text)
    ]
    assert numbers == sorted(set(numbers))
    heads = [each[0] for each in numbers if len(each) == 1]
    assert heads == list(range(heads[0], heads[0] + len(heads)))
    assert {each[0] for each in numbers} == set(heads)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Upstream, 5.3.3; classic-ha.md 1.3, 2.3 and T2, T3, T8.", []),
        ("dledger.md 9 and 11.4, items 14 and 15; Raft 5.4.2", []),
        ("as `classic-ha.md` 4 says", []),
        ("# rules (dledger.md\n# 4.2)", []),
        ("dledger.md 6.9", ["dledger.md 6.9"]),
        ("dledger.md 4.1 to\n4.7, in 9.9 s", ["dledger.md 4.7"]),
        ("classic-ha.md 2.4 and T77", ["classic-ha.md T77"]),
        ("autoswitch-ha.md T49, broker.md T49", ["broker.md T49"]),
        ("known to all (T34), bug B14, bug V16", ["classic-ha.md T34", "dledger.md V16"]),
        ("specification section 2.4", ["specification section 2.4"]),
        ("the\nspecification T8", ["specification T8"]),
    ],
)
def test_planted_samples_are_found(text: str, expected: list[str]) -> None:
    assert mistakes(text) == expected
