"""What a user of the pipeline can do wrong, or lack. Each is one line, without a traceback.

Spark wraps what a source raises into an error of its own, with the traceback of the worker in its
text. A command shows the line and nothing else; `line_of` finds it.
"""

from __future__ import annotations

import re


class PipelineError(Exception):
    """A step cannot run; the text says why, and what to do."""


class NoJava(PipelineError):
    """No Java that Spark can run on."""


class SourceError(PipelineError):
    """A path, an option or a log cannot be used; the text says which, what was expected and found.

    Always one line.
    """


_RAISED = re.compile(rf"{re.escape(__name__)}\.{SourceError.__name__}: (.*)")


def line_of(error: BaseException) -> str | None:
    """The line that a source said, in whatever Spark made of it; None: no source said anything."""
    if isinstance(error, SourceError):
        return str(error)
    found = _RAISED.findall(str(error))
    return found[-1].strip() if found else None
