"""`triolog namesrv`: what it takes, what it says, how it ends."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from free_ports import free_port
from namesrv_kit import table
from registering import encode_registration

from actors.namesrv.command_line import Arguments, parse, run_command_line
from actors.own_process import as_triolog
from wire.broker.codes import RequestCode
from wire.remoting.frame import Decoder, Frame, encode_frame
from wire.remoting.header import Header

LINE_S = 60.0
EXPECTED = "--listen: expected HOST:PORT, such as 127.0.0.1:9876"


def test_what_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    default = Arguments(host="127.0.0.1", port=9876, data=f"{tmp_path}/var/namesrv")
    assert parse([]) == default
    said = ["--listen", "[::1]:7", "--data", "x"]
    assert parse(said) == Arguments(host="::1", port=7, data=f"{tmp_path}/x")
    assert parse(["--listen=0.0.0.0:9876"]).host == "0.0.0.0"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--listen", "9876"], f"{EXPECTED}, found '9876'"),
        (["--listen", ":9876"], f"{EXPECTED}, found ':9876'"),
        (["--listen", "localhost:1"], "--listen: expected an IP address, found 'localhost'"),
        (["--listen", "127.0.0.1:0"], "--listen: expected a port of 1 to 65535, found 0"),
        (["--listen", "127.0.0.1:99999"], "--listen: expected a port of 1 to 65535, found 99999"),
        (["--data", ""], "--data: expected a folder, found ''"),
        (["--data"], "argument --data: expected one argument (see --help)"),
        (["x"], "unrecognized arguments: x (see --help)"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(words) == 2
    shown = capsys.readouterr()
    assert shown.err == f"triolog: {line}\n"
    assert not shown.out


@pytest.mark.real_io
def test_a_port_that_is_taken_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["--listen", f"127.0.0.1:{port}", "--data", str(tmp_path)]
        assert run_command_line(words) == 2
    why = os.strerror(errno.EADDRINUSE)
    assert capsys.readouterr().err.startswith(
        f"triolog: --listen: cannot listen on 127.0.0.1:{port}: {why}"
    )


@pytest.mark.real_io
def test_an_address_of_another_machine_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--listen", "192.0.2.1:9876", "--data", str(tmp_path)]
    assert run_command_line(words) == 2
    assert capsys.readouterr().err.startswith(
        "triolog: --listen: cannot listen on 192.0.2.1:9876: this machine does not have the address"
    )


@pytest.mark.real_io
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: folder.write_text(""), "cannot be used as a data directory"),
        (lambda folder: (folder.mkdir(), (folder / "kvConfig.json").write_text("{")),
         "kvConfig.json: cannot be read: body of KVConfig: Input data was truncated"),
        (lambda folder: (folder.mkdir(), (folder / "namesrv.properties").write_text("a=\\u1")),
         "namesrv.properties: cannot be read: unfinished unicode escape in properties"),
    ],
)  # fmt: skip
def test_a_folder_that_cannot_be_used_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: object, says: str
) -> None:
    folder = tmp_path / "data"
    assert callable(make)
    make(folder)
    words = ["--listen", f"127.0.0.1:{free_port()}", "--data", str(folder)]
    assert run_command_line(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"triolog: {folder}: ")
    assert says in line


def test_help_names_the_command_as_it_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    for wanted, typed in (("triolog namesrv", True), ("python -m actors.namesrv", False)):
        with pytest.raises(SystemExit):
            if typed:
                with as_triolog():
                    run_command_line(["--help"])
            else:
                run_command_line(["--help"])
        shown = capsys.readouterr().out
        assert shown.startswith(f"usage: {wanted} ")
        assert max(map(len, shown.splitlines())) <= 80


@contextmanager
def running(port: int, folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "actors.namesrv", "--listen", f"127.0.0.1:{port}", "--data"]
    process = subprocess.Popen([*command, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def lines(process: subprocess.Popen[str], wanted: str) -> list[str]:
    """What it prints, up to a line like this."""
    assert process.stdout is not None
    found: list[str] = []
    for line in process.stdout:
        found.append(line.rstrip())
        if re.fullmatch(wanted, found[-1]):
            return found
    raise AssertionError(found)


def ask(connection: socket.socket, code: int, body: bytes = b"", **fields: str) -> Frame:
    header = Header(code=code, ext_fields=fields or None, version=479)
    connection.sendall(encode_frame(header, body))
    decoder = Decoder()
    while True:
        decoder.receive_data(connection.recv(65536))
        frame = decoder.next_frame()
        if isinstance(frame, Frame):
            return frame


@pytest.mark.real_io
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_listens_and_who_is_there(tmp_path: Path, number: signal.Signals) -> None:
    port = free_port()
    with running(port, tmp_path / "ns") as process:
        assert lines(process, "0 brokers.*") == [
            f"name server on 127.0.0.1:{port}, files in {tmp_path}/ns",
            "0 brokers, 0 topics",
        ]
        with socket.create_connection(("127.0.0.1", port), timeout=LINE_S) as broker:
            body = encode_registration(table("x", "y"), version=479)
            answer = ask(
                broker, RequestCode.REGISTER_BROKER, body, brokerName="a", brokerAddr="h:1",
                clusterName="C", haServerAddr="h:2", brokerId="0",
            )  # fmt: skip
            assert answer.header.code == 0
            assert lines(process, "1 broker,.*") == ["1 broker, 2 topics"]
            put = ask(broker, RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v")
            assert put.header.code == 0
        assert lines(process, "0 brokers.*") == ["0 brokers, 0 topics"]
        process.send_signal(number)
        assert process.wait(LINE_S) == 0
    with running(port, tmp_path / "ns") as process:
        lines(process, "0 brokers.*")
        with socket.create_connection(("127.0.0.1", port), timeout=LINE_S) as operator:
            found = ask(operator, RequestCode.GET_KV_CONFIG, namespace="n", key="k")
            assert found.header.ext_fields == {"value": "v"}
