"""A progress bar on a terminal's stderr, while lines are appended."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from actors.client import appending


class Bar:
    """Shown between entry and exit. It is drawn by who calls `show`; there is no thread.

    Args:
        console: where to draw.
    """

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(show_speed=False),
            TimeElapsedColumn(),
            console=console,
            auto_refresh=False,
            transient=True,
        )
        self._task = self._progress.add_task("connecting", total=None)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def show(self, progress: appending.Progress) -> None:
        """Draw how far it is."""
        total = progress.total_bytes
        self._progress.update(
            self._task,
            description=f"{progress.acknowledged} of {progress.lines} lines acknowledged",
            total=total,
            completed=progress.read_bytes if total is None else min(progress.read_bytes, total),
        )
        self._progress.refresh()
