"""Errors that a user of the pipeline can mend. Each is shown in one line, without a traceback.

Spark wraps what a source raises into an error of its own, with the traceback of the worker in its
text. A command shows the line and nothing else; `line_of` finds it.
"""

from __future__ import annotations

import re


class PipelineError(Exception):
    """A step cannot run. The text says why, and what to do."""


class NoJava(PipelineError):
    """There is no Java on which Spark can run."""


class SourceError(PipelineError):
    """A path, an option or a log cannot be used.

    The text says in one line which, what was expected, and what was found.
    """


_RAISED = re.compile(rf"{re.escape(__name__)}\.{SourceError.__name__}: (.*)")


def line_of(error: BaseException) -> str | None:
    """Return the line of a SourceError, in any error that Spark made of it; None without one."""
    if isinstance(error, SourceError):
        return str(error)
    found = _RAISED.findall(str(error))
    return found[-1].strip() if found else None
