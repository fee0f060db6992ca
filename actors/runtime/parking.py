"""Parks a task until it is woken; the only module that calls `wait_task_rescheduled`.

A parker holds at most one task:

    FREE --park()--> PARKED --wake()----------> FREE     the task runs again and park() returns
                     PARKED --cancellation----> FREE     the task runs again and park() raises
                     Cancelled

Exactly one of the two arrows leaves PARKED. `wake` forgets the task before it reschedules it, so
a second wake finds nobody; Trio forgets the abort function when a task is rescheduled, so a
cancellation that comes between the wake and the task's next step is delivered at the task's next
checkpoint, not here. Rescheduling twice, or after an abort, would end the host's whole program:
nothing else may touch `_task`.
"""

from __future__ import annotations

from collections.abc import Callable

from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled


class Parker:
    """A place in which one task may park.

    `on_cancel` is called, synchronously, if the parked task is cancelled.
    """

    __slots__ = ("_on_cancel", "_task")

    def __init__(self, on_cancel: Callable[[], None] | None = None) -> None:
        self._task: Task | None = None
        self._on_cancel = on_cancel

    @property
    def parked(self) -> bool:
        return self._task is not None

    async def park(self) -> None:
        """Wait for `wake`.

        This is a checkpoint. If it is cancelled, `wake` was not called.
        """
        assert self._task is None  # OneTaskPerParker
        self._task = current_task()
        await wait_task_rescheduled(self._abort)

    def wake(self) -> bool:
        """Wake the parked task. Returns: False if no task is parked, which is no error."""
        task = self._task
        if task is None:
            return False
        self._task = None
        reschedule(task)
        return True

    def _abort(self, _raise_cancel: object) -> Abort:
        self._task = None
        if self._on_cancel is not None:
            self._on_cancel()
        return Abort.SUCCEEDED
