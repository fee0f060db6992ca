"""Brokers from before RocketMQ 5: they look for their logging's settings in their home, and say
nothing of their replication. What they hold is read from their files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs
from interop_logs import LogFiles
from interop_rocketmq import CONSUME_QUEUE_BYTES, SEGMENT_BYTES, Broker

LOGBACK: Final = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %-5level %logger{0}: %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


@attrs.define
class OlderBroker(Broker):
    """See the module's text."""

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def begin(self) -> None:
        conf = self.home / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (conf / "logback_broker.xml").write_text(LOGBACK)
        super().begin()

    def _properties(self) -> dict[str, object]:
        """3.2.6 has another spelling for the sizes of its files; what a version lacks it skips."""
        return {
            "mapedFileSizeCommitLog": SEGMENT_BYTES,
            "mapedFileSizeConsumeQueue": CONSUME_QUEUE_BYTES,
            **super()._properties(),
        }

    def end_bytes(self) -> int:
        """The end of its commit log, by its files."""
        return LogFiles.read(self.commitlog).end_bytes
