"""`make fuzz SECONDS=60`: every reader of bytes under the coverage-guided fuzzer, in turns.

Prints for each target how many inputs ran, how many arcs between lines they reached and how many
are kept; a finding as Python bytes, with its traceback. Exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.append(str(Path(__file__).parents[1]))

import fuzz_autoswitch
import fuzz_broker
import fuzz_dledger
import fuzz_namesrv
import fuzz_storage
import fuzz_wire
from fuzz_engine import Fuzzer

TURN_S = 0.25
"""One target's time before the next one has its turn."""
MEMORY_BYTES = 2 << 30
"""Address space of the run: an input that wants gigabytes ends in a MemoryError, a finding."""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--only", default="", help="targets whose name contains this")
    options = arguments.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    targets = (
        *fuzz_wire.targets(),
        *fuzz_autoswitch.targets(),
        *fuzz_broker.targets(),
        *fuzz_namesrv.targets(),
        *fuzz_dledger.targets(),
        *fuzz_storage.targets(),
    )
    fuzzers = [Fuzzer.of(target, options.seed) for target in targets if options.only in target.name]
    end_s = time.monotonic() + options.seconds
    for fuzzer in fuzzers:
        fuzzer.start()
    while time.monotonic() < end_s and any(fuzzer.finding is None for fuzzer in fuzzers):
        for fuzzer in fuzzers:
            turn_s = min(end_s, time.monotonic() + TURN_S)
            while fuzzer.finding is None and time.monotonic() < turn_s:
                fuzzer.step()
    for fuzzer in fuzzers:
        name, arcs, kept = fuzzer.target.name, fuzzer.arcs_count, len(fuzzer.corpus)
        print(f"{name:28} {fuzzer.executions:9} inputs {arcs:5} arcs {kept:5} kept")
        if fuzzer.finding is not None:
            traceback.print_exception(fuzzer.finding.error, limit=-6)
            print(f"  {name}: {fuzzer.finding.data!r}")
    print(f"{sum(each.executions for each in fuzzers)} inputs")
    return int(any(fuzzer.finding is not None for fuzzer in fuzzers))


if __name__ == "__main__":
    sys.exit(main())
