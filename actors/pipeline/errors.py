"""What a user of the pipeline can do wrong, or lack. Each is one line, without a traceback."""

from __future__ import annotations


class PipelineError(Exception):
    """A step cannot run; the text says why, and what to do."""


class NoJava(PipelineError):
    """No Java that Spark can run on."""
