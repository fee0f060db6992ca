"""The version, which every node reports when it starts."""

from typing import Final

VERSION: Final = "0.2.0"
