"""Event files, whole and damaged in every way. Starts no Spark."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from actors.pipeline import event_files
from actors.pipeline.errors import PipelineError
from actors.pipeline.event_files import Part, parts_of, read_files
from actors.pipeline.locations import (
    Location,
    check_claimed,
    claim,
    event_folders,
    event_pattern,
    other_formats,
)
from actors.storage.node.event_files import compress

LINES = [f"line {number}" for number in range(30)]
MEMBERS = [
    compress([f"{line}\n".encode() for line in LINES[at : at + 10]]) for at in range(0, 30, 10)
]
FILE = b"".join(MEMBERS)


def lines_of(raw: bytes) -> tuple[list[str], str]:
    """All lines of a file, and what is wrong with it."""
    parts = list(parts_of(raw))
    problems = [part.problem for part in parts if part.problem]
    assert len(problems) <= 1
    assert problems in ([], [parts[-1].problem])
    return [line for part in parts for line in part.lines], "".join(problems)


def test_members_that_a_node_writes_are_read_whole() -> None:
    assert lines_of(FILE) == (LINES, "")


def test_plain_lines_are_read_too() -> None:
    assert lines_of(gzip.decompress(FILE)) == (LINES, "")


def test_a_file_cut_anywhere_gives_what_is_readable_and_says_so() -> None:
    """Never raises, invents nothing, and is silent only where a member ends."""
    ends = {sum(map(len, MEMBERS[:count])) for count in (1, 2, 3)}
    for cut in range(len(FILE)):
        found, problem = lines_of(FILE[:cut])
        assert (problem == "") == (cut in ends), cut
        whole = sum(10 for end in ends if end <= cut)
        assert found[:whole] == LINES[:whole]
        for line, told in zip(found[:-1], LINES, strict=False):
            assert line == told


@pytest.mark.parametrize("at", [0, 1, 3, 12, len(MEMBERS[0]), len(MEMBERS[0]) + 15])
def test_a_flipped_byte_is_told(at: int) -> None:
    damaged = bytearray(FILE)
    damaged[at] ^= 0xFF
    found, problem = lines_of(bytes(damaged))
    if at < 2:
        assert found != LINES  # it is no gzip any more: lines that are no events
    elif at != 9:
        assert "damaged" in problem or found != LINES


def test_a_half_written_last_line_is_kept_and_told() -> None:
    assert lines_of(b'{"a":1}\n{"b"') == (['{"a":1}', '{"b"'], "the last line has no end")


ENVELOPE = '{"node":"n","boot":1,"seq":1,"path":"/n","incarnation":0,"ts_us":5,"kind":"K"}'


@pytest.mark.parametrize("rows_max", [1, 20_000])
@pytest.mark.parametrize(
    ("raw", "problems"),
    [
        (f"{ENVELOPE}\nhalf", [None, "the last line has no end"]),
        (f"half\n{ENVELOPE}\n[", [event_files.NO_JSON, None, "the last line has no end"]),
        (ENVELOPE, [None, "the last line has no end"]),
        (f"{ENVELOPE}\n", [None]),
    ],
    ids=["half", "behind another", "whole but for its end", "whole"],
)
def test_a_half_written_last_line_is_one_problem(
    raw: str,
    problems: list[str | None],
    rows_max: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That it is no event and that it has no end are the same."""
    monkeypatch.setattr(event_files, "ROWS_MAX", rows_max)
    (tmp_path / "x").write_text(raw)
    rows = [row for batch in read_files([f"{tmp_path}/x"]) for row in batch.to_pylist()]
    assert [row["problem"] for row in rows] == problems
    assert [row["line_number"] for row in rows if row["problem"] is not None] == [
        number for number, problem in enumerate(problems, 1) if problem is not None
    ]


def test_what_breaks_off_within_a_line_is_one_problem(tmp_path: Path) -> None:
    """A file that is damaged behind a whole line has one too: a row of its own."""
    lines = [f"{ENVELOPE}\n" for _ in range(400)]
    raw = gzip.compress("".join(lines).encode(), 0)
    (tmp_path / "x").write_bytes(raw[: len(raw) // 2])
    (tmp_path / "y").write_bytes(raw + b"junk")
    for name, broken in (("x", ENVELOPE[:-1]), ("y", "")):
        rows = [row for batch in read_files([f"{tmp_path}/{name}"]) for row in batch.to_pylist()]
        (bad,) = [row for row in rows if row["problem"] is not None]
        assert bad == rows[-1]
        assert bad["problem"].startswith("damaged in the gzip member at byte ")
        assert broken.startswith(bad["line"] or "")


def test_an_empty_file_is_told() -> None:
    assert lines_of(b"") == ([], "the file is empty")


def test_what_unpacks_without_end_is_stopped() -> None:
    line = b"x" * 199 + b"\n"
    raw = gzip.compress(line * 5000)
    parts = list(parts_of(raw, unpacked_max=1000))
    assert sum(len(part.lines) for part in parts) == 5
    assert "more than 1000 bytes unpacked" in parts[-1].problem
    whole = list(parts_of(raw, unpacked_max=5000 * 200))
    assert sum(len(part.lines) for part in whole) == 5000
    assert whole[-1].problem == ""


@pytest.mark.parametrize("junk", [b"\n", b"{}\n", b"0123456789" * 7 + b"\n"], ids=len)
@pytest.mark.parametrize("zipped", [True, False])
def test_lines_without_an_event_are_bounded(junk: bytes, zipped: bool) -> None:
    """64 KiB of zipped newlines took 727 MB, and would be 64 million rows."""
    data = f"{ENVELOPE}\n".encode() + junk * (8_000_000 // len(junk))
    raw = gzip.compress(data) if zipped else data
    tracemalloc.start()
    try:
        found = parts_of(raw)
        lines, problem = 0, ""
        for part in found:
            assert len(part.lines) <= event_files.ROWS_MAX
            lines, problem = lines + len(part.lines), part.problem
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert lines <= event_files.ROWS_MAX
    assert problem == "more than 1000 lines hold no event"
    assert peak < 32 * event_files.PIECE_BYTES


def test_a_line_without_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_files, "PIECE_BYTES", 1000)
    monkeypatch.setattr(event_files, "LINE_BYTES_MAX", 5000)
    good = f"{ENVELOPE}\n".encode()
    assert lines_of(gzip.compress(good + b"x" * 9000)) == (
        [ENVELOPE],
        "a line is longer than 5000 bytes",
    )
    assert lines_of(good + b"x" * 4000 + b"\n") == ([ENVELOPE, "x" * 4000], "")


@pytest.mark.parametrize("piece_bytes", [1, 7, 4096])
def test_pieces_of_every_size_are_the_same_lines(
    piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also letters of several bytes, which a piece may end within."""
    lines = [f"{number} é 漢 {ENVELOPE}" for number in range(50)]
    data = "".join(f"{line}\n" for line in lines).encode()
    monkeypatch.setattr(event_files, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(event_files, "INPUT_BYTES", piece_bytes)
    for raw in (data, gzip.compress(data), gzip.compress(data[:999]) + gzip.compress(data[999:])):
        assert lines_of(raw) == (lines, "")


def test_no_utf8_is_no_reason_to_stop() -> None:
    assert lines_of(b"\xff\xfe\n") == (["\ufffd\ufffd"], "")


def test_a_worker_gives_every_line_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_files, "ROWS_MAX", 7)
    (tmp_path / "a b%20[c].jsonl.gz").write_bytes(FILE[:-3])
    paths = [f"file:{tmp_path}/a b%20[c].jsonl.gz"]
    rows = [row for batch in read_files(paths) for row in batch.to_pylist()]
    assert [row["line"] for row in rows] == [*LINES, None]
    assert [row["line_number"] for row in rows] == list(range(1, 32))
    assert [row["problem"] for row in rows[:30]] == [event_files.NO_JSON] * 30
    assert rows[30]["problem"].startswith("damaged in the gzip member at byte ")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("", ""), None),
        (('"seq":1', f'"seq":{2**62}'), None),
        (('"seq":1', f'"seq":{2**62 + 1}'), event_files.NO_EVENT),
        (('"seq":1', f'"seq":{2**63}'), event_files.NO_EVENT),
        (('"seq":1', '"seq":-1'), event_files.NO_EVENT),
        (('"boot":1', f'"boot":{2**63 - 1}'), event_files.NO_EVENT),
        (('"incarnation":0', '"incarnation":-1'), event_files.NO_EVENT),
        (('"ts_us":5', f'"ts_us":{2**57}'), None),
        (('"ts_us":5', f'"ts_us":{2**57 + 1}'), event_files.NO_EVENT),
        (('"seq":1', '"seq":"1"'), event_files.NO_EVENT),
        (('"seq":1', '"seq":null'), event_files.NO_EVENT),
        (('"kind":"K"', '"sort":"K"'), event_files.NO_EVENT),
        (('"K"', f'"K{"k" * 99}"'), None),
        (('"K"', f'"K{"k" * 100}"'), event_files.NO_EVENT),
        (('"K"', '""'), event_files.NO_EVENT),
        (('"K"', '"K\\n"'), event_files.NO_EVENT),
        (('"K"', '"../K"'), event_files.NO_EVENT),
        (('"K"', '"\u00c4"'), event_files.NO_EVENT),
        (('"K"', '"__HIVE_DEFAULT_PARTITION__"'), event_files.NO_EVENT),
        (("{", "[{"), event_files.NO_EVENT),
        (('"kind":"K"}', '"kind":"K"'), event_files.NO_JSON),
        (('"K"', '"\\ud800"'), event_files.NO_JSON),
    ],
)
def test_a_line_is_an_event_if_its_envelope_is_whole(
    change: tuple[str, str], problem: str | None
) -> None:
    line = '{"node":"n","boot":1,"seq":1,"path":"/n","incarnation":0,"ts_us":5,"kind":"K"}'
    (batch,) = event_files.rows_of("f", [Part(lines=[line.replace(*change)])])
    (row,) = batch.to_pylist()
    assert row["problem"] == problem
    assert (row["node"] is None) == (problem is not None)
    assert row["line"] == line.replace(*change)
    assert (row["file"], row["line_number"]) == (("f", 1) if problem else (None, None))


def folder(root: Path, *names: str) -> Location:
    for name in names:
        (root / name).mkdir(parents=True)
    return Location(str(root))


def test_a_cluster_a_node_or_the_logs_themselves_are_found(tmp_path: Path) -> None:
    data = folder(tmp_path / "[x]", "n0/events/v=1/dt=1", "n0/groups", "n1/events/v=1", "n2/events")
    assert [str(each) for each in event_folders(data)] == [f"{data}/n0/events", f"{data}/n1/events"]
    assert event_pattern(data) == f"{tmp_path}/\\[x\\]/*/events/v=1"
    for alone in (data / "n0", data / "n0" / "events"):
        assert event_pattern(alone) == f"{tmp_path}/\\[x\\]/n0/events/v=1"


def test_a_claim_that_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    """Killed between the note and its renaming; anything else is not ours."""
    layer, data = folder(tmp_path / "out", "bronze") / "bronze", Location("/data")
    (tmp_path / "out/bronze/source.json.new").write_text('{"da')
    claim(layer, data)
    check_claimed(layer, data)
    assert layer.children() == ["source.json"]
    (tmp_path / "out/bronze/source.json").rename(tmp_path / "out/bronze/source.json.old")
    with pytest.raises(PipelineError, match="something else is in it"):
        claim(layer, data)


def test_another_format_beside_ours_is_named(tmp_path: Path) -> None:
    data = folder(tmp_path, "n0/events/v=1", "n0/events/v=2")
    assert other_formats(event_folders(data)) == [f"{tmp_path}/n0/events/v=2"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "no event logs here, it is empty"),
        (["n0/groups"], "no NODE/events/v=1/ in it"),
        (["n0/events/v=7"], "event logs of format v=7; this version reads v=1"),
    ],
)
def test_what_is_no_data_directory_is_named(tmp_path: Path, names: list[str], words: str) -> None:
    data = folder(tmp_path, *names)
    with pytest.raises(PipelineError) as caught:
        event_folders(data)
    assert str(caught.value).startswith(f"{tmp_path}: ")
    assert words in str(caught.value)
