"""What may lie in a file's place on a real disk and is neither file nor folder."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from typing import Final


def _socket(path: str) -> None:
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as bound:  # a path of its own may be too long for one
        bound.bind(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    os.close(folder)


def _device(path: str) -> None:
    os.symlink("/dev/null", path)  # to make one needs privileges


SPECIAL: Final[Mapping[str, Callable[[str], None]]] = {
    "named pipe": os.mkfifo,
    "socket": _socket,
    "device": _device,
}
"""By the name under which it is refused, what makes one."""
