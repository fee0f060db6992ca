"""The proxies that cut links do cut, hold, hand over late, and lose. Needs no Java."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
from interop_links import HOSTS, Link, Links
from interop_processes import free_ports

pytestmark = pytest.mark.real_io

SOON_S, WAIT_S = 0.2, 10.0


@pytest.fixture
def target() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT_S)
        yield server


@pytest.fixture
def link(target: socket.socket) -> Iterator[Link]:
    found = Link.open("127.0.0.2", free_ports(hosts=["127.0.0.2"]), target.getsockname())
    yield found
    found.close()


def connected(link: Link) -> socket.socket:
    return socket.create_connection(link.place, WAIT_S)


@contextlib.contextmanager
def pair(link: Link, target: socket.socket) -> Iterator[tuple[socket.socket, socket.socket]]:
    with connected(link) as near:
        far, _ = target.accept()
        with far:
            far.settimeout(WAIT_S)
            yield near, far


def hears(sock: socket.socket) -> bytes | None:
    """None: nothing arrives."""
    sock.settimeout(SOON_S)
    try:
        return sock.recv(100)
    except TimeoutError:
        return None
    finally:
        sock.settimeout(WAIT_S)


def test_bytes_go_both_ways_and_an_end_is_reported(link: Link, target: socket.socket) -> None:
    with pair(link, target) as (near, far):
        near.sendall(b"to")
        assert far.recv(100) == b"to"
        far.sendall(b"back")
        assert near.recv(100) == b"back"
        far.close()
        assert near.recv(100) == b""


def test_one_direction_is_cut_and_its_bytes_come_late(link: Link, target: socket.socket) -> None:
    with pair(link, target) as (near, far):
        link.to.cut()
        near.sendall(b"late")
        far.sendall(b"back")
        assert near.recv(100) == b"back"
        assert hears(far) is None
        link.heal()
        assert far.recv(100) == b"late"


def test_neither_an_end_nor_a_new_connection_passes(link: Link, target: socket.socket) -> None:
    with pair(link, target) as (near, far):
        link.cut()
        near.close()
        assert hears(far) is None
        with connected(link) as other:
            other.sendall(b"new")
            target.settimeout(SOON_S)
            with pytest.raises(TimeoutError):
                target.accept()
            target.settimeout(WAIT_S)
            link.heal()
            assert far.recv(100) == b""
            with target.accept()[0] as late:
                assert late.recv(100) == b"new"


def test_what_was_sent_into_a_cut_link_can_be_lost(link: Link, target: socket.socket) -> None:
    with pair(link, target) as (near, far):
        link.cut()
        near.sendall(b"lost")
        assert hears(far) is None
        link.heal(lost=True)
        assert far.recv(100) == b""
        with contextlib.suppress(ConnectionResetError):
            assert near.recv(100) == b""


def test_a_target_that_is_away_ends_the_connection(link: Link, target: socket.socket) -> None:
    target.close()
    with connected(link) as near:
        assert near.recv(100) == b""


def test_members_are_cut_off_one_by_one(target: socket.socket) -> None:
    targets = dict.fromkeys(("a", "b", "c"), target.getsockname())
    links = Links.between(targets, free_ports(hosts=list(HOSTS.values())))
    try:
        assert len({links.host(*each) for each in links.links}) == 6
        links.cut("a")
        with pair(links.links["b", "c"], target) as (near, far):
            near.sendall(b"on")
            assert far.recv(100) == b"on"
            links.cut_to("c", "b")  # its answers, here
            far.sendall(b"answer")
            assert hears(near) is None
            with connected(links.links["a", "b"]) as cut, connected(links.links["c", "a"]) as too:
                assert hears(cut) is None
                assert hears(too) is None
            links.heal()
            assert near.recv(100) == b"answer"
    finally:
        links.close()
