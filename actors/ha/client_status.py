"""What a slave's client says of itself."""

from __future__ import annotations

from actors.ha.connection_state import ClientChanged
from actors.ha.core.rate_limiter import RateLimiter
from actors.ha.core.reconnect import Reconnect
from actors.ha.core.slave_progress import SlaveProgress
from actors.ha.core.states import HAConnectionState


def client_status(
    *,
    master: str,
    session: int,
    attempting: bool,
    reconnect: Reconnect,
    progress: SlaveProgress | None,
    received_bytes: int,
    meter: RateLimiter,
    now_s: float,
) -> ClientChanged:
    """See `ClientChanged`. `progress` is None before the first report."""
    waiting = reconnect.state == HAConnectionState.READY and not attempting
    return ClientChanged(
        master=master,
        state=reconnect.state,
        session=session,
        diverged=reconnect.diverged,
        mismatches_count=reconnect.mismatches_total,
        reported_bytes=progress.reported_bytes if progress is not None else None,
        received_bytes=received_bytes,
        bytes_per_s=meter.last_second_bytes(now_s),
        last_read_s=progress.last_read_s if progress is not None else None,
        last_write_s=progress.last_write_s if progress is not None else None,
        next_attempt_s=reconnect.connect_at_s if waiting else None,
        last_error=reconnect.last_error,
    )
