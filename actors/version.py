"""The version, told by every node when it starts."""

from typing import Final

VERSION: Final = "0.2.0"
