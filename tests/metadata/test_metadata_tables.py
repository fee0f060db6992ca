"""What a slave makes of its master's answers: nothing vanishes, nothing goes back."""

from __future__ import annotations

from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.metadata.core import kinds
from actors.metadata.core.changes import (
    put_group,
    put_topic,
    remove_group,
    remove_topic,
    set_offsets,
)
from actors.metadata.core.tables import (
    DELETED_MAX,
    KEPT_KEY,
    Tables,
    adopt,
    another_master,
    as_master,
    changed_kinds,
    promoted,
    with_deleted,
    with_lineage,
)
from wire.broker.java_json import encode
from wire.broker.metadata import (
    ConsumerOffsets,
    DelayOffsets,
    GroupTable,
    RequestMode,
    RequestModes,
    SubscriptionGroupConfig,
    TimerCheckpoint,
    TimerMetric,
    TimerMetrics,
)
from wire.broker.topics import (
    DELETED_KEY,
    TOPIC_TABLE,
    DataVersion,
    TopicConfig,
    TopicTable,
    deleted_topics,
)


def topics(counter: int, *names: str, timestamp: int = 1000) -> TopicTable:
    rows = {name: TopicConfig(topic_name=name) for name in names}
    return TopicTable(
        data_version=DataVersion(counter=counter, timestamp=timestamp), topic_config_table=rows
    )


def groups(counter: int, *names: str) -> GroupTable:
    rows = {name: SubscriptionGroupConfig(group_name=name) for name in names}
    return GroupTable(data_version=DataVersion(counter=counter), subscription_group_table=rows)


def offsets(version: DataVersion | None = None, **table: dict[int, int]) -> ConsumerOffsets:
    rows = {key.replace("__", "@"): queues for key, queues in table.items()}
    return ConsumerOffsets(data_version=version, offset_table=rows)


def slave(*answers: tuple[kinds.Kind, Any]) -> Tables:
    """A slave's tables after some answers."""
    tables = Tables()
    for kind, answer in answers:
        tables = adopt(tables, kind, answer)
    return tables


def names(tables: Tables) -> set[str]:
    return set(tables.topics.topic_config_table)


# ---- topics ----


def test_an_equal_version_changes_nothing() -> None:
    tables = slave((kinds.TOPICS, topics(3, "a")))
    assert adopt(tables, kinds.TOPICS, topics(3, "b")) is tables
    assert adopt(tables, kinds.TOPICS, topics(3)) is tables


def test_a_later_version_replaces_the_table_and_is_kept_as_it_is() -> None:
    tables = slave((kinds.TOPICS, topics(3, "a", "b")), (kinds.TOPICS, topics(4, "b", "c")))
    assert tables.topics == with_deleted(topics(4, "b", "c"), {"a": 1000})
    assert tables.gone_topics == {"a"}
    again = adopt(tables, kinds.TOPICS, topics(6, "a"))
    assert again.gone_topics == {"b", "c"}, "the topic was made again"


@pytest.mark.parametrize(
    "answer",
    [topics(0), topics(1, "b"), topics(3, "b", timestamp=999)],
    ids=["empty", "few", "earlier"],
)
def test_no_topic_goes_by_a_table_that_began_anew(answer: TopicTable) -> None:
    """T1: a master that lost its table, or had it put back, lacks topics that it never removed."""
    tables = slave((kinds.TOPICS, topics(3, "a", "b")), (kinds.TOPICS, answer))
    assert names(tables) == {"a", "b"}
    assert tables.topics.data_version == answer.data_version
    assert not tables.gone_topics
    later = adopt(tables, kinds.TOPICS, topics(9, "b", "c"))
    assert names(later) == {"a", "b", "c"}, "kept also while the new table goes on"
    named = adopt(later, kinds.TOPICS, topics(10, "a", "b", "c"))
    assert KEPT_KEY not in (named.topics.more or {})
    assert names(adopt(named, kinds.TOPICS, topics(11, "b", "c"))) == {"b", "c"}


def test_a_later_version_that_lacks_more_than_it_has_changes_began_anew() -> None:
    """A master that lost its table may have counted past the slave's version meanwhile."""
    tables = slave((kinds.TOPICS, topics(3, "a", "b")))
    assert names(adopt(tables, kinds.TOPICS, topics(4, "c"))) == {"a", "b", "c"}
    assert names(adopt(tables, kinds.TOPICS, topics(4, "b"))) == {"b"}
    assert names(adopt(tables, kinds.TOPICS, topics(5, "c"))) == {"c"}
    later = msgspec.structs.replace(
        topics(1, "c"), data_version=DataVersion(counter=1, state_version=1)
    )
    assert names(adopt(tables, kinds.TOPICS, later)) == {"c"}, "another epoch counts anew"


def test_a_table_of_another_lineage_began_anew() -> None:
    first = with_lineage(slave((kinds.TOPICS, topics(3, "a", "b"))), "one")
    assert with_lineage(first, "two") is first
    other = with_lineage(Tables(topics=topics(9, "b")), "two").topics
    tables = adopt(Tables(topics=first.topics), kinds.TOPICS, other)
    assert names(tables) == {"a", "b"}
    assert tables.topics.data_version == other.data_version
    same = msgspec.structs.replace(topics(10, "b"), more=other.more)
    assert names(adopt(tables, kinds.TOPICS, same)) == {"a", "b"}, "kept"
    named = msgspec.structs.replace(topics(11, "a", "b"), more=other.more)
    tables = adopt(tables, kinds.TOPICS, named)
    assert tables.topics == named
    java = adopt(tables, kinds.TOPICS, topics(12, "b"))
    assert names(java) == {"b"}, "a Java master names no lineage"


def test_what_is_kept_survives_a_restart() -> None:
    tables = slave((kinds.TOPICS, topics(3, "a", "b")), (kinds.TOPICS, topics(1, "b")))
    read = kinds.TOPICS.decode(kinds.TOPICS.encode_file(tables.topics))
    tables = adopt(Tables(topics=read), kinds.TOPICS, topics(2, "b"))
    assert names(tables) == {"a", "b"}
    edited = msgspec.structs.replace(read, more={KEPT_KEY: msgspec.Raw(b'{"a":1}')})
    assert names(adopt(Tables(topics=edited), kinds.TOPICS, topics(2, "b"))) == {"b"}


def test_a_new_master_has_what_was_kept_as_its_own() -> None:
    tables = slave((kinds.TOPICS, topics(3, "a", "b")), (kinds.TOPICS, topics(1, "b")))
    master = as_master(tables)
    assert names(master) == {"a", "b"}
    assert KEPT_KEY.encode() not in encode(master.topics)
    assert as_master(master).topics is master.topics


def test_who_has_a_new_masters_version_without_its_kept_rows_gets_them() -> None:
    restarted = topics(1, "b")
    other = slave((kinds.TOPICS, restarted))
    tables = slave((kinds.TOPICS, topics(3, "a", "b")), (kinds.TOPICS, restarted))
    master = promoted(tables, now_ms=2000)
    assert names(adopt(other, kinds.TOPICS, master.topics)) == {"a", "b"}
    assert promoted(master, now_ms=3000).topics is master.topics
    assert promoted(other, now_ms=3000).topics is other.topics, "nothing was kept"


def test_an_epoch_stays_with_a_masters_first_change() -> None:
    """A slave that has the epoch would take the change for the table of another one."""
    before = msgspec.structs.replace(
        topics(3, "a"), data_version=DataVersion(counter=3, state_version=2)
    )
    tables = slave((kinds.TOPICS, before))
    master = remove_topic(put_topic(tables, TopicConfig(topic_name="b"), now_ms=5), "a", now_ms=6)
    assert names(adopt(tables, kinds.TOPICS, master.topics)) == {"b"}


def test_static_topics_come_with_the_topics_and_have_their_own_version() -> None:
    raw = {"s": msgspec.Raw(b'{"bname":"b"}')}
    answer = msgspec.structs.replace(
        topics(3, "a"),
        mapping_data_version=DataVersion(counter=7),
        topic_queue_mapping_detail_map=raw,
        topic_queue_mapping_info_map={},
    )
    tables = slave((kinds.TOPICS, answer))
    assert tables.topics == topics(3, "a"), "as a file has it"
    assert tables.queue_mappings.topic_queue_mapping_info_map == raw
    assert tables.queue_mappings.data_version == DataVersion(counter=7)
    assert adopt(tables, kinds.TOPICS, answer) is tables
    assert adopt(tables, kinds.TOPICS, topics(3, "a")) is tables, "a 4.x master has none"


def test_groups_follow_the_same_rule() -> None:
    tables = slave((kinds.GROUPS, groups(3, "g", "h")), (kinds.GROUPS, groups(4, "h")))
    assert tables.groups == groups(4, "h")
    assert tables.gone_groups == {"g"}
    tables = adopt(tables, kinds.GROUPS, groups(1, "i"))
    assert set(tables.groups.subscription_group_table) == {"h", "i"}


# ---- offsets ----


def test_the_larger_offset_of_each_queue_counts() -> None:
    tables = slave((kinds.CONSUMER_OFFSETS, offsets(a__g={0: 5, 1: 6}, b__g={0: 1})))
    tables = another_master(tables)
    tables = adopt(tables, kinds.CONSUMER_OFFSETS, offsets(a__g={0: 4, 1: 7, 2: 1}))
    assert tables.consumer_offsets == offsets(a__g={0: 5, 1: 7, 2: 1}, b__g={0: 1})


def test_a_reset_of_the_master_that_runs_arrives() -> None:
    first, reset = offsets(a__g={0: 9}), offsets(a__g={0: 2})
    tables = slave((kinds.CONSUMER_OFFSETS, first), (kinds.CONSUMER_OFFSETS, reset))
    assert tables.consumer_offsets == reset
    tables = adopt(another_master(tables), kinds.CONSUMER_OFFSETS, offsets(a__g={0: 1}))
    assert tables.consumer_offsets == reset, "it was started again with older ones"
    tables = adopt(tables, kinds.CONSUMER_OFFSETS, offsets(a__g={0: 1}))
    assert tables.consumer_offsets == reset, "it says the same"
    tables = adopt(tables, kinds.CONSUMER_OFFSETS, offsets(a__g={0: 0}))
    assert tables.consumer_offsets == offsets(a__g={0: 0}), "it has gone back itself"


def test_a_reset_arrives_also_after_answers_without_these_offsets() -> None:
    first, without = offsets(a__g={0: 9}, b__g={0: 1, 1: 9}), offsets(b__g={0: 1})
    tables = slave((kinds.CONSUMER_OFFSETS, first), (kinds.CONSUMER_OFFSETS, without))
    assert tables.consumer_offsets == first, "it merely lacks them"
    assert adopt(tables, kinds.CONSUMER_OFFSETS, without) is tables
    lower = offsets(a__g={0: 2}, b__g={0: 1, 1: 3})
    tables = adopt(adopt(tables, kinds.CONSUMER_OFFSETS, without), kinds.CONSUMER_OFFSETS, lower)
    assert tables.consumer_offsets == lower


def test_equal_offsets_are_no_change_whatever_the_version_is() -> None:
    """Java's version of 5.x stays as it is while offsets change."""
    version = DataVersion(counter=0, timestamp=5)
    tables = slave((kinds.CONSUMER_OFFSETS, offsets(version, a__g={0: 5})))
    assert adopt(tables, kinds.CONSUMER_OFFSETS, offsets(version, a__g={0: 5})) is tables
    later = adopt(tables, kinds.CONSUMER_OFFSETS, offsets(version, a__g={0: 6}))
    assert later.consumer_offsets == offsets(version, a__g={0: 6})
    assert changed_kinds(tables, later) == (kinds.CONSUMER_OFFSETS,)


def test_offsets_go_with_their_topic_and_group_only() -> None:
    """T24. What the answer still has stays, and what the master merely lacks does, too."""
    tables = slave(
        (kinds.TOPICS, topics(3, "a", "b", "c")),
        (kinds.GROUPS, groups(3, "g", "h")),
        (kinds.CONSUMER_OFFSETS, offsets(a__g={0: 1}, b__h={0: 1}, c__g={0: 1}, c__i={0: 1})),
        (kinds.TOPICS, topics(4, "b", "c")),
        (kinds.GROUPS, groups(4, "g")),
    )
    assert len(tables.consumer_offsets.offset_table) == 4, "until the master's offsets are known"
    tables = adopt(tables, kinds.CONSUMER_OFFSETS, offsets(b__h={0: 1}))
    assert tables.consumer_offsets == offsets(b__h={0: 1}, c__g={0: 1}, c__i={0: 1})
    tables = adopt(tables, kinds.CONSUMER_OFFSETS, offsets())
    assert tables.consumer_offsets == offsets(c__g={0: 1}, c__i={0: 1})


def test_delay_offsets_and_timer_checkpoints_do_not_go_back() -> None:
    tables = slave(
        (kinds.DELAY_OFFSETS, DelayOffsets(offset_table={1: 5, 2: 6})),
        (kinds.DELAY_OFFSETS, DelayOffsets(offset_table={1: 4, 3: 1})),
    )
    assert tables.delay_offsets.offset_table == {1: 5, 2: 6, 3: 1}
    own = TimerCheckpoint(last_read_ms=5, last_log_flush_offset=1, last_queue_offset=2)
    version = DataVersion(counter=4)
    answer = TimerCheckpoint(
        last_read_ms=3, last_log_flush_offset=9, last_queue_offset=9, master_queue_offset=7,
        data_version=version,
    )  # fmt: skip
    tables = adopt(Tables(timer_checkpoint=own), kinds.TIMER_CHECKPOINT, answer)
    assert tables.timer_checkpoint == msgspec.structs.replace(
        own, master_queue_offset=7, data_version=version
    )
    assert adopt(tables, kinds.TIMER_CHECKPOINT, answer) is tables


def test_modes_and_metrics_are_the_masters() -> None:
    modes = RequestModes(message_request_mode_map={"t": {"g": RequestMode(mode="POP")}})
    tables = slave((kinds.REQUEST_MODES, modes))
    assert adopt(tables, kinds.REQUEST_MODES, modes) is tables
    assert adopt(tables, kinds.REQUEST_MODES, RequestModes()).request_modes == RequestModes()
    metrics = TimerMetrics(
        data_version=DataVersion(counter=1), timing_count={"t": TimerMetric(count=2)}
    )
    tables = slave((kinds.TIMER_METRICS, metrics))
    assert tables.timer_metrics == metrics
    assert adopt(tables, kinds.TIMER_METRICS, metrics) is tables


QUEUES = st.dictionaries(st.integers(0, 1), st.integers(0, 5))
ROUNDS = st.tuples(st.booleans(), st.dictionaries(st.sampled_from("ab"), QUEUES))


@given(rounds=st.lists(ROUNDS, max_size=8))
def test_offsets_go_back_only_if_the_running_master_went_back(
    rounds: list[tuple[bool, dict[str, dict[int, int]]]],
) -> None:
    tables, said = Tables(), dict[tuple[str, int], int]()
    for restarted, table in rounds:
        if restarted:
            tables, said = another_master(tables), {}
        before = tables.consumer_offsets.offset_table
        tables = adopt(tables, kinds.CONSUMER_OFFSETS, ConsumerOffsets(offset_table=table))
        after = tables.consumer_offsets.offset_table
        for key, queues in before.items():
            for queue, offset in queues.items():
                if after[key][queue] < offset:
                    assert table[key][queue] < said[key, queue]
        for key, queues in table.items():
            assert all(after[key][queue] >= offset for queue, offset in queues.items())
        said |= {(key, queue): offset for key in table for queue, offset in table[key].items()}


# ---- a master's changes ----


def test_each_change_makes_the_next_version_of_its_own_table() -> None:
    tables = put_topic(Tables(), TopicConfig(topic_name="a"), 5)
    assert tables.topics.data_version == DataVersion(counter=1, timestamp=5)
    assert changed_kinds(Tables(), tables) == (kinds.TOPICS,)
    assert put_topic(tables, TopicConfig(topic_name="a"), 6) is tables
    tables = put_topic(tables, TopicConfig(topic_name="a", perm=4), 6)
    assert tables.topics.data_version == DataVersion(counter=2, timestamp=6)
    tables = put_group(tables, SubscriptionGroupConfig(group_name="g"), 7)
    assert put_group(tables, SubscriptionGroupConfig(group_name="g"), 8) is tables
    assert tables.groups.data_version == DataVersion(counter=1, timestamp=7)


def test_offsets_are_set_by_queue_and_go_with_topic_or_group() -> None:
    tables = put_topic(Tables(), TopicConfig(topic_name="a"), 1)
    tables = put_group(tables, SubscriptionGroupConfig(group_name="g"), 1)
    tables = set_offsets(tables, {"a@g": {0: 1, 1: 1}, "b@g": {0: 3}}, 2)
    tables = set_offsets(tables, {"a@g": {1: 0}}, 3)
    assert tables.consumer_offsets == offsets(
        DataVersion(counter=2, timestamp=3), a__g={0: 1, 1: 0}, b__g={0: 3}
    )
    assert set_offsets(tables, {"a@g": {1: 0}}, 4) is tables
    without = remove_topic(tables, "a", 5)
    assert without.consumer_offsets.offset_table == {"b@g": {0: 3}}
    assert not names(without)
    assert remove_topic(without, "a", 6).consumer_offsets is without.consumer_offsets
    assert remove_group(tables, "g", 5, clean_offsets=False).consumer_offsets is (
        tables.consumer_offsets
    )
    cleaned = remove_group(tables, "g", 5, clean_offsets=True)
    assert not cleaned.consumer_offsets.offset_table
    assert not cleaned.groups.subscription_group_table
    assert remove_group(cleaned, "g", 6, clean_offsets=True) is cleaned


def test_a_slave_ends_with_its_masters_tables() -> None:
    """Whatever the master changes, in whatever order the slave asks."""
    master = put_topic(Tables(), TopicConfig(topic_name="a"), 1)
    master = put_group(master, SubscriptionGroupConfig(group_name="g"), 1)
    master = set_offsets(master, {"a@g": {0: 4}}, 1)
    copy = _copied(Tables(), master)
    master = set_offsets(put_topic(master, TopicConfig(topic_name="b"), 2), {"b@g": {0: 1}}, 2)
    copy = _copied(copy, master)
    master = set_offsets(remove_topic(master, "a", 3), {"b@g": {0: 0}}, 3)
    copy = _copied(copy, master)
    assert not changed_values(copy, master)


def _copied(copy: Tables, master: Tables) -> Tables:
    for kind in kinds.KINDS:
        if kind.code is not None:
            copy = adopt(copy, kind, getattr(master, kind.name))
    return copy


def changed_values(one: Tables, other: Tables) -> list[str]:
    fields = attrs.asdict(one, recurse=False)
    return [kind.name for kind in kinds.KINDS if fields[kind.name] != getattr(other, kind.name)]


# ---- deleted topics ----


def test_a_table_says_when_topics_were_deleted() -> None:
    tables = Tables(topics=topics(1, "a", "b"))
    tables = remove_topic(tables, topic="a", now_ms=5)
    assert tables.topics.data_version == DataVersion(counter=2, timestamp=5)
    tables = remove_topic(tables, topic="never there", now_ms=6)
    assert deleted_topics(tables.topics) == {"a": 5, "never there": 6}
    assert deleted_topics(TOPIC_TABLE.decode(encode(tables.topics))) == {"a": 5, "never there": 6}
    tables = put_topic(tables, config=TopicConfig(topic_name="a"), now_ms=7)
    assert deleted_topics(tables.topics) == {"a": 5, "never there": 6}
    tables = remove_topic(tables, topic="a", now_ms=4)  # the clock was set back
    assert deleted_topics(tables.topics) == {"a": 5, "never there": 6}
    tables = remove_topic(tables, topic="a", now_ms=9)
    assert deleted_topics(tables.topics) == {"a": 9, "never there": 6}


def test_a_table_names_those_that_were_deleted_last() -> None:
    tables = Tables()
    for number in range(DELETED_MAX + 2):
        tables = remove_topic(tables, topic=f"t{number}", now_ms=number)
    assert sorted(deleted_topics(tables.topics).values()) == list(range(2, DELETED_MAX + 2))


def test_a_slave_has_what_its_master_says() -> None:
    master = with_lineage(Tables(topics=topics(1, "a", "b")), "m")
    slave = adopt(Tables(), kinds.TOPICS, master.topics)
    master = remove_topic(master, topic="a", now_ms=5)
    slave = adopt(slave, kinds.TOPICS, master.topics)
    assert slave.topics == master.topics
    assert deleted_topics(slave.topics) == {"a": 5}
    master = put_topic(master, config=TopicConfig(topic_name="a"), now_ms=6)
    assert adopt(slave, kinds.TOPICS, master.topics).topics == master.topics


def test_a_slave_finds_out_what_a_java_master_has_deleted() -> None:
    slave = adopt(Tables(), kinds.TOPICS, topics(1, "a", "b", "c"))
    slave = adopt(slave, kinds.TOPICS, topics(2, "b", "c", timestamp=2000))
    slave = adopt(slave, kinds.TOPICS, topics(3, "c", timestamp=3000))
    assert deleted_topics(slave.topics) == {"a": 2000, "b": 3000}
    slave = adopt(slave, kinds.TOPICS, topics(4, "a", "c", timestamp=4000))
    assert deleted_topics(slave.topics) == {"b": 3000}
    anew = adopt(slave, kinds.TOPICS, topics(1, "d", timestamp=9000))
    assert deleted_topics(anew.topics) == {"b": 3000}, "what is kept was not deleted"


def test_a_new_master_has_deleted_nothing_in_the_future() -> None:
    """Its clock is behind, and a topic that is made again is to be found."""
    tables = promoted(remove_topic(Tables(), topic="a", now_ms=5000), now_ms=4000)
    assert deleted_topics(tables.topics) == {"a": 4000}


@pytest.mark.parametrize("said", ['"a"', '{"a":"b"}', "[1]"])
def test_an_edited_file_has_deleted_nothing(said: str) -> None:
    table = TopicTable(more={DELETED_KEY: msgspec.Raw(said.encode())})
    assert deleted_topics(table) == {}
