"""Tenants: streams say whom requests are for, policies see it, and results have figures of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.serving.requests import Request, requests_from, stream_of


def test_sessions_belong_to_tenants_by_their_shares() -> None:
    """All turns of a session are one tenant's; nothing else of the stream changes."""
    text = "poisson{n=9000,turns=3,priorities=2"
    stream, plain = requests_from(f"{text},tenants=6:3:0:1}}"), requests_from(f"{text}}}")
    assert stream.tenant is not None
    assert stream.tenants == ("0", "1", "2", "3")
    assert (stream.tenant.reshape(-1, 3) == stream.tenant[::3, None]).all()
    shares = np.bincount(stream.tenant, minlength=4) / len(stream)
    assert shares == pytest.approx([0.6, 0.3, 0, 0.1], abs=0.03)
    assert (stream.arrival_ps == plain.arrival_ps).all()
    assert (stream.priority == plain.priority).all()
    assert set(requests_from("poisson{tenants=3}").tenant.tolist()) == {0, 1, 2}  # type: ignore[union-attr]


def test_agents_have_tenants_tiers_and_models_as_other_streams_do() -> None:
    stream = requests_from("agents{n=80,turns=4,tenants=2,priorities=3,deadlines=1:2,models=a:b}")
    assert stream.tenant is not None
    assert stream.model is not None
    assert stream.deadline_ps is not None
    assert (stream.tenant.reshape(-1, 4) == stream.tenant[::4, None]).all()
    assert set(stream.priority.tolist()) == {0, 1, 2}
    assert stream.models == ("a", "b")


@pytest.mark.parametrize("shares", ["0", "1.5", "-2", "0:0", "a:b", "inf"])
def test_shares_that_make_no_sense_are_refused(shares: str) -> None:
    with pytest.raises(ConfigError, match="tenants"):
        requests_from(f"poisson{{n=10,tenants={shares}}}")


def test_files_name_tenants(tmp_path: Path) -> None:
    lines, table = tmp_path / "a.jsonl", tmp_path / "a.parquet"
    lines.write_text(
        '{"at": 0, "prompt": 9, "out": 2, "tenant": "acme"}\n'
        '{"at": 1, "prompt": 9, "out": 2}\n{"at": 2, "prompt": 9, "out": 2, "tenant": "zoo"}\n'
    )
    columns = {"arrival_s": [0.0, 1.0, 2.0], "prompt": [9] * 3, "output": [2] * 3}
    pq.write_table(pa.table({**columns, "tenant": ["acme", None, "zoo"]}), table)
    for file in (lines, table):
        stream = requests_from(str(file))
        assert stream.tenant is not None
        assert stream.tenant.tolist() == [0, -1, 1]
        assert stream.tenants == ("acme", "zoo")


class Seen:
    """Remembers the tenants that a policy sees."""

    def __init__(self) -> None:
        self.tenants: dict[int, int] = {}

    def route(self, request: Any, engines: Any) -> int:
        self.tenants[request.number] = request.tenant
        return int(engines[0].number)


def test_policies_see_tenants_and_results_are_by_tenant(tmp_path: Path) -> None:
    policy = Seen()
    stream = requests_from("poisson{rate=20,n=30,prompt=200,output=4,tenants=2:1}")
    done = ck.serve(
        "llama-3.1-8b", "dgx-h100", stream, policy=policy, slo="ttft=20", output=tmp_path / "run"
    )
    assert stream.tenant is not None
    assert [policy.tenants[i] for i in range(30)] == stream.tenant.tolist()
    assert sum(t.requests for t in done.tenants.values()) == done.requests
    parts = [t.requests * t.attained for t in done.tenants.values()]
    assert sum(parts) / 30 == pytest.approx(done.attained)
    weighted = [t.e2e_ms.mean * t.finished for t in done.tenants.values()]
    assert sum(weighted) / 30 == pytest.approx(done.e2e_ms.mean)
    written = pq.read_table(tmp_path / "run" / "requests.parquet")
    assert written["tenant"].to_pylist() == [str(t) for t in stream.tenant.tolist()]


class Retries:
    """A source that asks once more for each request of the second tenant."""

    stream = stream_of([0.0, 0.1], [50, 50], [2, 2], tenant=[0, 1], tenants=("a", "b"))

    def next(self, now_s: float, finished: Any) -> list[Request]:
        return [Request(prompt=50, output=2, tenant=1) for one in finished if one.number == 1]


def test_a_source_says_whom_its_requests_are_for() -> None:
    done = ck.serve("llama-3.1-8b", "dgx-h100", Retries())
    assert {name: t.requests for name, t in done.tenants.items()} == {"a": 1, "b": 2}
