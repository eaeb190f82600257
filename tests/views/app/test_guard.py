"""Only this machine's browser, showing the app's own page, gets an answer."""

from __future__ import annotations

import pytest

GOOD = "127.0.0.1:8127"


@pytest.mark.parametrize("host", [GOOD, "localhost:8127", "LOCALHOST:8127"])
def test_this_machine_s_names_are_answered(client, two_ranks, host):
    assert client(two_ranks).web.get("/api/session", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8127",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1.evil.example:8127",
        "0.0.0.0:8127",
        "",
    ],
)
def test_another_host_is_refused(client, two_ranks, host):
    """A name that an attacker's DNS leads here would come as the Host."""
    for path in ("/", "/api/session", "/static/main.js"):
        answer = client(two_ranks).web.get(path, headers={"host": host})
        assert answer.status_code == 403
        assert "rank" not in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": f"http://{GOOD}"}, 200),
        ({"origin": "http://localhost:8127"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 403),
    ],
)
def test_another_site_s_page_is_refused(client, two_ranks, headers, status):
    assert client(two_ranks).web.get("/api/session", headers=headers).status_code == status


def test_a_link_to_the_page_may_stand_anywhere(client, two_ranks):
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client(two_ranks).web.get("/", headers=headers).status_code == 200


def test_every_answer_forbids_foreign_code(client, two_ranks):
    web = client(two_ranks).web
    for answer in (
        web.get("/"),
        web.get("/api/session"),
        web.get("/no"),
        web.get("/", headers={"host": "x"}),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers
