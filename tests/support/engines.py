"""Engines for tests: the real ones by name, and one that is like a cluster without its processes."""

from __future__ import annotations

import pickle
from concurrent.futures import Future
from importlib.util import find_spec
from typing import Any

import pytest

from chakrakit.parallel import Workers
from chakrakit.parallel.outcome import attempt

CLUSTERS = [
    pytest.param(
        name,
        # A cluster on a busy machine may fail to come up; it is given another chance, not for ever.
        marks=[
            pytest.mark.slow,
            pytest.mark.timeout(240),
            pytest.mark.flaky(reruns=2),
            pytest.mark.skipif(
                find_spec(module) is None, reason=f"pip install 'chakrakit[{name}]'"
            ),
        ],
    )
    for name, module in (("ray", "ray"), ("dask", "distributed"))
]
ENGINES = [pytest.param("local", marks=pytest.mark.slow), *CLUSTERS]


class Pickling:
    """Sends everything through pickle, as processes would, and hands back the last first."""

    window = 3

    def submit(self, function: Any, item: Any) -> Future[Any]:
        there, thing = pickle.loads(pickle.dumps((function, item)))
        answer = pickle.loads(pickle.dumps(attempt(there, thing)))
        future: Future[Any] = Future()
        future.set_result(answer)
        return future

    def close(self) -> None:
        """Nothing was started."""


@pytest.fixture
def pickled(monkeypatch: pytest.MonkeyPatch) -> Workers:
    """Workers whose work travels and comes back out of order, in this process."""
    monkeypatch.setattr("chakrakit.parallel.workers.starter", lambda _engine, _jobs: Pickling)
    return Workers()
