"""Ctrl-C, SIGTERM and the end of the terminal: an exception, which lets go of all that is held.

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
"""At the longest: a Java that does not answer may never do. What cleans up has as long."""
AGAIN_S: Final = 0.02
"""After which an end is asked for again that came where Python drops exceptions."""
_UNHANDLED: Final = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


class Terminated(KeyboardInterrupt):
    """A signal other than Ctrl-C's has ended the program.

    Attributes:
        number: the signal's.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@attrs.define
class _Asked:
    """The end that this process was asked for; it has one set of signals.

    Attributes:
        number: the signal that came first; None: none yet.
        is_due: it has not been raised yet, or not been heard.
        deferring: how many `deferred` there are.
        alarm: handler and timer of the process's, which are lent for the end.
        is_open: within `ended_in_order`, all signals are ours. Else nothing is raised: between two
            of them that are taken or given back an exception would leave the rest as they are.
        late: the signal that came then; None: none.
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
    """Meanwhile the signals raise KeyboardInterrupt, or Terminated; the first one only.

    For what waits no longer than it must: a supervisor may send a second one at once (`timeout`
    does). A signal that is ignored, or handled by whoever calls, stays so.

    Raises:
        KeyboardInterrupt: also in place of what failed because of it, as calls to a Java that it
            ended do.
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
    """Whether there is anything to change, and this is the main thread, whose business it is."""
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
    """Put off the interruption by a signal to the end of the block, for DEFERRED_S at most.

    Args:
        after_s: how long it may take if the signal was heard before; None: DEFERRED_S.

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
    """Raises: KeyboardInterrupt, if a signal has come: what fails now may be its doing."""
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
    """Python has dropped an exception. If it was ours, it is raised again."""
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
