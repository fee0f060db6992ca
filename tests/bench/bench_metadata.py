"""What a broker's metadata costs with 10,000 topics: told by rows, and asked for as a whole.

Run: python tests/bench/bench_metadata.py [--topics 10000] [--commits 1000]
Prints the median of five rounds in ms of processor time, what share of a processor that is at the
pace at which it happens, and whether the goals hold. One process, no network: what is measured is
what master and slave spend on each other beside sending bytes.

- rows: COMMITS offsets are committed in one message, the slave is told the rows that changed, and
  has them; at most twice a second.
- tables: the same by upstream's requests for topics, offsets and groups, every 10 s as a 4.x slave
  asks; and every second, which is what a bound of one second would take.
- file: the slave's consumerOffset.json is encoded; at most twice a second.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import attrs

from actors.metadata.answers import BODIES
from actors.metadata.core import kinds
from actors.metadata.core.changes import set_offsets
from actors.metadata.core.increments import applied, increment
from actors.metadata.core.tables import Tables, adopt, changed_kinds
from actors.metadata.keeper import WRITE_WITHIN_S
from actors.metadata.slave_sync import ROUND_S
from actors.metadata.watches import GATHER_S
from wire.broker.increments import INCREMENT
from wire.broker.java_json import encode
from wire.broker.metadata import ConsumerOffsets, GroupTable, SubscriptionGroupConfig
from wire.broker.topics import DataVersion, TopicConfig, TopicTable

ROUNDS = 5
QUEUES = 8
GOAL_MASTER = 0.05  # of a processor for each slave, told by rows
GOAL_SLAVE = 0.10  # of a processor, its file included
T = TypeVar("T")


def tables_of(count: int) -> Tables:
    """So many topics, each with a group that has read its eight queues."""
    names = [f"topic-{number}" for number in range(count)]
    version = DataVersion(counter=1, state_version=0, timestamp=1)
    configs = {
        name: TopicConfig(
            topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES, attributes={}
        )
        for name in names
    }
    groups = {
        f"group-{name}": SubscriptionGroupConfig(group_name=f"group-{name}") for name in names
    }
    offsets = {f"{name}@group-{name}": dict.fromkeys(range(QUEUES), 1_000_000) for name in names}
    return Tables(
        topics=TopicTable(data_version=version, topic_config_table=configs),
        groups=GroupTable(data_version=version, subscription_group_table=groups),
        consumer_offsets=ConsumerOffsets(data_version=version, offset_table=offsets),
    )


@attrs.define
class Stopwatch:
    """Processor times by name, in ms."""

    times: dict[str, list[float]] = attrs.field(factory=dict)

    def run(self, name: str, work: Callable[[], T]) -> T:
        begin = time.process_time()
        result = work()
        self.times.setdefault(name, []).append((time.process_time() - begin) * 1000)
        return result

    def median_ms(self, name: str) -> float:
        return statistics.median(self.times[name])


def by_rows(watch: Stopwatch, master: Tables, commits: dict[str, dict[int, int]]) -> Tables:
    """One commit and its way to the slave. Returns: the master's tables."""
    later = watch.run("rows: commit", lambda: set_offsets(master, commits, 2))
    body = watch.run("rows: tell", lambda: encode(increment(master, later, 1, 2)))

    def take() -> Tables:
        said = applied(master, INCREMENT.decode(body))
        own = attrs.evolve(master, said_offsets=master.consumer_offsets)
        for kind in changed_kinds(master, said):
            own = adopt(own, kind, getattr(said, kind.name))
        return own

    taken = watch.run("rows: take", take)
    assert taken.consumer_offsets == later.consumer_offsets
    watch.run("file", lambda: kinds.CONSUMER_OFFSETS.encode_file(taken.consumer_offsets))
    return later


def by_tables(watch: Stopwatch, slave: Tables, master: Tables) -> None:
    """One round of requests."""
    asked = (kinds.TOPICS, kinds.CONSUMER_OFFSETS, kinds.GROUPS)
    bodies = watch.run("tables: answer", lambda: {kind: BODIES[kind](master) for kind in asked})

    def take() -> Tables:
        own = slave
        for kind, body in bodies.items():
            own = adopt(own, kind, kind.decode(body))
        return own

    assert watch.run("tables: take", take).consumer_offsets == master.consumer_offsets


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--commits", type=int, default=1_000, help="offsets in half a second")
    options = parser.parse_args()
    rng, watch = random.Random(1), Stopwatch()
    master = tables_of(options.topics)
    for round_number in range(ROUNDS):
        commits = {
            f"topic-{number}@group-topic-{number}": {
                rng.randrange(QUEUES): 2_000_000 + round_number
            }
            for number in rng.sample(range(options.topics), min(options.commits, options.topics))
        }
        later = by_rows(watch, master, commits)
        by_tables(watch, master, later)
        master = later
    print(
        f"{options.topics} topics and groups of {QUEUES} queues, {options.commits} offsets a time"
    )
    for name in watch.times:
        print(f"{name:16} {watch.median_ms(name):8.2f} ms")
    on_master = (watch.median_ms("rows: commit") + watch.median_ms("rows: tell")) / GATHER_S / 1000
    on_slave = watch.median_ms("rows: take") / GATHER_S / 1000
    on_slave += watch.median_ms("file") / WRITE_WITHIN_S / 1000
    answer_ms, take_ms = watch.median_ms("tables: answer"), watch.median_ms("tables: take")
    print(f"rows, twice a second: master {on_master:.1%}, slave {on_slave:.1%} of a processor")
    for every_s in (1.0, ROUND_S):
        shares = [each / every_s / 1000 for each in (answer_ms, take_ms)]
        print(f"tables, every {every_s:g} s: master {shares[0]:.1%}, slave {shares[1]:.1%}")
    good = on_master <= GOAL_MASTER and on_slave <= GOAL_SLAVE
    print(
        f"goals: master {GOAL_MASTER:.0%}, slave {GOAL_SLAVE:.0%}: {'hold' if good else 'MISSED'}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
