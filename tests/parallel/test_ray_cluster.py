"""Items on Ray: a cluster that was started for them is ended, one that was there is left alone."""

from __future__ import annotations

import sys
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from chakrakit.errors import ConfigError
from chakrakit.parallel import ItemOutcome, each
from chakrakit.parallel.clusters import Ray


class FakeRay:
    """What the engine calls of Ray, in this process."""

    def __init__(self, running: bool) -> None:
        self.running, self.calls = running, []

    def is_initialized(self) -> bool:
        return self.running

    def init(self, address: str, **settings: Any) -> None:
        self.calls.append((address, settings.get("num_cpus")))

    def shutdown(self) -> None:
        self.calls.append("shutdown")

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 3.0}

    def remote(self, max_retries: int) -> Any:
        assert max_retries == 0  # a death is counted here, not by Ray

        def run(function: Any) -> Any:
            def submit(*words: Any) -> Any:
                future: Future[Any] = Future()
                future.set_result(function(*words))
                return SimpleNamespace(future=lambda: future)

            return SimpleNamespace(remote=submit)

        return run


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    ray = FakeRay(running=False)
    monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]
    return ray


def test_a_cluster_of_its_own_has_as_many_cores_as_jobs_and_ends_with_it(fake: FakeRay) -> None:
    engine = Ray("", 5)
    assert engine.window == 5
    assert engine.submit(abs, -4).result() == ItemOutcome(0, value=4)
    engine.close()
    assert fake.calls == [("local", 5), "shutdown"]


def test_a_cluster_that_runs_already_is_used_and_left(fake: FakeRay) -> None:
    fake.running = True
    engine = Ray("auto", None)
    assert engine.window == 6  # two items for each of its cores
    engine.close()
    assert fake.calls == []


def test_what_ray_says_when_it_cannot_start_is_told(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_address: str, **_settings: Any) -> None:
        raise RuntimeError("version mismatch")

    monkeypatch.setattr(fake, "init", refuse)
    with pytest.raises(ConfigError, match="no Ray cluster answers at auto: version mismatch"):
        Ray("auto", None)


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_said_so() -> None:
    pytest.importorskip("ray", reason="pip install 'chakrakit[ray]'")
    with pytest.raises(
        ConfigError, match=r"no Ray cluster answers at 127.0.0.1:1: .*check the addr"
    ):
        next(each(abs, [1], "ray:127.0.0.1:1"))
