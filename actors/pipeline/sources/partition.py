"""What one task reads."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from actors.pipeline.sources.plan import Part


class LogPartition(InputPartition):
    """Parts of one log, in order."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        super().__init__(parts)
        self.parts = parts
