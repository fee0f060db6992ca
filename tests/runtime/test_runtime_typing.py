"""What mypy --strict proves about messages: total matches, none foreign, contravariant refs."""

import re
import sys
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).resolve().parents[2]

EXAMPLE = """
from operator import attrgetter
from typing import TypeAlias, assert_never

import attrs

from actors.runtime import Actor, ActorRef, ChildSpec, MailboxSpec, ReplyTo, dynamic, requests

@attrs.frozen(kw_only=True)
class WaitFor:
    offset_bytes: int
    reply_to: ReplyTo[bool]

@attrs.frozen(kw_only=True)
class SlaveAcked:
    slave: str
    offset_bytes: int

@attrs.frozen(kw_only=True)
class _Expired:
    pass

@attrs.frozen(kw_only=True)
class Foreign:
    pass

Message: TypeAlias = WaitFor | SlaveAcked
_Inbox: TypeAlias = Message | _Expired

@attrs.define
class GroupTransfer(Actor[_Inbox]):
    mailbox = MailboxSpec(capacity=8, conflate={SlaveAcked: attrgetter("slave")})
    count: int = 0

    async def handle(self, message: _Inbox) -> None:
        match message:
            case WaitFor():
                message.reply_to.send(True)
                message.reply_to.send("yes")  # E: arg-type
            case SlaveAcked():
                self.ctx.timers.start("expiry", 1.0, _Expired())
                self.ctx.timers.start("expiry", 1.0, Foreign())  # E: arg-type
                self.ctx.spawn(self._feed, 1)
                self.ctx.spawn(self._feed, "1")  # E: arg-type
            case _Expired():
                self.count += 1
            case _:
                assert_never(message)

    async def _feed(self, number: int) -> None: ...

@attrs.define
class Forgetful(Actor[_Inbox]):
    async def handle(self, message: _Inbox) -> None:
        match message:
            case WaitFor() | SlaveAcked():
                pass
            case _:
                assert_never(message)  # E: arg-type

def wait_for(reply_to: ReplyTo[bool]) -> WaitFor:
    return WaitFor(offset_bytes=1, reply_to=reply_to)

async def use(own: ActorRef[_Inbox], connections: ActorRef[dynamic.Message]) -> None:
    handed_out: ActorRef[Message] = own
    only_acks: ActorRef[SlaveAcked] = handed_out
    back: ActorRef[_Inbox] = handed_out  # E: assignment
    await only_acks.tell(SlaveAcked(slave="n1", offset_bytes=1))
    await only_acks.tell(wait_for(ReplyTo.local(print)))  # E: arg-type
    await handed_out.tell(_Expired())  # E: arg-type
    await handed_out.tell(Foreign())  # E: arg-type
    handed_out.tell(SlaveAcked(slave="n1", offset_bytes=1))  # E: unused-coroutine
    status: bool = await handed_out.ask(bool, wait_for, timeout_s=1.0)
    await handed_out.ask(str, wait_for, timeout_s=1.0)  # E: arg-type
    await handed_out.ask(bool, wait_for)  # E: call-overload
    outcome = await connections.ask(
        (dynamic.Started, requests.Refused),
        lambda reply_to: dynamic.StartChild(
            child=ChildSpec(name="a", start=GroupTransfer), reply_to=reply_to
        ),
        timeout_s=1.0,
    )
    match outcome:
        case dynamic.Started():
            assert outcome.ref and status and back
        case requests.Refused():
            assert outcome.reason
        case _:
            assert_never(outcome)

@attrs.define
class Asks(Actor[bool | Exception]):
    other: ActorRef[Message]

    async def handle(self, message: bool | Exception) -> None:
        self.ctx.ask_later(
            self.other, bool, wait_for, timeout_s=1.0, on_reply=lambda outcome: outcome
        )
        self.ctx.ask_later(
            self.other, bool, wait_for, timeout_s=1.0, on_reply=lambda outcome: "x"  # E: arg-type
        )
"""

A_USERS_OWN_FILE = """
from typing import TypeAlias

import attrs

from actors.runtime import Actor, ActorRef, ChildSpec, ReplyTo, SupervisorSpec, open_system

@attrs.frozen
class Add:
    count: int

@attrs.frozen
class Total:
    of: str
    reply_to: ReplyTo[int]

Message: TypeAlias = Add | Total

@attrs.define
class Counter(Actor[Message]):
    async def on_start(self) -> None:
        await self.ctx.ref("/demo/other", Add).tell(Add(1))
        await self.ctx.ref("/demo/other", Add).tell(Total("a", ReplyTo[int]()))  # E: arg-type

async def main() -> None:
    spec = SupervisorSpec(children=(ChildSpec(name="counter", start=Counter),))
    async with open_system("demo", spec) as system:
        counter = system.ref("/demo/counter", Message)
        await counter.tell(Add(1))
        await counter.tell(1)  # E: arg-type
        for name in ("a", "b"):
            total = await counter.ask(int, lambda reply: Total(name, reply), timeout_s=1.0)
            text: str = total  # E: assignment
            print(total + 1, text)
        await counter.ask(int, lambda reply: Total(1, reply), timeout_s=1.0)  # E: arg-type
        adds: ActorRef[Add] = counter
        untyped = system.ref("/demo/counter")
        print(adds, await untyped.ask(int, lambda reply: Total("a", reply), timeout_s=1.0))
"""


@pytest.mark.parametrize("example", [EXAMPLE, A_USERS_OWN_FILE])
def test_an_example_type_checks_exactly(example, tmp_path):
    path = tmp_path / "group_transfer_example.py"
    path.write_text(example)
    found = re.compile(rf"{re.escape(path.name)}:(\d+): error: .* \[([\w-]+)\]$")
    cache = ROOT / ".mypy_cache"
    out, err, _ = api.run(
        ["--strict", "--no-error-summary", "--no-pretty", f"--cache-dir={cache}", str(path)]
    )
    assert err == ""
    got = {(int(match[1]), match[2]) for line in out.splitlines() if (match := found.search(line))}
    wanted = {
        (number, line.partition("# E: ")[2])
        for number, line in enumerate(example.splitlines(), 1)
        if "# E: " in line
    }
    assert {line for line, _ in got} == {line for line, _ in wanted}, out
    assert wanted <= got, out


@pytest.mark.parametrize("module", ["actors.sim", "actors.storage", "actors.ha", "actors.client"])
def test_the_runtime_stands_alone(module):
    import subprocess

    code = f"import sys, actors.runtime; sys.exit('{module}' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0
