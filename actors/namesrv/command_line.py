"""What `triolog namesrv` does: one name server in a process of its own, until it is asked to stop.

Mistakes of the user are written to stderr, one line each, with exit code 2. A name server that ran
and failed ends with exit code 1.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs
import trio

from actors.config.command_line import (
    EXIT_FAILED,
    Parser,
    absolute,
    complain,
    say,
    stop_signals,
    with_output,
)
from actors.env.protocols import Address
from actors.env.real import real_env
from actors.errors import ConfigError, leaves
from actors.namesrv.routes import NameServerStatus
from actors.namesrv.tree import NameServerSettings, name_server_tree
from actors.own_process import INTERRUPTED
from actors.readable import counted
from actors.runtime import Registry, SupervisorSpec, System, describe, open_system

EXIT_OK: Final = 0
EXIT_USAGE: Final = 2
LISTEN: Final = "127.0.0.1:9876"
DATA: Final = "var/namesrv"
DESCRIPTION: Final = "Run a RocketMQ name server: brokers register, clients ask where topics are."
EPILOG: Final = """\
Brokers and clients name it as their name server: namesrvAddr=HOST:PORT, or
mqadmin -n HOST:PORT. Several name servers know nothing of each other; brokers
register with each.
The first Ctrl-C or SIGTERM is an ordered stop, the second hurries.
Exit codes: 0 done, 1 ran and failed, 2 wrong usage or configuration."""


@attrs.frozen(kw_only=True)
class Arguments:
    """The command line, parsed.

    Attributes:
        host, port: where the name server listens.
        data: the absolute path of the folder for its files.
    """

    host: str
    port: int
    data: str


def parse(argv: Sequence[str]) -> Arguments:
    """Read the command line.

    Raises:
        ConfigError: the command line has a mistake.
        SystemExit: after --help and --version.
    """
    parser = Parser.of("namesrv", DESCRIPTION, EPILOG)
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default=LISTEN,
        help=f"an address of this machine, 0.0.0.0 for all ({LISTEN})",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        default=DATA,
        help=f"for its KV table and settings ({DATA})",
    )
    found = parser.parse_args(list(argv))
    host, port = _address(found.listen)
    return Arguments(host=host, port=port, data=absolute(found.data, "--data"))


def _address(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]]+)):(\d{1,5})", text, re.ASCII)
    if found is None:
        raise ConfigError(f"--listen: expected HOST:PORT, such as {LISTEN}, found {text!r}")
    host, port = found[1] or found[2], int(found[3])
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise ConfigError(f"--listen: expected an IP address, found {host!r}") from None
    if not 0 < port < 65536:
        raise ConfigError(f"--listen: expected a port of 1 to 65535, found {port}")
    return host, port


def run_command_line(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Args:
        argv: the arguments without the program's name, or None for those of this process.

    Raises:
        SystemExit: after --help and --version.
    """
    words = sys.argv[1:] if argv is None else argv
    return with_output(partial(_run, words))


def _run(argv: Sequence[str]) -> int:
    try:
        trio.run(_serve, parse(argv))
    except KeyboardInterrupt:
        return INTERRUPTED
    except ConfigError as error:
        return _refuse(error.problems)
    except BaseExceptionGroup as group:
        mistakes, others = group.split(ConfigError)
        if mistakes is not None:
            problems = [line for each in leaves(mistakes) for line in each.problems]
            return _refuse(tuple(dict.fromkeys(problems)))
        complain(f"triolog: {describe(others or group)}")
        return EXIT_FAILED
    return EXIT_OK


def _refuse(problems: Sequence[str]) -> int:
    for problem in problems:
        complain(f"triolog: {problem}")
    return EXIT_USAGE


async def _serve(arguments: Arguments) -> None:
    async with trio.open_nursery() as nursery:
        run = _Run(arguments)
        await nursery.start(run.obey_signals)
        await run.serve()
        nursery.cancel_scope.cancel()


@attrs.define
class _Run:
    _arguments: Arguments
    _stopping: trio.Event = attrs.field(factory=trio.Event, init=False)
    _system: System | None = attrs.field(default=None, init=False)

    async def serve(self) -> None:
        arguments, env = self._arguments, real_env()
        settings = NameServerSettings(
            path="/namesrv",
            host=arguments.host,
            port=arguments.port,
            where="--listen",
            folder=arguments.data,
            on_change=self._tell,
        )

        def build(registry: Registry) -> SupervisorSpec:
            return name_server_tree(settings, env, registry)

        async with open_system("namesrv", build, rng=env.rng) as self._system:
            say(f"name server on {_shown(arguments)}, files in {arguments.data}")
            if not ipaddress.ip_address(arguments.host).is_loopback:
                say("whoever reaches this port may register, and change what clients are told")
            say(_text(NameServerStatus(brokers=0, topics=0)))
            await self._stopping.wait()

    async def obey_signals(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Stop the name server at the first signal, and hurry at each further one."""
        with trio.open_signal_receiver(*stop_signals()) as received:
            task_status.started()
            async for _ in received:
                if self._stopping.is_set() and self._system is not None:
                    self._system.hurry()
                self._stopping.set()

    def _tell(self, status: NameServerStatus) -> None:
        if not self._stopping.is_set():
            say(_text(status))


def _text(status: NameServerStatus) -> str:
    return f"{counted(status.brokers, 'broker')}, {counted(status.topics, 'topic')}"


def _shown(arguments: Arguments) -> str:
    return str(Address(arguments.host, arguments.port))
