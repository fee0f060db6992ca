"""The page from facts by hand: nothing of a log becomes markup, and nothing is loaded."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.resources import files

import attrs
import pytest
from facts_kit import boot, facts, line, outage, span, verdict
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.pipeline.report import cells
from actors.pipeline.report.drawing import VARIABLES, waited
from actors.pipeline.report.facts import OutageCount, ProcessCounts
from actors.pipeline.report.html import element, text
from actors.pipeline.report.page import POLICY, page
from actors.pipeline.report.summary import summary
from actors.pipeline.verdicts import Checked, CheckedLog, Verdicts, Word, looked_at
from actors.readable import readable

EVIL = "</title><script>alert(1)</script>\u202e\x00\ud800'\"&"
VOID = {"meta", "link", "br"}


class Reader(HTMLParser):
    """What a browser makes of a page: its elements, its attributes, and whether it is nested."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(markup)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def values(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


@pytest.fixture(scope="module")
def good() -> str:
    return page(facts())


def test_nothing_is_loaded_and_nothing_runs(good: str) -> None:
    read = Reader(good)
    assert not {"script", "img", "iframe", "object", "form", "base"} & set(read.tags)
    assert POLICY in read.values("content")
    links = read.values("href") + read.values("src") + re.findall(r"url\(([^)]*)\)", good)
    assert all(each.startswith("#") or each == "data:," for each in links)
    assert "@import" not in good
    assert not [key for key, _ in read.attributes if key.startswith("on")]


def test_every_reference_has_one_target(good: str) -> None:
    read = Reader(good)
    identities = read.values("id")
    assert len(identities) == len(set(identities))
    aimed = {each.removeprefix("#") for each in read.values("href") if each.startswith("#")}
    for key in ("aria-labelledby", "aria-describedby"):
        aimed |= {name for value in read.values(key) for name in value.split()}
    aimed |= {each.removeprefix("#") for each in re.findall(r"url\((#[^)]*)\)", good)}
    assert aimed <= set(identities)
    assert {"audits", "timeline", "lag"} <= aimed


def test_what_audits_found_comes_first_and_what_held_is_folded_behind_the_pictures(
    good: str,
) -> None:
    names = ["acknowledged_survives", "nothing_dropped", "one_leader_per_term", "snapshots_rise"]
    places = [good.index(f" {name}<") for name in names]
    assert places == sorted(places)
    assert places[1] < good.index("<svg") < good.rindex("</svg>") < places[2]
    folds = [good.rindex("<details", 0, place) for place in places[2:]]
    assert good.startswith("<details><summary>✓ 1 held, 1,234 rows looked at<", folds[0])
    assert good.startswith("<details><summary>– 1 not applicable<", folds[1])
    assert "✗ 1 violated, ! 1 warning, ✓ 1 held, – 1 not applicable" in good
    assert good.count(">1 of 1 finding<") == 1, "a title is not said twice"
    assert "No snapshot was saved." in good


def test_an_audit_of_logs_says_how_many_it_read() -> None:
    logs = tuple(
        CheckedLog(group="g", node=node, records=2, size_bytes=9, first=0, last=1)
        for node in ("n0", "n1")
    )
    assert looked_at(verdict("a", checked=Checked(rows=4, logs=logs))) == "4 rows of 2 logs"
    assert looked_at(verdict("a")) == "1,234 rows of 1 boot"


def test_a_witness_is_shown_in_the_unit_of_its_heading() -> None:
    """It stands as the verdict has it, in microseconds; "most, s" made a million of each second."""
    back = verdict("a", "violated", witnesses=({"node": "n1", "most_us": 1_500_000},))
    read = Reader(page(facts(verdicts=Verdicts(made_at_us=0, audits=(back,)))))
    at = read.texts.index("most, µs")
    assert read.texts[at - 1 : at + 3] == ["node", "most, µs", "n1", "1500000"]
    assert "most, s" not in read.texts
    assert cells.plain_heading("first_line") == "first line"


def test_what_logs_hold_is_text_everywhere() -> None:
    changed = facts(
        data=f"/srv/{EVIL}",
        verdicts=Verdicts(
            made_at_us=0,
            audits=(verdict(EVIL, "violated", claim=EVIL, note=EVIL, witnesses=({EVIL: EVIL},)),),
        ),
        roles=(span(EVIL, EVIL, "leader", 0, 60, 1), span("g", "n0", EVIL, 0, 60, 1)),
        lag=(line(EVIL, EVIL, EVIL, 1, 2, 3),),
        throughput=(line(EVIL, EVIL, EVIL, 1, 2, 3),),
        hidden=(EVIL,),
    )
    changed = attrs.evolve(
        changed,
        boots=tuple(attrs.evolve(each, node=EVIL) for each in changed.boots),
        processes=attrs.evolve(changed.processes, nodes=(EVIL, "n0")),
        outages=tuple(attrs.evolve(each, group=EVIL, from_node=EVIL) for each in changed.outages),
        waits=tuple(attrs.evolve(each, group=EVIL) for each in changed.waits),
        tables=tuple(attrs.evolve(each, rows=({EVIL: EVIL},)) for each in changed.tables),
    )
    made = page(changed)
    made.encode()
    read = Reader(made)
    assert "script" not in read.tags
    assert not {"\u202e", "\x00", "\ud800"} & set(made)
    assert "alert(1)" in "".join(read.texts)


@given(st.text())
@settings(max_examples=200)
def test_any_string_is_one_text(value: str) -> None:
    read = Reader(str(element("p", value, title=value)))
    assert read.tags == ["p"]
    assert "".join(read.texts) == readable(value)
    assert read.values("title") == [readable(value)]


def test_long_strings_are_cut() -> None:
    assert readable("x" * 50, 10) == "x" * 9 + "…"
    assert readable("x" * 10, 10) == "x" * 10
    assert str(text("a<b")) == "a&lt;b"


def test_colours_are_the_pages_and_can_be_read_in_both_themes(good: str) -> None:
    style = files("actors.pipeline.report").joinpath("style.css").read_text()
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w{6});", part)) for part in style.split("@media")[:2]
    )
    assert set(light) == set(dark) >= set(VARIABLES.values())
    for theme in (light, dark):
        for name in ("ink", "faint", "bad", "warn", "good", "series-0"):
            assert contrast(theme[name], theme["paper"]) >= 4.5, name
            assert contrast(theme[name], theme["raised"]) >= 4.5, name
        for number in range(6):
            assert contrast(theme[f"series-{number}"], theme["paper"]) >= 3
    drawn = re.findall(r"<svg.*?</svg>", good, re.S)
    assert len(drawn) == 8  # four pictures, each for two widths
    assert not [each for each in drawn if re.search(r"#0100\d\d|font-family", each)]
    assert "var(--series-0)" in drawn[0]


def contrast(one: str, two: str) -> float:
    """As WCAG 2 has it."""
    bright, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def luminance(color: str) -> float:
    parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_without_any_event_there_is_a_page() -> None:
    empty = facts(
        axis=None, boots=(), roles=(), lag=(), throughput=(), outages=(), waits=(), tables=()
    )
    made = page(empty)
    assert "The data directory has no events." in made
    assert "<svg" not in made


def test_a_page_stays_small_at_its_bounds(good: str) -> None:
    """Its curves have their most points, and its tables their most rows."""
    from actors.pipeline.report.facts import BUCKETS_MAX, GROUPS_MAX, LINES_MAX, SPANS_MAX

    zigzag = [float(number * 7919 % 100_003) for number in range(60)] * (BUCKETS_MAX // 60)
    groups = [f"group{number}" for number in range(GROUPS_MAX)]
    lines = tuple(line(g, f"n{n}", "bytes", *zigzag) for g in groups for n in range(LINES_MAX))
    spans = tuple(
        span(groups[n % GROUPS_MAX], f"n{n % 3}", "leader", n * 60 / SPANS_MAX, 60, n)
        for n in range(SPANS_MAX)
    )
    rates = tuple(line(group, "", "records", *zigzag) for group in groups)
    assert len(page(facts(lag=lines, roles=spans, throughput=rates)).encode()) < 3_000_000


def test_the_summary_says_what_the_page_says() -> None:
    found = summary(facts(), "/srv/report.html")
    assert found["failed"] is True
    assert [each["verdict"] for each in found["verdicts"]["audits"]] == [
        *("held", "violated", "violated", "not_applicable"),
    ]
    orders = found["summary"]["groups"]["orders"]
    assert orders["outages"] == 1
    assert orders["outage_worst_s"] == 4
    assert orders["lag_worst"]["n2"] == 9 << 20
    assert (orders["writes"], orders["records"]) == (50_000, 80_000)
    assert set(orders["waits_ms"]) == {"50 %", "90 %", "99 %", "99.9 %", "worst"}
    assert found["summary"]["groups"]["ledger"]["writes"] is None
    assert found["summary"]["killed"] == 2


def test_processes_that_are_not_listed_are_counted() -> None:
    """A crash loop is more than the page lists; its numbers are of all."""
    all_of_them = ProcessCounts(
        nodes=("n0", "n1", "n2", "n9"), boots=1500, killed=1400, unended=1402
    )
    found = facts(processes=all_of_them)
    made = page(found)
    assert "events of 1,500 boots of 4 nodes" in made
    assert "the 3 newest of 1,402" in made
    assert "1,500 processes of 4 nodes, 1,400 of them killed, 0 gave up" in made
    said = summary(found, "r")["summary"]
    assert (said["boots"], said["killed"], said["nodes"]) == (1500, 1400, ["n0", "n1", "n2", "n9"])
    assert "1,402 older" in page(facts(boots=facts().boots[:1], processes=all_of_them))


def test_intervals_and_leaders_that_are_not_drawn_are_counted() -> None:
    made = page(facts(roles_count=6000, led={"ledger": 700}))
    assert "15 of 6,000 intervals" in made
    assert "ledger: 700 times a new one led; orders: 0 times" in made


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (("held", "not_applicable"), "held"),
        (("held", "violated"), "violated"),
        (("not_applicable",), "not_applicable"),
        ((), ""),
    ],
)
def test_nothing_is_green_where_nothing_was_judged(told: tuple[Word, ...], kind: str) -> None:
    audits = tuple(verdict(f"a{number}", word) for number, word in enumerate(told))
    verdicts = Verdicts(made_at_us=0, audits=audits)
    assert cells.worst(verdicts) == kind
    assert f'class="{f"sum {kind}".strip()}"' in page(facts(verdicts=verdicts))


def test_a_warning_is_not_green() -> None:
    verdicts = Verdicts(
        made_at_us=0, audits=(verdict("a"), verdict("b", "violated", severity="warning"))
    )
    assert cells.worst(verdicts) == "warning"


def test_a_process_that_gave_up_did_not_stop_in_order() -> None:
    """Its own last event says why; who perhaps still runs is not said to be killed."""
    told = (
        boot("n0", 1, 0, 60, stop_reason="ordered"),
        boot("n1", 1, 0, 20),
        boot("n1", 2, 23, 60, stop_reason="OSError: no room", is_last=True),
        boot("n2", 1, 0, 60, is_last=True),
    )
    assert [each.end for each in told] == ["stopped", "killed", "gave up", "open"]
    found = facts(boots=told)
    assert found.processes == ProcessCounts(
        nodes=("n0", "n1", "n2"), boots=4, killed=1, gave_up=1, unended=3
    )
    made = page(found)
    assert "4 processes of 3 nodes, 1 of them killed, 1 gave up" in made
    listed = made[made.index("Processes without an end in order") :]
    for end in ("it was killed", "it gave up: OSError: no room", "none yet: it runs"):
        assert end in listed
    assert "it stopped in order" not in listed
    assert summary(found, "r")["summary"]["gave_up"] == 1


def test_what_is_cut_is_said_to_programs_too() -> None:
    cut = facts(hidden=("The lag of 3 more followers of orders is missing.",))
    assert summary(cut, "r")["summary"]["hidden"] == [
        "The lag of 3 more followers of orders is missing."
    ]
    assert "The lag of 3 more followers of orders is missing." in page(cut)


def test_a_real_outage_is_not_lost_among_pauses_and_silences() -> None:
    """However many and long these are; and what is cut says so, on the page and in JSON."""
    silences = [attrs.evolve(outage("orders", n, n + 9), witnessed=False) for n in range(60)]
    pauses = [outage("orders", n, n + 0.1 + n / 100) for n in range(70)]
    real = [
        attrs.evolve(outage("orders", begin, begin + took), from_node=name)
        for begin, took, name in ((20, 1, "second"), (65, 30, "first"))
    ]
    counts = OutageCount(outages=2, pauses=700, silences=3600, worst_us=30_000_000)
    found = facts(outages=(*silences, *pauses, *real), all_outages={"": counts, "orders": counts})
    made = page(found)
    title = "Outages: somebody waited for 1 s or longer; 2 of 2, the longest first"
    table = made[made.index(title) :]
    assert 0 < table.index("<td>first</td>") < table.index("<td>second</td>")
    for title in (
        "Short pauses: somebody waited for 0.1 s to 1 s; 50 of 700, the longest first; 650 more, "
        "none of them longer",
        "Silences: for more than 0.1 s no answer, and nobody is known to have waited; 50 of 3,600, "
        "the longest first; 3,550 more, none of them longer",
    ):
        assert f"<summary>{title}</summary>" in made
    assert ">0.790</td>" in made
    assert ">0.200</td>" not in made, "of pauses the longest"
    orders = summary(found, "r")["summary"]["groups"]["orders"]
    shown = [orders[name] for name in ("outages", "pauses", "outage_worst_s", "silences")]
    assert shown == [2, 700, 30, 3600]


def test_the_course_of_a_run_is_said_before_any_picture() -> None:
    counts = OutageCount(outages=2, pauses=1, silences=9, worst_us=6_240_000)
    ends = ProcessCounts(nodes=("n0",), boots=1500, killed=1400, gave_up=1, unended=1402)
    said = "1,400 of 1,500 processes killed, 1 gave up"
    made = page(facts(processes=ends, all_outages={"": counts, "orders": OutageCount()}))
    stood = "Writes stood still 2 times for 1 s or longer, 1 time for less, the longest 6.2 s."
    assert made.index(stood) < made.index(said) < made.index("<main>")
    quiet = facts(processes=ProcessCounts(nodes=("n0",), boots=1), all_outages={})
    assert cells.course(quiet) == "none of 1 process killed"
    assert cells.course(facts(processes=ProcessCounts())) == "", (
        "without a process there is nothing to say"
    )


@pytest.mark.parametrize(
    ("ms", "said"),
    [(0.25, "0.25 ms"), (999.4, "999 ms"), (999.6, "1 s"), (2184, "2.18 s"), (4e6, "4,000 s")],
)
def test_a_wait_is_said_in_the_unit_that_fits(ms: float, said: str) -> None:
    assert waited(ms) == said


def test_a_page_without_an_outage_says_from_when_on_it_would_be_one() -> None:
    made = page(facts(outages=(), all_outages={}))
    rest = made[made.index("Outages: somebody waited for 1 s or longer<") :]
    assert rest.index("None.") < rest.index("</section>")
    assert "Short pauses" not in made


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("took_us", 1_500_000, "1.500"),
        ("from_us", 0, "1970-01-01 00:00:00"),
        ("minute", 1, "1970-01-01 00:01"),
        ("records", 1234567, "1,234,567"),
        ("boot", 1234567, "1234567"),
        ("witnessed", True, "yes"),
        ("after", None, "–"),
    ],
)
def test_cells(column: str, value: object, expected: str) -> None:
    assert cells.cell(column, value) == expected


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("took_us", "took, s"),
        ("took_s", "took, s"),
        ("worst_lag_s", "worst lag, s"),
        ("mean_per_s", "mean per s"),
        ("highest_per_s", "highest per s"),
        ("from_us", "from"),
        ("received_bytes", "received, bytes"),
        ("timed_out", "timed out"),
    ],
)
def test_headings(column: str, expected: str) -> None:
    """A rate is no time."""
    assert cells.heading(column) == expected
