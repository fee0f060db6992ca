"""The gate of a store: who opens and closes it, and what an append meets there."""

from typing import Any

import pytest
from store_kit import Kit, local_reply, running, sim_disk, until

from actors.errors import NotEnoughReplicas, NotMaster
from actors.log_types import Chain, Promotion
from actors.storage.commitlog import store_messages

CLOSED = store_messages.GateClosed(reason="n1 is ahead", is_master=True)


async def set_gate(
    kit: Kit, closed: store_messages.GateClosed | None, incarnation: int = 1
) -> store_messages.LogRange:
    """The range that is asked for afterwards is final, if the gate is closed."""
    await kit.store.tell(store_messages.SetGate(incarnation=incarnation, closed=closed))
    return await kit.range()


async def test_without_a_keeper_a_master_takes_appends_from_the_start(autojump_clock: Any) -> None:
    async with running(sim_disk()) as kit:
        assert (await kit.append(b"one")).first_bytes == 0


async def test_a_guarded_master_is_closed_until_its_keeper_opens_it(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk, guarded=True) as kit:
        await until(lambda: kit.started)
        (started,) = kit.started
        assert (started.incarnation, started.range.written_bytes, started.was_clean) == (1, 0, True)
        with pytest.raises(NotEnoughReplicas, match="n0 has not opened orders yet"):
            await kit.append(b"one")
        assert (await kit.range()).written_bytes == 0
        await set_gate(kit, None)
        end = (await kit.append(b"one")).next_bytes
    async with running(disk, guarded=True) as kit:
        await until(lambda: kit.started)
        assert kit.started[0].range.written_bytes == end
        with pytest.raises(NotEnoughReplicas):
            await kit.append(b"two")


async def test_a_closed_gate_says_why_and_where_the_log_ends_for_good(autojump_clock: Any) -> None:
    async with running(sim_disk(), guarded=True) as kit:
        await set_gate(kit, None)
        end = (await kit.append(b"one")).next_bytes
        assert (await set_gate(kit, CLOSED)).written_bytes == end
        with pytest.raises(NotEnoughReplicas, match="n1 is ahead"):
            await kit.append(b"two")
        await set_gate(kit, store_messages.GateClosed(reason="n1 was promoted", hint="n1"))
        with pytest.raises(NotMaster, match="n1 was promoted") as refused:
            await kit.append(b"two")
        assert refused.value.hint == "n1"
        assert (await kit.range()).written_bytes == end


async def test_what_a_gate_refused_is_not_overtaken_when_it_opens(autojump_clock: Any) -> None:
    async with running(sim_disk(), guarded=True) as kit:
        chain, answers = Chain(), list[Any]()

        async def append(record: bytes, of: Chain | None) -> None:
            before = len(answers)
            message = store_messages.Append(
                records=(record,), deadline_s=9e9, reply_to=local_reply(answers), chain=of
            )
            await kit.store.tell(message)
            await until(lambda: len(answers) > before)

        await append(b"first", chain)
        chain.broken = True  # by who heard that
        await set_gate(kit, None)
        await append(b"behind it", chain)
        await append(b"another's", None)
        kinds = [type(answer).__name__ for answer in answers]
        assert kinds == ["NotEnoughReplicas", "NotStored", "Appended"]
        assert answers[-1].first_bytes == 0


async def test_the_gate_closes_before_appends_that_wait(autojump_clock: Any) -> None:
    async with running(sim_disk(), guarded=True) as kit:
        await set_gate(kit, None)
        answers: list[Any] = []
        for record in (b"one", b"two"):
            await kit.store.tell(
                store_messages.Append(
                    records=(record,), deadline_s=9e9, reply_to=local_reply(answers)
                )
            )
        await kit.store.tell(store_messages.SetGate(incarnation=1, closed=CLOSED))
        await until(lambda: len(answers) == 2)
        assert [type(answer) for answer in answers] == [NotEnoughReplicas] * 2
        assert (await kit.range()).written_bytes == 0


async def test_a_gate_meant_for_another_incarnation_of_the_store_changes_nothing(
    autojump_clock: Any,
) -> None:
    async with running(sim_disk(), guarded=True) as kit:
        await set_gate(kit, None, incarnation=2)
        with pytest.raises(NotEnoughReplicas):
            await kit.append(b"one")
        await set_gate(kit, None)
        await set_gate(kit, CLOSED, incarnation=2)
        await kit.append(b"one")


async def test_a_slave_takes_no_appends_and_shows_its_keeper_that_it_runs(
    autojump_clock: Any,
) -> None:
    async with running(sim_disk(), is_master=False, guarded=True) as kit:
        await until(lambda: kit.started)
        with pytest.raises(NotMaster, match="n0 is a slave of orders") as refused:
            await kit.append(b"one")
        assert refused.value.hint == "n7"
        assert kit.started[0].promotion == Promotion(3, "n7")
        await set_gate(kit, store_messages.GateClosed(reason="n0 is a slave of orders", hint="n2"))
        with pytest.raises(NotMaster) as refused:
            await kit.append(b"one")
        assert refused.value.hint == "n2"


async def test_what_was_cut_at_the_start_is_reported(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk, is_master=False, guarded=True) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, b"\0\0\0\x80")  # the beginning of a record
        await until(lambda: kit.grown is not None and kit.grown.written_bytes == 4)
    async with running(disk, guarded=True) as kit:
        await until(lambda: kit.started)
        assert kit.started[0].range.written_bytes == 0
        assert kit.started[0].kept_bytes == 4
