"""Runs several queries of Spark at once: one is planned while the tasks of another one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from threading import Lock, Thread
from typing import Any, Final, TypeVar

_Found = TypeVar("_Found")
_Other = TypeVar("_Other")

AT_ONCE: Final = 2
"""Spark plans a query on one core while the other query's tasks run; a third one would wait."""


def side_by_side(
    works: Iterable[Callable[[], _Found]], done: Callable[[_Found], object] = lambda _: None
) -> list[_Found]:
    """Call the works, AT_ONCE of them at a time, and return their results in their order.

    Args:
        done: called by the calling thread with each result, in their order.

    Raises: the exception of the first work that failed. The works that have not begun by then are
        not called, and those that have begun have ended. An interrupt does not wait for these: it
        ends Java, and so their queries.
    """
    pool = ThreadPoolExecutor(AT_ONCE, "side-by-side")
    is_interrupted = True
    try:
        found = []
        for future in [pool.submit(work) for work in works]:
            found.append(future.result())
            done(found[-1])
        is_interrupted = False
        return found
    except Exception:
        is_interrupted = False
        raise
    finally:
        pool.shutdown(wait=not is_interrupted, cancel_futures=True)


def both(one: Callable[[], _Found], other: Callable[[], _Other]) -> tuple[_Found, _Other]:
    """Return the results of two works. Raises: as `side_by_side`."""
    works: list[Callable[[], Any]] = [one, other]
    first, second = side_by_side(works)
    return first, second


def one_at_a_time() -> AbstractContextManager[object]:
    """Return a lock for a block that one work at a time may be in."""
    return Lock()


def ahead(module: str) -> None:
    """Import a module while Spark works. An error is left to the import where it is needed."""

    def load() -> None:
        with suppress(Exception):
            import_module(module)

    Thread(target=load, daemon=True).start()
