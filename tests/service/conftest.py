"""A port that nobody listens on."""

import socket

import pytest


@pytest.fixture
def free_port() -> int:
    """Free on 127.0.0.1 a moment ago, as is the next one."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
            try:
                two.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
