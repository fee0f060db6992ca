"""A user's mistakes are said in one line; paths and patterns find the logs and their names."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path
from types import SimpleNamespace

import pytest
from sources_kit import LedgerWriter, LogWriter, messages, options_of

from actors.pipeline.errors import SourceError, line_of
from actors.pipeline.sources.formats import COMMIT_LOG, DLEDGER
from actors.pipeline.sources.log_files import LogFolder, logs_at

WRONG = [
    ({"colunms": "offset"}, "option colunms is unknown: did you mean columns?"),
    ({"columns": "offset,ofset"}, "option columns: 'ofset' is none of node, offset"),
    ({"columns": "offset,offset"}, "option columns: 'offset' twice"),
    ({"crc": "no"}, "option crc: expected true or false, found 'no'"),
    ({"damage": "ignore"}, "option damage: expected count or fail, found 'ignore'"),
    ({"from": "first"}, "option from: expected earliest, latest or an offset, found 'first'"),
    ({"from": "-1"}, "option from: expected earliest, latest or an offset, found '-1'"),
    ({"partition_bytes": "0"}, "option partition_bytes: expected a number from 1"),
    ({"batch_bytes": "1 MB"}, "option batch_bytes: expected a number from 0"),
    ({"record_bytes_max": "9999999999"}, "option record_bytes_max: expected a number from 128"),
    ({"path": ""}, "no path: which store?"),
]


@pytest.mark.parametrize(("given", "line"), WRONG)
def test_a_wrong_option_is_named(given: dict[str, str], line: str) -> None:
    with pytest.raises(SourceError) as caught:
        options_of(COMMIT_LOG, **{"path": "/x", **given})
    assert str(caught.value).startswith(line)


def test_a_ledger_has_no_crc_to_compare() -> None:
    with pytest.raises(SourceError, match="option crc is unknown"):
        options_of(DLEDGER, path="/x", crc="true")


def test_options_are_read_in_any_case_and_lists_have_commas() -> None:
    options = options_of(COMMIT_LOG, PATH="/a, /b", Columns="offset, size", FROM="17")
    assert (options.paths, options.columns) == (("/a", "/b"), ("offset", "size"))
    assert options.start == 17
    assert options_of(COMMIT_LOG, path="/a", columns="*").columns == tuple(COMMIT_LOG.columns)
    assert options_of(COMMIT_LOG, paths='["/a,b", "/c"]').paths == ("/a,b", "/c")


def test_the_line_is_found_in_whatever_spark_makes_of_it() -> None:
    error = SourceError("n0: no [such] thing")
    assert line_of(pickle.loads(pickle.dumps(error))) == "n0: no [such] thing"
    text = "".join(traceback.format_exception(error))
    assert line_of(RuntimeError(f"[SOME_ERROR] {text}\tat java")) == "n0: no [such] thing"
    assert line_of(RuntimeError("something else")) is None


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    for node in ("n0", "n1"):
        for group in ("orders", "other"):
            LogWriter(tmp_path / node / "groups" / group).append([node.encode()])
        LedgerWriter(tmp_path / node / "groups" / "ledger").append([b"x"])
        (tmp_path / node / "events").mkdir()
    return tmp_path


def names_at(*paths: object, names: tuple[str, ...] = ()) -> list[str]:
    return [log.name for log in logs_at([str(path) for path in paths], "commitlog", names)]


def test_logs_are_called_as_their_nodes(data_dir: Path) -> None:
    assert names_at(data_dir / "n0/groups/orders") == ["n0"]
    assert names_at(data_dir / "n0/groups/orders/") == ["n0"]
    assert names_at(data_dir / "n0/groups/orders/commitlog") == ["n0"]
    assert names_at(f"file://{data_dir}/n0/groups/orders") == ["n0"]
    assert names_at(data_dir / "*/groups/orders") == ["n0", "n1"]
    assert names_at(data_dir / "n[1-9]/groups/order?") == ["n1"]
    assert names_at(f"file://{data_dir}/*/groups/orders") == ["n0", "n1"]


def test_a_path_from_here_is_made_whole(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data_dir / "n0/groups/orders")
    (log,) = logs_at(["."], "commitlog")
    assert (log.name, log.folder) == ("n0", f"{data_dir}/n0/groups/orders/commitlog")


def test_names_can_be_given_and_must_differ(data_dir: Path) -> None:
    two = (data_dir / "n0/groups/orders", data_dir / "n0/groups/other")
    assert names_at(*two, names=("a", "b")) == ["a", "b"]
    with pytest.raises(SourceError, match="two logs are called 'n0': name all with option node"):
        names_at(*two)
    with pytest.raises(SourceError, match="1 name in option node for 2 logs"):
        names_at(*two, names=("a",))


def test_a_pattern_takes_the_stores_and_leaves_the_rest(data_dir: Path) -> None:
    rows = messages(data_dir / "*/groups/orders")
    assert [(row["node"], row["body"]) for row in rows] == [("n0", b"n0"), ("n1", b"n1")]
    assert [log.name for log in logs_at([f"{data_dir}/*/groups/*"], "data")] == ["n0", "n1"]


def test_a_folder_whose_name_looks_like_a_pattern_is_itself(data_dir: Path) -> None:
    """As the stores of a data directory that somebody called so."""
    odd = data_dir / "data [v2]*"
    LogWriter(odd / "n0/groups/orders").append([b"x"])
    LogWriter(data_dir / "data v/n7/groups/orders").append([b"y"])
    assert names_at(odd / "n0/groups/orders") == ["n0"]
    assert names_at(odd / "*/groups/orders") == ["n0"]
    assert names_at(data_dir / "data [v2]/*/groups/orders") == ["n7"]


def test_what_is_no_store_is_named(data_dir: Path) -> None:
    a_file = data_dir / "file"
    a_file.write_text("x")
    for path, line in (
        (data_dir / "nowhere", f"{data_dir}/nowhere: no such folder"),
        (a_file, f"{a_file}: a file, but a store is a folder"),
        (data_dir / "n0", f"{data_dir}/n0: no store: no folder commitlog in it"),
        (data_dir / "n0/groups/ledger", f"{data_dir}/n0/groups/ledger: no store: no folder"),
        (data_dir / "x*/groups/orders", f"{data_dir}/x*/groups/orders: no folder that fits"),
        (data_dir / "*/events", f"{data_dir}/*/events: no folder that fits"),
        ("gopher://x/y", "gopher://x/y: "),
    ):
        with pytest.raises(SourceError) as caught:
            names_at(path)
        assert str(caught.value).startswith(line)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("below", ["n0", "n0/", "*"])
def test_of_a_nodes_folder_the_stores_in_it_are_named(data_dir: Path, below: str) -> None:
    with pytest.raises(SourceError) as caught:
        names_at(data_dir / below)
    assert str(caught.value).endswith("; the stores of a node are in groups/orders, groups/other")


def test_files_of_two_sizes_are_no_log(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "n0")
    writer.append([b"x" * 900] * 9)
    first = writer.folder / f"{0:020d}"
    first.write_bytes(first.read_bytes() + b"x")
    with pytest.raises(SourceError, match="its 4097 bytes reach over the start of the next file"):
        messages(tmp_path / "n0")


def test_what_cannot_be_read_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LogWriter(tmp_path / "n0").append([b"x"])
    folder = LogFolder(logs_at([str(tmp_path / "n0")], "commitlog")[0])
    (segment,) = folder.segments()

    def refuse(*_: object) -> None:
        raise PermissionError("not for you\nat java.lang")

    system = SimpleNamespace(get_file_info=refuse, open_input_file=refuse)
    monkeypatch.setattr(folder, "_system", system)
    for work in (folder.segments, lambda: folder.open(segment)):
        with pytest.raises(SourceError, match=r"not for you$"):
            work()


def test_other_files_in_the_folder_are_not_looked_at(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "n0")
    writer.append([b"x"])
    (writer.folder / ".hidden").write_bytes(b"x")
    (writer.folder / "99999999999999999999").write_bytes(b"x")  # above any offset
    (writer.folder / f"{1 << 20:020d}").mkdir()
    assert len(LogFolder(logs_at([str(writer.folder)], "commitlog")[0]).segments()) == 1
