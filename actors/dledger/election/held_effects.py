"""What a maintainer has decided and not yet done: nothing leaves before the vote it rests on."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from actors.dledger.core.election_effects import Effects
from actors.dledger.rpc.rpc_messages import Asked

HELD_MAX: Final = 4096
"""Jobs that may wait for a vote to be saved. At it a member takes no requests; what it learns and
does by itself is no more than a few."""


@attrs.frozen(kw_only=True)
class Job:
    """Effects that are to be carried out; `asked` is the request that was the input."""

    effects: Effects
    asked: Asked | None = None


@attrs.define(kw_only=True)
class HeldEffects:
    """Jobs in their order (PersistBeforeSend).

    Attributes:
        waits: for the disk; without it (`CompatSettings.vote_unsynced`) a vote is given to the
            store, and what rests on it goes on (bug B8).
        saving: whose vote all jobs wait for; None: they do not wait.
    """

    waits: bool
    saving: Effects | None = attrs.field(default=None, init=False)
    _jobs: deque[Job] = attrs.field(factory=deque, init=False)
    _given: Job | None = attrs.field(default=None, init=False)  # its vote went to the store

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def full(self) -> bool:
        """No request is to be taken: its answer would wait behind too many."""
        return len(self._jobs) >= HELD_MAX

    def add(self, job: Job) -> None:
        """Behind all others. What would wait, and asks for nothing, is dropped."""
        if (self.saving is not None or self._jobs) and job.asked is None and job.effects.idle:
            return
        self._jobs.append(job)

    def next(self) -> Job | Effects | None:
        """What to do now: a job, or to save the vote of these, the next job's."""
        if self.saving is not None or not self._jobs:
            return None
        job = self._jobs[0]
        if job.effects.persist is None or job is self._given:
            return self._jobs.popleft()
        self._given = job
        self.saving = job.effects if self.waits else None
        return job.effects

    def saved(self) -> None:
        """The vote is on the disk."""
        assert self.saving is not None
        self.saving = None
