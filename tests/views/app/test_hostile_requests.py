"""Requests that nobody's page sends: answered or refused, never an error of the server."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random
from urllib.parse import quote, urlencode

import pytest

from chakrakit.views.app import connection
from chakrakit.views.app import server as server_module
from chakrakit.views.app.search import search
from chakrakit.views.app.server import app
from chakrakit.views.app.session import Session
from chakrakit.views.app.shown_run import ShownRun
from fuzz.hostile import TEXT, WHOLE, mutated_bytes

RUNS = 400
_NAMES = (
    "side", "rank", "row", "from", "to", "width", "first", "last", "track", "depth", "time", "hops",
    "text", "name", "paint", "ranks",
)  # fmt: skip
_VALID = {
    "side": "0", "rank": "0", "row": "1", "from": "0", "to": "60000", "width": "60", "first": "0",
    "last": "2", "track": "0", "depth": "0", "time": "5", "hops": "2", "text": "sum", "name": "Time",
    "paint": "change", "ranks": "0,1",
}  # fmt: skip
_SEARCHES = (
    "start>99999999999s", "start>1e400s", "start<" + "9" * 400 + "s", "duration>1.2.3ms", "²", "id=²",
    "name~(a+)+$x", "name~[", "type=²", "type=COMM", "comm_size>" + "9" * 30, "pg_name~(", "id>-1",
    "tid=1e999", "9" * 25, "duration>٣ms", "name!=\x00", "is_cpu_op=true", "inputs_values~.*",
)  # fmt: skip


def mutated_query(rng: Random) -> dict[str, str]:
    """What a page would ask, with some of it changed, missing or new."""
    query = dict(_VALID)
    query["text"] = rng.choice((*_SEARCHES, "sum", "1"))
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        name = rng.choice(_NAMES)
        way = rng.randrange(4)
        if way == 0:
            query.pop(name, None)
        elif way == 1:
            query[name] = str(rng.choice(WHOLE))
        elif way == 2:
            query[name] = rng.choice(TEXT)[:3000].encode("utf-8", "replace").decode()
        else:
            said = mutated_bytes(rng, _VALID[name].encode())[:3000]
            query[name] = said.decode("utf-8", "replace")
    return query


ANSWERS = (
    "session", "rank", "window", "at", "node", "around", "search", "progress", "analyze", "path",
    "section", "perfetto",
)  # fmt: skip


def statuses(web, runs: int, seed: int = 0) -> set[int]:
    rng = Random(seed)
    found = set()
    for _ in range(runs):
        address = f"/api/{rng.choice(ANSWERS)}"
        if rng.random() < 0.1:
            address = "/" + quote(mutated_bytes(rng, address.encode()))[:500]
        method = rng.choice(("GET",) * 9 + ("POST", "HEAD", "PUT", "OPTIONS"))
        found.add(web.request(method, address, params=mutated_query(rng)).status_code)
    return found


@pytest.mark.slow
def test_mutated_requests_are_answered_or_refused(client, two_ranks):
    found = statuses(client(two_ranks, two_ranks).analyzed().web, RUNS)
    assert {200, 400} <= found <= {200, 400, 404, 405}


@pytest.mark.parametrize("text", _SEARCHES)
def test_searches_for_nonsense_are_answered_or_refused(client, two_ranks, text):
    answer = client(two_ranks).web.get("/api/search", params={"text": text})
    assert answer.status_code in (200, 400)


def test_a_search_that_takes_long_is_asked_for_again(two_ranks, monkeypatch):
    """The request ends in time; the rank is looked through meanwhile, and found the next time."""
    side = ShownRun(two_ranks, "slow", [])
    begun, view = threading.Event(), side.view

    def slow(rank: int):
        begun.wait()
        return view(rank)

    monkeypatch.setattr(side, "view", slow)
    monkeypatch.setattr("chakrakit.views.app.search._LONGEST", 0.05)
    first = search(side, "sum", 0)
    assert (first["next"], first["total"]) == (0, 0)
    begun.set()
    while (found := search(side, "sum", 0))["total"] == 0:
        time.sleep(0.01)
    assert found["hits"][0]["name"] == "sum"


def test_searches_that_nobody_waits_for_do_not_pile_up(two_ranks):
    """Behind one that takes long, the others are forgotten when their requests end."""
    side, go, made = ShownRun(two_ranks, "slow", []), threading.Event(), []
    assert side.answer("long", go.wait, 0.01) is None
    for number in range(20):
        assert side.answer(number, lambda number=number: made.append(number), 0.0) is None
    go.set()
    assert side.answer("long", go.wait, 60) is True
    assert side.answer("new", lambda: "found", 60) == "found"
    assert made == []


def test_of_too_many_searches_some_are_told_to_ask_again(client, two_ranks, monkeypatch):
    """At once, and the rest is answered meanwhile: no search waits for a free thread."""
    begun, go, count = threading.Semaphore(0), threading.Event(), server_module._MOST_SEARCHES

    def slow(*_):
        begun.release()
        return {"waited": go.wait(60)}

    monkeypatch.setattr(server_module, "search", slow)
    web = client(two_ranks).web
    with ThreadPoolExecutor(count) as pool:
        asked = [pool.submit(web.get, "/api/search?text=a") for _ in range(count)]
        for _ in range(count):
            begun.acquire()
        refused = web.get("/api/search?text=b&first=0").json()
        assert (refused["hits"], refused["next"]) == ([], 0)
        assert web.get("/api/session").status_code == 200
        go.set()
        assert all(answer.result().json() == {"waited": True} for answer in asked)
    assert web.get("/api/search?text=a").json() == {"waited": True}


# --- the server itself ------------------------------------------------------------------------------


@pytest.fixture
def server(two_ranks, monkeypatch):
    """A server in a thread, which waits a tenth of a second for a request."""
    uvicorn = pytest.importorskip("uvicorn")
    monkeypatch.setattr(connection, "REQUEST_S", 0.1)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    web = app(Session([ShownRun(two_ranks, "run", [])]), port)
    config = uvicorn.Config(
        web, http=connection.Connection, ws="none", log_level="critical", lifespan="off"
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield port
    running.should_exit = True
    thread.join()


def talk(port: int, data: bytes) -> bytes:
    """What comes back until the server hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as wire:
        try:
            wire.sendall(data)
            answer = b""
            while piece := wire.recv(65536):
                answer += piece
        except (ConnectionResetError, BrokenPipeError):
            return b""
        return answer


def request_of(port: int, path: str, more: str = "") -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{more}\r\n".encode()
    )


def wire_statuses(port: int, runs: int, seed: int = 0) -> set[bytes]:
    """First lines of answers to requests whose bytes were changed."""
    rng = Random(seed)
    found = set()
    for _ in range(runs):
        path = f"/api/{rng.choice(ANSWERS)}?{urlencode(mutated_query(rng))}"
        found.add(talk(port, mutated_bytes(rng, request_of(port, path)))[9:12])
    return found


def test_a_slow_request_is_dropped(server):
    assert talk(server, b"GET / HTTP/1.1\r\nHost: ") == b""
    assert talk(server, b"") == b""
    body = request_of(server, "/api/session", "Content-Length: 1000\r\n")
    assert talk(server, body).startswith(b"HTTP/1.1 200")


def test_idle_connections_make_room_for_requests(server, monkeypatch):
    """The one that has waited longest goes first: here long before its time is over."""
    monkeypatch.setattr(connection, "REQUEST_S", 60.0)
    monkeypatch.setattr(connection, "MOST", 3)
    with contextlib.ExitStack() as stack:
        idle = [socket.create_connection(("127.0.0.1", server), timeout=50) for _ in range(8)]
        for wire in idle:
            stack.enter_context(wire)
        assert talk(server, request_of(server, "/api/session")).startswith(b"HTTP/1.1 200")
        assert [_hung_up(wire) for wire in idle[:5]] == [True] * 5


def _hung_up(wire: socket.socket) -> bool:
    try:
        return wire.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.slow
def test_an_upgrade_to_a_websocket_is_no_error_of_the_server(server):
    more = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: YWJj\r\n"
    data = request_of(server, "/api/session", more).replace(
        b"Connection: close", b"Connection: Upgrade"
    )
    assert not talk(server, data).startswith(b"HTTP/1.1 5")


@pytest.mark.slow
def test_requests_changed_on_the_wire_are_no_error_of_the_server(server):
    found = wire_statuses(server, 60)
    assert b"200" in found
    assert not {status for status in found if status.startswith(b"5")}
