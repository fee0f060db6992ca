"""A cluster file with one mistake in it, and what is said of it."""

from __future__ import annotations

import pytest

from actors.config import loads
from actors.errors import ConfigError

HEAD = """\
version = 1
name = "demo"
data_dir = "var"
"""

NODES = """\
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
"""

GROUP = """\
[groups.orders]
mode = "classic"
master = "n0"
slaves = ["n1", "n2"]
"""

BASE = HEAD + NODES + GROUP


def lines(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loads(text, "f.toml")
    return list(caught.value.problems)


def group(addition: str) -> list[str]:
    """The problems of the base file with more keys in its group."""
    return lines(BASE + addition)
