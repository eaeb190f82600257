"""What the app refuses, and which files it serves."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from chakrakit.views.app import server
from chakrakit.views.app.server import static_files


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("rank", {}, "lacks 'rank'"),
        ("rank", {"rank": 9}, "no rank 9"),
        ("rank", {"rank": "x"}, "whole number"),
        ("rank", {"rank": "nan"}, "whole number"),
        ("rank", {"rank": 0, "side": 1}, "side"),
        ("node", {"rank": 0, "row": 3}, "row"),
        ("window", {"rank": 0, "from": 5, "to": 5, "width": 9}, "empty"),
        ("window", {"rank": 0, "from": 0, "to": 5, "width": 10**9}, "width"),
        ("window", {"rank": 0, "from": 0, "to": 5, "width": 0}, "width"),
        ("at", {"rank": 0, "track": 7, "depth": 0, "time": 0}, "track"),
        ("around", {"rank": 0, "row": 0, "hops": 99}, "hops"),
        ("section", {"name": "Nonsense"}, "no tab"),
        ("search", {"text": " "}, "search for"),
        ("search", {"text": "name~("}, "regular expression"),
    ],
)
def test_senseless_requests_are_refused_with_a_sentence(client, two_ranks, name, given, why):
    assert why in client(two_ranks).refused(name, **given)


def test_only_the_page_s_own_files_are_served(client, two_ranks):
    web = client(two_ranks).web
    assert {"index.html", "main.js", "app.css"} <= set(static_files())
    for name in [*static_files(), "report.js", "report.css"]:
        assert web.get(f"/static/{name}").status_code == 200
    for path in (
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static//etc/passwd",
        "/static/",
        "/etc/passwd",
        "/static/..%2f..%2freport.py",
    ):
        assert web.get(path).status_code == 404
    assert web.post("/api/session").status_code == 405


def test_of_too_many_searches_some_are_told_to_ask_again(client, two_ranks, monkeypatch):
    """At once, and the rest is answered meanwhile: no search waits for a free thread."""
    begun, go, count = threading.Semaphore(0), threading.Event(), server._MOST_SEARCHES

    def slow(*_):
        begun.release()
        return {"waited": go.wait(60)}

    monkeypatch.setattr(server, "search", slow)
    web = client(two_ranks).web
    with ThreadPoolExecutor(count) as pool:
        searches = [pool.submit(web.get, "/api/search?text=a") for _ in range(count)]
        for _ in range(count):
            begun.acquire()
        refused = web.get("/api/search?text=b&first=0").json()
        assert (refused["hits"], refused["next"]) == ([], 0)
        assert web.get("/api/session").status_code == 200
        go.set()
        assert all(answer.result().json() == {"waited": True} for answer in searches)
    assert web.get("/api/search?text=a").json() == {"waited": True}
