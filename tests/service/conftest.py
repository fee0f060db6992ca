"""A port that nobody listens on."""

import free_ports
import pytest


@pytest.fixture
def free_port() -> int:
    """Free a moment ago, as is the next one."""
    return free_ports.free_port(2)
