"""The effects that a maintainer has not carried out yet: none before its vote is on the disk."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from actors.dledger.core.election_effects import Effects
from actors.dledger.rpc.rpc_messages import Asked

HELD_MAX: Final = 4096
"""How many jobs may wait for a vote to be saved. A member with this many takes no requests; jobs
without a request are never more than a few.
"""


@attrs.frozen(kw_only=True)
class Job:
    """The effects of one input, to be carried out.

    Attributes:
        asked: the request that was the input; None if it was another input.
    """

    effects: Effects
    asked: Asked | None = None


@attrs.define(kw_only=True)
class HeldEffects:
    """The jobs in their order (PersistBeforeSend).

    Attributes:
        waits: whether jobs wait until their vote is on the disk. If not
            (`CompatSettings.vote_unsynced`), the vote goes to the store, and they go on (bug B8).
        saving: the effects whose vote all jobs wait for; None if they do not wait.
    """

    waits: bool
    saving: Effects | None = attrs.field(default=None, init=False)
    _jobs: deque[Job] = attrs.field(factory=deque, init=False)
    _given: Job | None = attrs.field(default=None, init=False)  # the store has its vote

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def full(self) -> bool:
        """Whether too many jobs wait, so that no request may be taken."""
        return len(self._jobs) >= HELD_MAX

    def add(self, job: Job) -> None:
        """Add a job behind all others; drop it if it asks for nothing and would have to wait."""
        if (self.saving is not None or self._jobs) and job.asked is None and job.effects.idle:
            return
        self._jobs.append(job)

    def next(self) -> Job | Effects | None:
        """Return what has to be done now.

        Returns: a job to carry out, or the effects of the next job if their vote has to be saved
            first; None if there is nothing to do yet.
        """
        if self.saving is not None or not self._jobs:
            return None
        job = self._jobs[0]
        if job.effects.persist is None or job is self._given:
            return self._jobs.popleft()
        self._given = job
        self.saving = job.effects if self.waits else None
        return job.effects

    def saved(self) -> None:
        """Note that the vote is on the disk."""
        assert self.saving is not None
        self.saving = None
