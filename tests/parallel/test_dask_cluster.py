"""Items on Dask: a cluster that was started for them is ended, one that was there is left alone."""

from __future__ import annotations

import contextlib
import sys
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from chakrakit.errors import ConfigError
from chakrakit.parallel import ItemOutcome, each
from chakrakit.parallel.clusters import Dask


class FakeCluster:
    """A cluster that starts nothing."""

    def __init__(self, **settings: Any) -> None:
        self.calls = [("workers", settings["n_workers"])]

    def scale(self, workers: int) -> None:
        self.calls.append(("scale", workers))

    def close(self) -> None:
        self.calls.append(("close", 0))


class FakeClient:
    """A client of two workers with two cores each, which runs items here."""

    def __init__(self, cluster: Any) -> None:
        self.cluster, self.closed = cluster, False

    def ncores(self) -> dict[str, int]:
        return {"a": 2, "b": 2}

    def get_executor(self, pure: bool) -> Any:
        assert pure is False  # the same item twice is two items
        return SimpleNamespace(submit=self._submit, shutdown=lambda wait: None)

    def _submit(self, function: Any, *words: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*words))
        return future

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Both modules of Dask; `settings` are those in force."""
    found = SimpleNamespace(Client=FakeClient, LocalCluster=FakeCluster, settings={})

    @contextlib.contextmanager
    def set_settings(values: dict[str, Any]) -> Any:
        found.settings = values
        yield
        found.settings = {}

    monkeypatch.setitem(sys.modules, "distributed", found)  # type: ignore[arg-type]
    monkeypatch.setitem(
        sys.modules, "dask", SimpleNamespace(config=SimpleNamespace(set=set_settings))
    )  # type: ignore[arg-type]
    return found


def test_a_cluster_of_its_own_has_one_worker_per_job_and_ends_with_it(
    fake: SimpleNamespace,
) -> None:
    engine = Dask("", 3)
    assert engine.window == 3
    assert fake.settings["distributed.scheduler.allowed-failures"] == 0
    assert engine.submit(abs, -4).result() == ItemOutcome(0, value=4)
    engine.tend()  # puts another worker where one was lost
    engine.close()
    assert engine._cluster is not None
    assert engine._cluster.calls == [("workers", 3), ("scale", 3), ("close", 0)]
    assert fake.settings == {}


def test_a_scheduler_at_an_address_is_used_and_left(fake: SimpleNamespace) -> None:
    engine = Dask("scheduler.json", None)
    assert engine.window == 8  # two items for each of its four cores
    assert engine._client.cluster == "scheduler.json"
    engine.tend()
    engine.close()
    assert engine._client.closed


def test_what_dask_says_when_it_cannot_connect_is_told(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_address: str) -> None:
        raise OSError("timed out")

    monkeypatch.setattr(fake, "Client", refuse)
    with pytest.raises(ConfigError, match=r"no Dask cluster answers at s\.json: timed out"):
        Dask("s.json", None)


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_said_so() -> None:
    pytest.importorskip("distributed", reason="pip install 'chakrakit[dask]'")
    with pytest.raises(
        ConfigError, match=r"no Dask cluster answers at 127.0.0.1:1: .*check the addr"
    ):
        next(each(abs, [1], "dask:127.0.0.1:1"))
