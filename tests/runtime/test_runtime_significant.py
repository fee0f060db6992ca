"""Significant children beside siblings that come back: one that is never restarted is there, or its
supervisor ends."""

import pytest
from runtime_probe import Crash, Log, settle

from actors.runtime import (
    AutoShutdown,
    Restart,
    SpecError,
    Strategy,
    SupervisorSpec,
    open_system,
)

TEMPORARY, TRANSIENT = Restart.TEMPORARY, Restart.TRANSIENT


@pytest.mark.parametrize("strategy", [Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE])
async def test_a_significant_child_stopped_with_its_group_comes_back(autojump_clock, strategy):
    log = Log()
    spec = SupervisorSpec(
        strategy=strategy,
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        children=(log.child("a"), log.child("x", restart=TRANSIENT, significant=True)),
    )
    async with open_system("n0", spec) as system:
        await system.ref("/n0/a").tell(Crash())
        await settle()
        assert log == ["+a#1", "+x#1", "-a crashed", "-x shutdown", "+a#2", "+x#2"]


@pytest.mark.parametrize("auto", [AutoShutdown.ANY_SIGNIFICANT, AutoShutdown.ALL_SIGNIFICANT])
@pytest.mark.parametrize("restart", [Restart.PERMANENT, TRANSIENT])
@pytest.mark.parametrize(
    ("strategy", "names"),
    [
        (Strategy.ONE_FOR_ALL, "ax"),
        (Strategy.ONE_FOR_ALL, "xa"),
        (Strategy.REST_FOR_ONE, "ax"),
        (Strategy.REST_FOR_ONE, "yax"),
    ],
)
def test_none_may_go_down_for_good_with_a_sibling_that_comes_back(auto, restart, strategy, names):
    """OTP takes such a tree: after a crash of `a` it goes on without `x`, and tells nobody."""
    log = Log()
    for_good = {"restart": TEMPORARY, "significant": True}
    children = {
        "a": log.child("a", restart=restart),
        "x": log.child("x", **for_good),
        "y": log.child("y", **for_good),
    }
    with pytest.raises(SpecError, match="x is significant and temporary, and a, which comes back"):
        SupervisorSpec(
            strategy=strategy,
            auto_shutdown=auto,
            children=tuple(children[name] for name in names),
        )


@pytest.mark.parametrize(
    ("strategy", "names"), [(Strategy.ONE_FOR_ONE, "axb"), (Strategy.REST_FOR_ONE, "xab")]
)
async def test_one_that_is_never_restarted_stays_where_no_sibling_takes_it_along(
    autojump_clock, strategy, names
):
    log = Log()
    for_good = {"restart": TEMPORARY, "significant": True}
    spec = SupervisorSpec(
        strategy=strategy,
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        children=tuple(log.child(name, **(for_good if name == "x" else {})) for name in names),
    )
    async with open_system("n0", spec) as system:
        await system.ref("/n0/a").tell(Crash())
        await settle()
        await system.ref("/n0/b").tell(Crash())
        await settle()
        assert [line for line in log if "x" in line] == ["+x#1"]
        assert "+a#2" in log
