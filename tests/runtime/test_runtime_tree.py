"""The tree as a picture, before it runs and while it runs."""

import pytest
import trio
from runtime_probe import Boom, Crash, Hang, Log, Note, settle

from actors.runtime import (
    ActorDown,
    AutoShutdown,
    Backoff,
    ChildSpec,
    DynamicSpec,
    MailboxStatistics,
    Restart,
    SignificantChildFailed,
    State,
    Strategy,
    SupervisorSpec,
    TreeNode,
    describe,
    open_system,
    render_spec,
    render_tree,
)


def group(log: Log) -> SupervisorSpec:
    storage = SupervisorSpec(
        strategy=Strategy.ONE_FOR_ALL,
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        children=(
            log.child("store", restart=Restart.TEMPORARY, significant=True),
            log.child("syncer", restart=Restart.TEMPORARY, significant=True),
        ),
    )
    return SupervisorSpec(
        strategy=Strategy.REST_FOR_ONE,
        children=(
            ChildSpec(name="storage", start=storage),
            ChildSpec(name="connections", start=DynamicSpec(children_max=16)),
            log.child("ha_client", backoff=Backoff(first_s=0.5, max_s=5.0)),
        ),
    )


def test_a_specification_is_printed_before_it_runs():
    assert render_spec(group(Log()), "n0") == "\n".join(
        [
            "/n0 [rest_for_one, 3 restarts in 30 s]",
            "├─ storage [one_for_all, 3 restarts in 30 s, any_significant] permanent",
            "│  ├─ store temporary significant",
            "│  └─ syncer temporary significant",
            "├─ connections [dynamic, at most 16 children, 3 restarts in 30 s] permanent",
            "└─ ha_client permanent back-off 0.5-5 s",
        ]
    )
    assert render_spec(DynamicSpec(), "d").startswith("/d [dynamic, at most 1,024 children")


async def test_a_running_tree_is_printed_with_states_restarts_and_mailboxes(autojump_clock):
    log = Log()
    async with open_system("n0", group(log)) as system:
        await system.ref("/n0/ha_client").tell(Crash())
        store = system.ref("/n0/storage/store")
        await store.tell(Hang())
        await settle()
        await store.tell(Note(text="waits"))
        assert render_tree(system.tree()) == "\n".join(
            [
                "/n0#1 [rest_for_one]",
                "├─ storage#1 [one_for_all]",
                "│  ├─ store#1 [Probe] depth=1 peak=1 received=1",
                "│  └─ syncer#1 [Probe] depth=0 peak=0 received=0",
                "├─ connections#1 [simple_one_for_one] depth=0 peak=0 received=0",
                "└─ ha_client#1 [Probe] waiting",
            ]
        )
        await trio.sleep(1.0)
        assert render_tree(system.tree()).endswith(
            "└─ ha_client#2 [Probe] restarts=1 depth=0 peak=0 received=0"
        )


async def test_states_while_starting_and_stopping(autojump_clock):
    log = Log()
    spec = SupervisorSpec(
        strategy=Strategy.REST_FOR_ONE,
        children=(
            log.child("a"),
            log.child("b", probe={"start_s": 1.0, "stop_s": 2.0}),
            log.child("c", restart=Restart.TRANSIENT),
        ),
    )
    async with open_system("n0", spec) as system:

        def states() -> list[str]:
            return [node.state.value for node in system.tree().children]

        assert states() == ["running", "running", "running"]
        await system.ref("/n0/a").tell(Crash())
        await trio.sleep(1.0)
        assert states() == ["stopped", "stopping", "waiting"]
        await trio.sleep(1.5)
        assert states() == ["running", "starting", "waiting"]
        await trio.sleep(1.0)
        assert states() == ["running", "running", "running"]
    tree = system.tree()
    assert tree.state is State.STOPPED
    assert tree.find("/n0/b").mailbox is None
    assert tree.find("/n0/nobody") is None


def test_a_node_shows_what_is_unusual_about_its_mailbox():
    box = MailboxStatistics(
        depth=3,
        peak=9,
        size_bytes=4096,
        oldest_age_s=1.0,
        received=7,
        refused=2,
        conflated=5,
        senders_waiting=1,
    )
    node = TreeNode(
        path="/n0/a",
        kind="actor",
        type="Store",
        incarnation=4,
        state=State.STOPPING,
        restarts=3,
        mailbox=box,
        children=(),
    )
    assert render_tree(node) == (
        "/n0/a#4 [Store] stopping restarts=3 depth=3 peak=9 received=7"
        " bytes=4096 senders_waiting=1 conflated=5 refused=2"
    )


@pytest.mark.parametrize("never_again", [False, True])
@pytest.mark.parametrize(
    ("why", "reported"),
    [
        (ActorDown("no store"), "Boom: store"),
        (ExceptionGroup("below", [ActorDown("no store")]), "Boom: store"),
        (Boom("no socket"), "Boom: no socket"),
    ],
)
async def test_a_tree_that_cannot_start_names_the_crash_that_is_why(
    autojump_clock, why, reported, never_again
):
    """A later child that asked who had crashed could only say that nobody is there."""
    log = Log()
    how = {"restart": Restart.TEMPORARY, "significant": True} if never_again else {}
    spec = SupervisorSpec(
        strategy=Strategy.ONE_FOR_ONE,
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT if never_again else AutoShutdown.NEVER,
        children=(
            log.child("store", probe={"fails_soon": True}, **how),
            log.child("reader", probe={"start_s": 1.0, "failing": [why]}, **how),
        ),
    )
    with pytest.raises(ExceptionGroup) as failed:
        async with open_system("n0", spec):
            pass
    assert describe(failed.value) == reported


@pytest.mark.parametrize("never_again", [False, True])
async def test_a_crash_below_an_elder_supervisor_is_named_too(autojump_clock, never_again):
    """Whether that supervisor ends with it and is still stopping, or waits before a restart."""
    log = Log()
    how = {"restart": Restart.TEMPORARY, "significant": True} if never_again else {}
    shutdown = AutoShutdown.ANY_SIGNIFICANT if never_again else AutoShutdown.NEVER
    storage = SupervisorSpec(
        auto_shutdown=shutdown,
        children=(
            log.child("checker", probe={"stop_s": 3.0}, shutdown_s=5.0),
            log.child(
                "store", probe={"fails_soon": True}, backoff=Backoff(first_s=3.0, max_s=3.0), **how
            ),
        ),
    )
    reader = {"start_s": 1.0, "failing": [ActorDown("no store")]}
    spec = SupervisorSpec(
        auto_shutdown=shutdown,
        children=(
            ChildSpec(name="storage", start=storage, **how),
            log.child("reader", probe=reader),
        ),
    )
    with pytest.raises(ExceptionGroup) as failed:
        async with open_system("n0", spec):
            pass
    assert describe(failed.value) == "Boom: store"
    significant, _ = failed.value.split(SignificantChildFailed)
    assert (significant is not None) == never_again
