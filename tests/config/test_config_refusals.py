"""Each kind of bad input gives the one line that a user can act on."""

from __future__ import annotations

import pytest
from refusals_kit import BASE, GROUP, HEAD, NODES, group, lines

from actors.config import check, loads

HOURS = "a list of different hours from 0 to 23"


def test_base_is_accepted() -> None:
    assert loads(BASE, "f.toml").groups["orders"].members == ("n0", "n1", "n2")


def test_unknown_key_with_suggestion() -> None:
    assert group("portt = 1") == [
        "f.toml: key groups.orders.portt: expected a known key (did you mean port?), "
        "found an unknown one"
    ]


def test_unknown_key_without_suggestion() -> None:
    assert lines("zzz = 1\n" + BASE) == [
        "f.toml: key zzz: expected a known key, found an unknown one"
    ]


def test_unknown_table() -> None:
    assert group("[nodez]\n") == [
        "f.toml: key nodez: expected a known key (did you mean nodes?), found an unknown one"
    ]


def test_a_group_is_named_by_its_table_only() -> None:
    assert group('name = "other"') == [
        "f.toml: key groups.orders.name: expected a known key, found an unknown one"
    ]


def test_the_path_is_no_key() -> None:
    assert lines('path = "x"\n' + BASE) == [
        "f.toml: key path: expected a known key, found an unknown one"
    ]


@pytest.mark.parametrize(
    ("addition", "key", "expected", "found"),
    [
        ('copies = "2"', "copies", "an integer from 1 to 64", '"2"'),
        ("copies = 2.0", "copies", "an integer from 1 to 64", "2.0"),
        ("port = true", "port", "an integer from 1 to 65535", "true"),
        ("port = 0", "port", "an integer from 1 to 65535", "0"),
        ("port = 65536", "port", "an integer from 1 to 65535", "65536"),
        ('check_crc_on_recover = "no"', "check_crc_on_recover", "true or false", '"no"'),
        ("check_crc_on_recover = 1", "check_crc_on_recover", "true or false", "1"),
        ("slave_timeout_s = true", "slave_timeout_s", "a number from 0.001 to 86400", "true"),
        ("slave_timeout_s = nan", "slave_timeout_s", "a number from 0.001 to 86400", "nan"),
        ("slave_timeout_s = inf", "slave_timeout_s", "a number from 0.001 to 86400", "inf"),
        ("slave_timeout_s = 0", "slave_timeout_s", "a number from 0.001 to 86400", "0"),
        ("frame_bytes = 4194293", "frame_bytes", "an integer from 1024 to 4194292", "4194293"),
        ("frame_bytes = -1", "frame_bytes", "an integer from 1024 to 4194292", "-1"),
        (
            "ha_max_gap_not_in_sync_bytes = 1" + "0" * 99,
            "ha_max_gap_not_in_sync_bytes",
            "an integer from 1 to 4611686018427387904",
            "an integer of more than 60 digits",
        ),
        (
            "segment_bytes = 5000",
            "segment_bytes",
            "an integer from 4096 to 2147479552, a multiple of 4096",
            "5000",
        ),
        (
            "consume_queue_bytes = 30",
            "consume_queue_bytes",
            "an integer from 20 to 1000000000, a multiple of 20",
            "30",
        ),
        ("durability = true", "durability", '"synced" or "written"', "true"),
        (
            'durability = "Synced"',
            "durability",
            '"synced" or "written" (did you mean synced?)',
            '"Synced"',
        ),
        ('compat = "5.3"', "compat", '"upstream"', '"5.3"'),
        (
            'store_version = "5.5"',
            "store_version",
            "a RocketMQ version of three numbers, such as 5.5.0",
            '"5.5"',
        ),
        (
            'message_delay_level = "1s 2"',
            "message_delay_level",
            "1 to 64 delays of s, m, h or d, with a blank between, such as 1s 5s 10m 2h",
            '"1s 2"',
        ),
        ('delete_when_hours = "04"', "delete_when_hours", HOURS, '"04"'),
        ("delete_when_hours = []", "delete_when_hours", HOURS, "[]"),
        ("delete_when_hours = [4, 4]", "delete_when_hours", HOURS, "[4, 4]"),
        ("delete_when_hours = [24]", "delete_when_hours", HOURS, "[24]"),
        ('delete_when_hours = ["04"]', "delete_when_hours[0]", "an integer", '"04"'),
        ("disk_full_ratio = 90", "disk_full_ratio", "a number from 0.1 to 0.99", "90"),
    ],
)
def test_value_that_its_key_does_not_take(
    addition: str, key: str, expected: str, found: str
) -> None:
    line = f"f.toml: key groups.orders.{key}: expected {expected}, found {found}"
    assert group(addition) == [line]


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("version = 1", "version = 2", "key version: expected 1, found 2"),
        ('name = "demo"', "name = 3", None),
        ('name = "demo"', 'name = "a\\nb"', None),
        ('data_dir = "var"', 'data_dir = ""', None),
        ('data_dir = "var"', 'data_dir = "a\\u0000"', None),
        ('data_dir = "var"', "data_dir = 1979-05-27", None),
        ('"127.0.0.2"', '"localhost"', None),
        ('"127.0.0.2"', "127", None),
        ('"127.0.0.2"', '"0.0.0.0"', None),
        ('"127.0.0.2"', '"::"', None),
        ('"127.0.0.2"', '"224.0.0.1"', None),
        ('"127.0.0.2"', '"::ffff:127.0.0.2"', None),
        ('"127.0.0.2"', '"fe80::1%eth0"', None),
        ('"127.0.0.2"', '"127.0.0.2:80"', None),
    ],
)
def test_top_level_values(before: str, after: str, line: str | None) -> None:
    [found] = lines(BASE.replace(before, after))
    if line is not None:
        assert found == f"f.toml: {line}"
    key = "nodes.n1" if before.startswith('"') else before.split(" ", 1)[0]
    assert found.startswith(f"f.toml: key {key}: expected ")
    assert "\n" not in found


def test_missing_keys_are_all_named() -> None:
    assert [line.split(",")[0] for line in lines("")] == [
        "f.toml: key name: expected a name of 1 to 64 letters",
        "f.toml: key data_dir: expected a path without control characters",
        "f.toml: key nodes: expected a table",
        "f.toml: key groups: expected a table",
    ]
    assert lines(BASE.replace('master = "n0"\n', "")) == [
        'f.toml: key groups.orders.master: expected a node\'s name or { node = "NAME", '
        'kind = "java" }, found nothing'
    ]


@pytest.mark.parametrize("value", ["3", '"x"', "[]", "[{}]"])
def test_scalar_in_place_of_a_table(value: str) -> None:
    [line] = lines(HEAD + NODES + f"[groups]\norders = {value}\n")
    assert line.startswith("f.toml: key groups.orders: expected a table, found ")
    [line] = lines(f"nodes = {value}\n" + HEAD + GROUP)
    assert line.startswith("f.toml: key nodes: expected a table, found ")
    [line] = lines(f"events = {value}\n" + BASE)
    assert line.startswith("f.toml: key events: expected a table, found ")


def test_names_that_cannot_be_folders() -> None:
    bad = "expected a name of 1 to 64 letters, digits, _ and -"
    assert group('[groups."a b"]\nmaster = "n0"\n') == [
        f'f.toml: key groups."a b": {bad}, found "a b"'
    ]
    [line] = lines(BASE.replace("[groups", '"../n9" = "127.0.0.9"\n[groups', 1))
    assert line.startswith('f.toml: key nodes."../n9": expected a name')
    [line] = group(f'[groups.{"x" * 65}]\nmaster = "n0"\n')
    assert line.startswith("f.toml: key groups.xxx")


@pytest.mark.parametrize("name", ["api", "event_log", "events"])
def test_reserved_group_names(name: str) -> None:
    assert group(f'[groups.{name}]\nmaster = "n0"\nport = 1\n') == [
        f'f.toml: key groups.{name}: expected another name (this one is reserved), found "{name}"'
    ]


def test_reserved_node_name() -> None:
    assert lines(BASE.replace("[groups", 'feed = "127.0.0.9"\n[groups', 1)) == [
        'f.toml: key nodes.feed: expected another name (this one is reserved), found "feed"'
    ]


def test_a_key_of_the_other_mode_is_called_so() -> None:
    ledger = '[groups.ledger]\nmode = "dledger"\nmembers = ["n0"]\n'
    assert group(ledger + 'master = "n0"\nsegment_bytes = 4096\n') == [
        "f.toml: key groups.ledger.master: expected a key of dledger groups, "
        "found one of classic groups",
        "f.toml: key groups.ledger.segment_bytes: expected a key of dledger groups, "
        "found one of classic groups",
    ]
    assert group("heartbeat_leaks = 3\n") == [
        "f.toml: key groups.orders.heartbeat_leaks: expected a key of classic groups, "
        "found one of dledger groups"
    ]


def test_unknown_mode() -> None:
    assert lines(BASE.replace('"classic"', '"clasic"')) == [
        'f.toml: key groups.orders.mode: expected "classic" or "dledger" or "autoswitch"'
        ' (did you mean classic?), found "clasic"'
    ]


def test_members() -> None:
    assert lines(BASE.replace('["n1", "n2"]', '["n1", "n22"]')) == [
        "f.toml: key groups.orders.slaves[1]: expected one of the nodes n0, n1, n2 "
        '(did you mean n2?), found "n22"'
    ]
    assert lines(BASE.replace('master = "n0"', 'master = "zz"')) == [
        'f.toml: key groups.orders.master: expected one of the nodes n0, n1, n2, found "zz"'
    ]
    assert lines(BASE.replace('["n1", "n2"]', '["n1", "n0"]')) == [
        'f.toml: key groups.orders.slaves[1]: expected slaves other than the master, found "n0"'
    ]
    assert lines(BASE.replace('["n1", "n2"]', '["n1", "n1"]')) == [
        'f.toml: key groups.orders.slaves[1]: expected each slave once, found "n1" again'
    ]
    assert lines(BASE.replace('["n1", "n2"]', '"n1"')) == [
        'f.toml: key groups.orders.slaves: expected a list, found "n1"'
    ]
    assert lines(BASE.replace('["n1", "n2"]', "[3]")) == [
        'f.toml: key groups.orders.slaves[0]: expected a node\'s name or { node = "NAME", '
        'kind = "java" }, found 3'
    ]
    assert lines(BASE.replace('"n2"]', '{ node = "n2", kind = "jva" }]')) == [
        'f.toml: key groups.orders.slaves[1].kind: expected "python" or "java" '
        '(did you mean java?), found "jva"'
    ]


def test_copies() -> None:
    assert group("copies = 4") == [
        "f.toml: key groups.orders.copies: expected at most 3, the number of the group's nodes, "
        "found 4"
    ]
    java = BASE.replace('"n2"]', '{ node = "n2", kind = "java" }]')
    assert lines(java + "copies = 3") == [
        "f.toml: key groups.orders.copies: expected at most 2 (Java slaves do not count where "
        'durability = "synced"), found 3'
    ]
    assert loads(java + 'copies = 3\ndurability = "written"', "f.toml")
    only_java = BASE.replace('["n1", "n2"]', '[{ node = "n2", kind = "java" }]')
    assert "found 2" in lines(only_java)[0]  # the default would never be answered either


def test_two_groups_on_one_port_of_a_node() -> None:
    assert group('[groups.b]\nmaster = "n1"\n') == [
        "f.toml: key groups.b.port: expected a port of its own on node n1, found 10912, "
        "the port of group orders"
    ]
    far = BASE.replace('["n1", "n2"]', '["n1"]')
    assert loads(far + '[groups.b]\nmaster = "n2"\n', "f.toml").groups["b"].port == 10912


def test_api_port() -> None:
    assert lines("api_port = 10912\n" + BASE) == [
        "f.toml: key api_port: expected a port of its own, found 10912, the port of group orders"
    ]
    shared = BASE.replace('"127.0.0.3"', '"127.0.0.1"') + "copies = 1\n"
    assert loads(shared, "f.toml")
    assert lines("api_port = 1\n" + shared) == [
        "f.toml: key api_port: expected nodes on different addresses, found n0 and n2 on 127.0.0.1"
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            BASE + "broker_port = 10914",
            "broker_port: expected neither 10912, the group's port, nor 10914, found 10914",
        ),
        (BASE + "broker_port = 2", "broker_port: expected an integer from 3 to 65535, found 2"),
        (
            "api_port = 10909\n" + BASE + "broker_port = 10911",
            "broker_port: expected neither 10909, the api_port, nor 10911, found 10911",
        ),
        (
            BASE + 'broker_peers = ["127.0.0.9"]',
            'broker_peers: expected nothing without broker_port, found ["127.0.0.9"]',
        ),
        (
            BASE + 'broker_port = 10911\nbroker_peers = ["here"]',
            'broker_peers[0]: expected an IP address, found "here"',
        ),
        (
            BASE + 'broker_port = 10911\n[groups.b]\nmaster = "n1"\nport = 10909',
            "broker_port: expected it and the port 2 below not among 10909 of group b on node n1, "
            "found 10911",
        ),
    ],
)
def test_broker_port(text: str, line: str) -> None:
    assert lines(text) == [f"f.toml: key groups.orders.{line}"]


@pytest.mark.parametrize(
    ("more", "java", "expected"),
    [
        ("", True, "nothing without broker_port"),
        ("broker_port = 10911\n", False, "nothing without a Java master"),
    ],
)
def test_a_port_of_the_master_alone(more: str, java: bool, expected: str) -> None:
    text = BASE.replace('"n0"\nslaves', '{ node = "n0", kind = "java" }\nslaves') if java else BASE
    assert lines(text + more + "master_broker_port = 20911\n") == [
        f"f.toml: key groups.orders.master_broker_port: expected {expected}, found 20911"
    ]


def test_a_broker_port_of_its_own() -> None:
    found = loads(BASE + 'broker_port = 10911\nbroker_peers = ["192.0.2.1"]', "f.toml")
    assert found.classic_groups["orders"].broker_ports == (10911, 10909)
    assert [use.port for use in check.ports(found) if use.node == "n1"] == [10911, 10909]


def test_broker_peers_are_compared_as_they_connect() -> None:
    found = loads(BASE + 'broker_port = 10911\nbroker_peers = ["2001:0DB8:0::1"]', "f.toml")
    assert found.classic_groups["orders"].broker_peers == ("2001:db8::1",)


def test_two_nodes_on_one_address() -> None:
    assert lines(BASE.replace('"127.0.0.2"', '"127.0.0.1"')) == [
        "f.toml: key nodes.n1: expected another address than n0's: group orders counts copies "
        'by address, found "127.0.0.1"'
    ]
    slaves = BASE.replace('"127.0.0.2"', '"127.0.0.3"') + "copies = 1\n"
    assert lines(slaves) == [
        "f.toml: key nodes.n2: expected another address than n1's: slaves are told apart by their "
        'addresses, found "127.0.0.3"'
    ]
    spelled = NODES.replace("127.0.0.1", "::2").replace("127.0.0.2", "::1")
    spelled = spelled.replace("127.0.0.3", "0:0::1")
    assert "another address" in lines(HEAD + spelled + GROUP)[0]


def test_two_families_of_addresses() -> None:
    """A node connects from its own address, and reaches none of the other family."""
    assert lines(BASE.replace('"127.0.0.3"', '"::1"')) == [
        'f.toml: key nodes.n2: expected an IPv4 address, as n0 has, found "::1"'
    ]


@pytest.mark.parametrize(
    ("addition", "line"),
    [
        ("max_message_bytes = 4096\nsegment_bytes = 4096", "segment_bytes, 4096, found 4096"),
        ("append_pending_bytes = 65536", "at least max_message_bytes, 4194304, found 65536"),
        ("ha_send_heartbeat_interval_s = 20", "ha_housekeeping_interval_s, 20, found 20"),
        ("disk_max_used_ratio = 0.9", "at most disk_clean_forcibly_ratio, 0.85, found 0.9"),
        ("disk_full_ratio = 0.8", "at most disk_full_ratio, 0.8, found 0.85"),
    ],
)
def test_limits_that_contradict_each_other(addition: str, line: str) -> None:
    [found] = group(addition)
    assert found.endswith(line)


def test_limits_may_be_reached() -> None:
    keys = "disk_max_used_ratio = 0.85\ndisk_full_ratio = 0.85\ndelete_when_hours = [0, 23]\n"
    keys += "append_pending_bytes = 4194304\nframe_bytes = 4194292\nport = 65535\ncopies = 3\n"
    assert loads(BASE + keys, "f.toml").groups["orders"].delete_when_hours == (0, 23)
    longest = "x" * 64
    assert longest in loads(BASE + f'[groups.{longest}]\nmaster = "n0"\nport = 1', "f").groups


def test_feed_and_events() -> None:
    assert group('[demo.feed]\nfil = "x"\nrate_per_s = -1\n') == [
        "f.toml: key demo.feed.file: expected a path without control characters, found nothing",
        "f.toml: key demo.feed.rate_per_s: expected an integer from 0 to 100000000, found -1",
        "f.toml: key demo.feed.fil: expected a known key (did you mean file?), "
        "found an unknown one",
    ]
    assert group('[events]\npolicy = "keep"\n') == [
        'f.toml: key events.policy: expected "drop" or "stop", found "keep"'
    ]


def test_no_nodes_no_groups() -> None:
    assert lines(HEAD + "nodes = {}\ngroups = {}\n") == [
        "f.toml: key nodes: expected from 1 to 64 nodes, found 0",
        "f.toml: key groups: expected from 1 to 64 groups, found 0",
    ]


def test_everything_wrong_is_said_at_once() -> None:
    text = BASE.replace('["n1", "n2"]', '["n1", "n22"]') + 'copies = "2"\nportt = 1\n'
    assert [line.split(":")[1] for line in lines(text)] == [
        " key groups.orders.copies",
        " key groups.orders.portt",
        " key groups.orders.slaves[1]",
    ]


def test_nothing_is_said_about_what_only_follows_from_another_mistake() -> None:
    # The mistyped port leaves the default, which the first group has too: only the typing is said.
    assert len(group('[groups.b]\nmaster = "n1"\nprot = 10913\n')) == 1
    # A node that is left out for its address is not unknown.
    assert len(lines(BASE.replace('"127.0.0.3"', "3"))) == 1
    # What follows a broken slave moves up one place: it is not reported under a wrong number.
    assert len(lines(BASE.replace('["n1", "n2"]', '[3, "n9"]'))) == 1


@pytest.mark.parametrize(
    "slaves", ['[3, "n1", 4]', '[{ node = "n1", kind = "x" }]', '[{ nod = "n1", node = "n1" }]']
)
def test_a_wrong_list_does_not_hide_how_other_parts_fit(slaves: str) -> None:
    text = BASE.replace('["n1", "n2"]', slaves) + 'port = 1\n[groups.b]\nmaster = "n0"\nport = 1\n'
    found = lines(text)
    assert len(found) == slaves.count("3") + slaves.count("4") + slaves.count("x") + 1 + (
        "nod =" in slaves
    )
    assert "groups.b.port: expected a port of its own" in found[-1]


def test_long_values_are_cut() -> None:
    assert group(f'port = "{"x" * 58}"')[0].endswith(f'found "{"x" * 58}"')
    assert group(f'port = "{"x" * 59}"')[0].endswith(f'found "{"x" * 56}...')
    assert group("port = [0, 0, 0, 0, 0, 0, 0, 0]")[0].endswith("[0, 0, 0, 0, 0, 0, 0, 0]")
    assert group("port = [0, 0, 0, 0, 0, 0, 0, 0, 0]")[0].endswith("0, 0, 0, 0, 0, ...]")
    assert group("port = [{}, true, 1.5]")[0].endswith("[a table, true, 1.5]")


@pytest.mark.parametrize(
    "text",
    ["x", "a = 1\na = 2", "a = " + "[" * 5000, "x = 1" + "0" * 5000, "[nodes", 'a = "\x01"'],
)
def test_not_toml(text: str) -> None:
    [line] = lines(text)
    assert line.startswith("f.toml: expected TOML, found ")
    assert "\n" not in line


def test_duplicate_table_is_not_toml() -> None:
    assert "expected TOML" in group(GROUP)[0]
