"""What the app refuses, and which files it serves."""

from __future__ import annotations

import pytest

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
