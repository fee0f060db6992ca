"""What is wrong with what a source was given, as one line; and finding that line again.

Spark wraps what a source raises into an error of its own, with the traceback of the worker in its
text. A command shows the line and nothing else.
"""

from __future__ import annotations

import re

from actors.pipeline.errors import PipelineError


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
