"""A topic is deleted and made again, as on a RocketMQ master whose log a group goes on with.

Ours has no such order, so the queue offsets that the running master is about to give are changed
behind its back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Final

import trio

from actors.sim.action import Action
from actors.sim.fault_runner import FaultRunner
from actors.sim.script import Fault
from actors.storage.commitlog.group_commit import AppendBatch, AppendEncoder

ENCODERS: Final[dict[str, AppendEncoder]] = {}
"""The encoders of the run that is under way: by the node's host, the one that began a batch last.
"""


class RemakeTopic(Action[FaultRunner]):
    """All queues of the master's topics begin anew at queue offset 0."""

    name = "remake_topic"
    chance = 0.3

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        await trio.lowlevel.checkpoint()
        encoder = ENCODERS.get(runner.cluster.config.nodes[runner.master])
        if encoder is None or not runner.is_ready(runner.master) or not encoder.next_offsets:
            return
        runner.began(fault)
        encoder.next_offsets.update(dict.fromkeys(encoder.next_offsets, 0))


@contextmanager
def watched_encoders() -> Iterator[None]:
    """As long as it lasts, `ENCODERS` knows who gives queue offsets."""
    real = AppendEncoder.begin

    @wraps(real)
    def begin(encoder: AppendEncoder, at_bytes: int) -> AppendBatch:
        ENCODERS[encoder.host[0]] = encoder
        return real(encoder, at_bytes)

    setattr(AppendEncoder, "begin", begin)  # noqa: B010 - mypy takes no other method for it
    try:
        yield
    finally:
        setattr(AppendEncoder, "begin", real)  # noqa: B010
        ENCODERS.clear()
