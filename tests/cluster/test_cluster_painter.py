"""The terminal's thread: it shows, and never lets anybody wait. Real threads and pipes."""

from __future__ import annotations

import os
import threading

import pytest

from actors.cluster.painter import CLEAR_BELOW, CLEAR_LINE, ENTER, HOME, LEAVE, Painter

pytestmark = pytest.mark.real_io


def read_all(descriptor: int) -> str:
    with os.fdopen(descriptor, "rb") as file:
        return file.read().decode()


def test_pictures_in_place() -> None:
    reading, writing = os.pipe()
    shown = Painter(writing, live=True)
    shown.show(lambda: "a\nb")
    shown.close()
    os.close(writing)
    picture = HOME + "a" + CLEAR_LINE + "\r\n" + "b" + CLEAR_LINE + CLEAR_BELOW
    assert read_all(reading) == ENTER + picture + LEAVE


def test_lines_are_appended_in_order() -> None:
    reading, writing = os.pipe()
    shown = Painter(writing, live=False)
    for number in range(50):
        shown.show(lambda number=number: f"line {number}")
    shown.close()
    os.close(writing)
    assert read_all(reading) == "".join(f"line {number}\n" for number in range(50))


def test_nothing_to_show() -> None:
    reading, writing = os.pipe()
    Painter(writing, live=False).close()
    os.close(writing)
    assert read_all(reading) == ""


def test_stopped_terminal_blocks_nobody() -> None:
    reading, writing = os.pipe()
    shown = Painter(writing, live=True)
    for number in range(1000):  # each more than any pipe holds
        shown.show(lambda number=number: f"{number:06d}" * 100_000)
    closing = threading.Thread(target=shown.close)
    closing.start()
    # The terminal goes on: the picture under way is finished, then the newest, nothing between.
    text = ""
    while LEAVE not in text:
        text += os.read(reading, 1 << 20).decode()
    closing.join(20)
    assert not closing.is_alive()
    assert "000999" in text
    assert text.count(HOME) <= 3
    os.close(writing)
    os.close(reading)


def test_only_the_newest_picture_waits() -> None:
    reading, writing = os.pipe()
    blocked, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        blocked.set()
        assert go_on.wait(20)
        return "slow"

    shown = Painter(writing, live=True)
    shown.show(slow)
    assert blocked.wait(20)
    shown.show(lambda: "never seen")
    shown.show(lambda: "newest")
    go_on.set()
    shown.close()
    os.close(writing)
    text = read_all(reading)
    assert "slow" in text
    assert "never" not in text
    assert "newest" in text


def test_terminal_that_is_gone_ends_the_thread() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    shown = Painter(writing, live=False)
    shown.show(lambda: "x")
    shown.close()
    os.close(writing)


def test_screen_is_restored_when_a_picture_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda found: reported.append(found.exc_type))
    reading, writing = os.pipe()
    shown = Painter(writing, live=True)
    shown.show(lambda: str(1 // 0))
    shown.close()
    os.close(writing)
    assert read_all(reading) == ENTER + LEAVE
    assert reported == [ZeroDivisionError]
