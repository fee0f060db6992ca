"""Turns Ctrl-C, SIGTERM and the end of the terminal into an exception, which releases resources.

Ctrl-C is Python's KeyboardInterrupt, the others are a kind of it. It may come between any two
lines, but where a call to Java waits it would leave Java's answer to the next call: what has to go
on after it stands in `deferred`. What cleans up after it may ask Java, too, and wait for the call
that was interrupted: it is interrupted again.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, Final

import attrs

DEFERRED_S: Final = 5.0
"""The longest time in seconds for which an end is deferred, as a Java that does not answer may
never answer; cleaning up has as much time."""
AGAIN_S: Final = 0.02
"""The seconds after which an exception that Python has dropped is raised again."""
_UNHANDLED: Final = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


class Terminated(KeyboardInterrupt):
    """A signal other than Ctrl-C's has ended the program.

    Attributes:
        number: the signal's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@attrs.define
class _Asked:
    """The end that this process was asked for by a signal.

    Attributes:
        number: the signal that came first; None for none yet.
        is_due: whether its exception has still to be raised.
        deferring: how many `deferred` blocks are open.
        alarm: the process's own handler and timer of SIGALRM, which are replaced for the end.
        is_open: whether `ended_in_order` has all signals. Otherwise nothing is raised, because an
            exception between two handlers that are set or restored would leave the others.
        late: the signal that came then; None for none.
    """

    number: int | None = None
    is_due: bool = False
    deferring: int = 0
    alarm: tuple[Any, tuple[float, float]] | None = None
    is_open: bool = False
    late: int | None = None

    def error(self) -> KeyboardInterrupt:
        number = self.number
        assert number is not None
        return KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)


_asked: Final = _Asked()


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Have the signals raise KeyboardInterrupt or Terminated in the block.

    Only the first signal does, because a supervisor may send a second one at once (`timeout` does).
    A signal that is ignored, or handled by the caller, stays so.

    Raises:
        KeyboardInterrupt: also in place of an error that the signal caused, such as that of a call
            to a Java that it ended.
    """
    wanted = {number: was for number, was in _UNHANDLED.items() if signal.getsignal(number) is was}
    if not _may_change(wanted):
        yield
        return
    _asked.number, _asked.is_due, _asked.deferring, _asked.late = None, False, 0, None
    hook = sys.unraisablehook
    try:
        for number in wanted:
            signal.signal(number, _ask)
        sys.unraisablehook = partial(_hear, hook)
        _asked.is_open = True
        if _asked.late is not None:
            _ask(_asked.late, None)
        yield
    except Exception as error:
        check_asked(error)
        raise
    finally:
        _asked.is_open = False  # first, and no call: Python looks for signals at calls
        _give_back(wanted)
        sys.unraisablehook = hook
        if _asked.late is not None and _asked.number is None:
            signal.raise_signal(_asked.late)  # for whoever handles it now
        _asked.number = None


def _may_change(wanted: Mapping[signal.Signals, Any]) -> bool:
    """Return whether there is a handler to change, and this is the main thread, which may do it."""
    if not wanted:
        return False
    number = next(iter(wanted))
    try:
        signal.signal(number, wanted[number])
    except ValueError:
        return False
    return True


def _give_back(wanted: Mapping[signal.Signals, Any]) -> None:
    if _asked.alarm is not None:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for number, was in wanted.items():
        signal.signal(number, was)
    if _asked.alarm is not None:
        handler, timer = _asked.alarm
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)
        _asked.alarm = None


@contextmanager
def deferred(after_s: float | None = None) -> Iterator[None]:
    """Defer the interruption by a signal to the end of the block, for DEFERRED_S at most.

    Args:
        after_s: how many seconds it may take if a signal came before; None: DEFERRED_S.

    Raises: KeyboardInterrupt: a signal came.
    """
    if _asked.number is not None and not _asked.is_due:
        _raise_after(DEFERRED_S if after_s is None else after_s)
    _asked.deferring += 1
    try:
        yield
    finally:
        _asked.deferring -= 1
        if _asked.is_due and not _asked.deferring:
            _raise()


def check_asked(cause: Exception | None = None) -> None:
    """Check whether a signal has come, which may be the cause of an error.

    Raises: KeyboardInterrupt: it has.
    """
    if _asked.number is not None:
        raise _asked.error() from cause


def _ask(number: int, frame: FrameType | None) -> None:
    if _asked.number is not None:
        return
    if not _asked.is_open:
        _asked.late = _asked.late or number
        return
    _asked.number, _asked.is_due = number, True
    if _asked.deferring:
        _raise_after(DEFERRED_S)
    else:
        _raise()


def _hear(hook: Callable[[Any], object], unraisable: Any) -> None:
    """Take an exception that Python has dropped; raise it again if it is that of a signal."""
    if _asked.number is None or not isinstance(unraisable.exc_value, KeyboardInterrupt):
        hook(unraisable)
        return
    _asked.is_due = True
    _raise_after(AGAIN_S)


def _raise_after(seconds: float) -> None:
    handler = signal.signal(signal.SIGALRM, _again)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    if _asked.alarm is None:
        _asked.alarm = handler, timer


def _again(number: int, frame: FrameType | None) -> None:
    if _asked.number is not None and _asked.is_open:
        _raise()


def _raise() -> None:
    _asked.is_due = False
    _raise_after(DEFERRED_S)
    raise _asked.error()
