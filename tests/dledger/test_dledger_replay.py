"""In the place of each recorded Java node, a member of ours gives the same answers.

Where it does not, `replay_differences` has the fields and the reason, and nothing besides.
"""

from __future__ import annotations

import golden_dledger as golden
import pytest
from entry_kit import new_entry
from replay_differences import DIFFERENCES, Difference
from replay_kit import Replay, Story, reported
from replay_rows import Answer, rows

from wire.dledger.entry import (
    Entry,
)

SERIES = golden.SCENARIOS[:10]
"""One group's life; the last two are groups of their own."""
kill, start, silence, cut = Replay.kill, Replay.start, Replay.silence, Replay.cut


async def behind_the_leader(replay: Replay) -> None:
    await replay.follow("n2", 1)


async def leading(replay: Replay) -> None:
    await replay.lead(1)


def log(*terms: int) -> tuple[Entry, ...]:
    """As in 12: of each term, an entry as long as the recorded ones."""
    entries: list[Entry] = []
    for index, term in enumerate(terms):
        pos = entries[-1].pos + entries[-1].size if entries else 0
        body = b"body-%d-bod" % index if index < 3 else b"kept" if term == 2 else b"lost"
        entries.append(new_entry(index=index, term=term, pos=pos, body=body))
    return tuple(entries)


async def behind_one_that_went_on(replay: Replay) -> None:
    leader = "n2" if replay.node == "n0" else "n0"
    await replay.follow("n1", 1, log(1, 1, 1))
    await replay.follow(leader, 2, log(1, 1, 1, 2, 2)[2:])


async def in_the_third_term(replay: Replay) -> None:
    await replay.follow("n2", 3, log(1, 1, 1, 2, 2)[4:])


async def leading_the_third_term(replay: Replay) -> None:
    await replay.silence()
    await replay.lead(3)


async def ahead_alone(replay: Replay) -> None:
    await replay.follow("n0", 1, log(1, 1, 1, 1, 1, 1, 1))
    await replay.silence()


STORIES = {
    "n0": Story(node="n0", scenarios=SERIES[:9], before={"05": (silence,), "07": (silence,)}),
    "n0, emptied": Story(node="n0", scenarios=SERIES[9:]),
    "n1": Story(
        node="n1",
        scenarios=SERIES,
        before={"05": (kill,), "06": (start,), "07": (silence,)},
    ),
    "n2": Story(
        node="n2",
        scenarios=SERIES,
        before={"05": (silence,), "07": (cut,), "08": (kill, start)},
    ),
    "n0, batches": Story(
        node="n0", scenarios=("11-batch-push",), before={"11": (behind_the_leader,)}
    ),
    "n1, batches": Story(
        node="n1", scenarios=("11-batch-push",), before={"11": (behind_the_leader,)}
    ),
    "n2, batches": Story(node="n2", scenarios=("11-batch-push",), before={"11": (leading,)}),
    "n0, beside": Story(
        node="n0",
        scenarios=("12-compare-steps-down",),
        before={"12": (behind_one_that_went_on, in_the_third_term)},
    ),
    "n1, conflicts": Story(
        node="n1", scenarios=("12-compare-steps-down",), before={"12": (ahead_alone,)}
    ),
    "n2, leads": Story(
        node="n2",
        scenarios=("12-compare-steps-down",),
        before={"12": (behind_one_that_went_on, leading_the_third_term)},
    ),
}
EXPECTED: dict[str, Difference] = {
    place: difference for difference in DIFFERENCES for place in difference.places
}
STORES = {"n0, emptied": "store-n0", "n1": "store-n1", "n2": "store-n2"}
"""Whose logs are there at the end."""


def wrong(answer: Answer) -> str | None:
    """What is not as recorded, and not a difference on purpose."""
    expected = EXPECTED.get(answer.place)
    java, ours = answer.difference
    if (java, ours) == (({}, {}) if expected is None else (expected.java, expected.ours)):
        return None
    return f"{answer.place}: Java {java}, ours {ours}"


@pytest.mark.checklist(5, 9, 11, of="dledger")
@pytest.mark.parametrize("name", STORIES)
async def test_a_recorded_node_is_replaced(name: str, autojump_clock: object) -> None:
    story = STORIES[name]
    async with reported(story) as replay:
        assert [found for answer in replay.answers if (found := wrong(answer))] == []
        places = {answer.place for answer in replay.answers}
        assert len(places) == len(replay.answers) > 0
        if name in STORES:
            ours, java = replay.data_files(), golden.files(STORES[name], "data")
            assert all(ours[start] == content for start, content in java.items())


def test_every_recorded_answer_is_in_one_story() -> None:
    told_of = [(scenario, story.node) for story in STORIES.values() for scenario in story.scenarios]
    assert len(set(told_of)) == len(told_of)
    recorded = {
        (scenario, row.server)
        for scenario in golden.SCENARIOS
        for row in rows(scenario)
        if row.is_reply
    }
    assert recorded <= set(told_of)


def test_every_difference_is_of_a_recorded_answer() -> None:
    replies = {
        Answer(row, row.frame, row.frame).place
        for scenario in golden.SCENARIOS
        for row in rows(scenario)
        if row.is_reply
    }
    places = [place for difference in DIFFERENCES for place in difference.places]
    assert len(set(places)) == len(places)
    assert set(places) <= replies
