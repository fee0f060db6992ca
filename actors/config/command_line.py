"""How every command line of ours reads its arguments."""

from __future__ import annotations

import argparse
from typing import NoReturn

from actors.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """argparse prints its usage above each error; a mistake is one line here.

    Raises: ConfigError from every method that parses; SystemExit after --help.
    """

    def error(self, message: str) -> NoReturn:
        """Never returns."""
        raise ConfigError(f"{' '.join(message.split())} (see --help)")
