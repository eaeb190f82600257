"""Requests that nobody's page sends: answered or refused, never an error of the server."""

from __future__ import annotations

from random import Random
from urllib.parse import quote, urlencode

import pytest

from fuzz.hostile import TEXT, WHOLE, mutated_bytes
from support.raw_http import request_of, talk

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
            sent_text = mutated_bytes(rng, _VALID[name].encode())[:3000]
            query[name] = sent_text.decode("utf-8", "replace")
    return query


ANSWERS = (
    "session", "rank", "window", "at", "node", "around", "search", "progress", "analyze", "path",
    "section", "perfetto",
)  # fmt: skip


def statuses(web, runs: int, seed: int = 0) -> set[int]:
    rng = Random(seed)
    answered = set()
    for _ in range(runs):
        address = f"/api/{rng.choice(ANSWERS)}"
        if rng.random() < 0.1:
            address = "/" + quote(mutated_bytes(rng, address.encode()))[:500]
        method = rng.choice(("GET",) * 9 + ("POST", "HEAD", "PUT", "OPTIONS"))
        answered.add(web.request(method, address, params=mutated_query(rng)).status_code)
    return answered


@pytest.mark.slow
def test_mutated_requests_are_answered_or_refused(client, two_ranks):
    answered = statuses(client(two_ranks, two_ranks).analyzed().web, RUNS)
    assert {200, 400} <= answered <= {200, 400, 404, 405}


@pytest.mark.parametrize("text", _SEARCHES)
def test_searches_for_nonsense_are_answered_or_refused(client, two_ranks, text):
    answer = client(two_ranks).web.get("/api/search", params={"text": text})
    assert answer.status_code in (200, 400)


def wire_statuses(port: int, runs: int, seed: int = 0) -> set[bytes]:
    """First lines of answers to requests whose bytes were changed."""
    rng = Random(seed)
    answered = set()
    for _ in range(runs):
        path = f"/api/{rng.choice(ANSWERS)}?{urlencode(mutated_query(rng))}"
        answered.add(talk(port, mutated_bytes(rng, request_of(port, path)))[9:12])
    return answered


@pytest.mark.slow
def test_requests_changed_on_the_wire_are_no_error_of_the_server(server):
    answered = wire_statuses(server, 60)
    assert b"200" in answered
    assert not {status for status in answered if status.startswith(b"5")}
