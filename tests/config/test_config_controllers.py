"""`[controllers]` of a cluster file: the group that it makes, and what is wrong with it."""

from __future__ import annotations

import pytest

from actors.config import check, loads, validate
from actors.config.controllers import DEFAULTS
from actors.config.dledger import ControllerSettings, DLedgerGroup
from actors.config.model import ClusterConfig
from actors.config.settings import settings
from actors.errors import ConfigError

BASE = """
version = 1
name = "c"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
"""


def problems(text: str, base: str = BASE) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        loads(base + text, "f.toml")
    return caught.value.problems


def test_it_is_a_group_with_defaults_of_its_own() -> None:
    config = loads(f'{BASE}[controllers]\nnodes = ["n0", "n1", "n2"]\nport = 9878\n', "f.toml")
    (group,) = config.groups.values()
    assert isinstance(group, DLedgerGroup)
    assert (group.name, group.members, group.port) == ("controllers", ("n0", "n1", "n2"), 9878)
    assert group.controller == ControllerSettings()
    assert group.data_file_bytes == DEFAULTS["data_file_bytes"]
    assert group.durability == "synced"


def test_keys_of_a_dledger_group_and_its_own_are_taken() -> None:
    text = (
        '[controllers]\nnodes = ["n0"]\nheartbeat_interval_s = 0.5\nelect_unclean_master = true\n'
        "notify_role_changed = false\n"
    )
    config = loads(BASE + text, "f.toml")
    group = config.groups["controllers"]
    assert isinstance(group, DLedgerGroup)
    assert group.heartbeat_interval_s == 0.5
    assert group.controller == ControllerSettings(
        elect_unclean_master=True, notify_role_changed=False
    )
    assert settings(config)["groups.controllers.controller.elect_unclean_master"] == "true"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("controllers = 3\n", "controllers: expected a table, found 3"),
        ("[controllers]\nport = 9878\n", "controllers.nodes: expected "),
        (
            '[controllers]\nnodes = ["n0", "n1"]\n',
            "controllers.nodes: expected an odd number of nodes",
        ),
        (
            '[controllers]\nnodes = ["n7"]\n',
            "controllers.nodes[0]: expected one of the nodes n0, n1, n2",
        ),
        ('[controllers]\nnodes = ["n0"]\nport = "x"\n', "controllers.port: expected "),
        ('[controllers]\nnodes = ["n0"]\nprot = 1\n', "controllers.prot: expected a known key"),
        (
            '[controllers]\nnodes = ["n0"]\nmembers = ["n0"]\n',
            "controllers.members: expected a known key",
        ),
        (
            '[controllers]\nnodes = ["n0"]\nelect_unclean_master = 1\n',
            "controllers.elect_unclean_master: expected true or false, found 1",
        ),
        (
            '[controllers]\nnodes = ["n0"]\ndurability = "written"\n',
            'controllers.durability: expected "synced": controllers decide by it',
        ),
        (
            '[controllers]\nnodes = ["n0"]\nstore = "memory"\n',
            'controllers.store: expected "file": controllers decide by it',
        ),
        (
            '[controllers]\nnodes = ["n0"]\ncompat = "upstream"\n',
            "controllers.compat: expected nothing: controllers decide by it",
        ),
        (
            '[groups.controllers]\nmode = "dledger"\nmembers = ["n0"]\n',
            "groups.controllers: expected another name",
        ),
        (
            '[groups.x]\nmode = "dledger"\nmembers = ["n0"]\n[groups.x.controller]\n',
            "groups.x.controller: expected [controllers], a table of its own",
        ),
        (
            '[controllers]\nnodes = ["n0"]\n[groups.controllers]\nmode = "dledger"\n'
            'members = ["n0"]\n',
            "groups.controllers: expected another name",
        ),
        (
            '[controllers]\nnodes = ["n0"]\nport = 9878\n[groups.x]\nmode = "dledger"\n'
            'members = ["n0"]\nport = 9878\n',
            "expected a port of its own on node n0",
        ),
    ],
)
def test_what_is_wrong_is_said_with_the_keys_of_the_file(text: str, problem: str) -> None:
    base, last = BASE, text
    if text.startswith("controllers ="):
        base, last = text + BASE, ""
    found = problems(last, base)
    assert len(found) == 1 or not last, found
    assert problem in found[0]


def test_a_program_may_make_it_and_has_it_checked() -> None:
    group = DLedgerGroup(name="controllers", members=("n0", "n1"), controller=ControllerSettings())
    nodes = {"n0": "127.0.0.1", "n1": "127.0.0.2"}
    config = ClusterConfig(name="c", data_dir="/d", nodes=nodes, groups={group.name: group})
    with pytest.raises(ConfigError, match=r"key controllers\.nodes: expected an odd number"):
        validate(config)


def test_check_says_what_it_is() -> None:
    text = '[controllers]\nnodes = ["n0"]\nport = 9878\nelect_unclean_master = true\n'
    page = check.render(loads(BASE + text, "f.toml"), {})
    assert "1 controller of broker sets" in page
    assert "whoever reaches port 9878 may elect masters" in page
    assert "which is lost then" in page


def test_controllers_of_java_may_be_among_them() -> None:
    """Java's pass over an empty entry, so nobody is asked how a term begins."""
    java = '{ node = "n1", kind = "java" }, { node = "n2", kind = "java" }'
    config = loads(f'{BASE}[controllers]\nnodes = ["n0", {java}]\nport = 9878\n', "f.toml")
    (group,) = config.groups.values()
    assert isinstance(group, DLedgerGroup)
    assert group.opens_term_with == "empty"
    page = check.render(config, {})
    assert "a controller of Java's with an empty store is not brought up by one of ours" in page
    assert "readers of Java members" not in page
