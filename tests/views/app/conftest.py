"""A session to ask, as the browser would."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

import chakrakit as ck
from chakrakit.passes.storage import Storage
from chakrakit.views.app.session import AppSession
from chakrakit.views.app.shown_run import ShownRun
from support import paths
from support.recorded import linked

pytest.importorskip("starlette", reason="pip install 'chakrakit[view]'")
PORT = 8127
DATA = paths.DATA / "pytorch"


class Client:
    """Asks the app without a network; analyses are waited for where they are needed."""

    def __init__(self, session: AppSession) -> None:
        from starlette.testclient import TestClient

        from chakrakit.views.app.server import app

        self.session = session
        self.web = TestClient(app(session, PORT), base_url=f"http://127.0.0.1:{PORT}")

    def __call__(self, name: str, /, **given):
        answer = self.web.get(f"/api/{name}", params=given)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, name: str, /, **given) -> str:
        answer = self.web.get(f"/api/{name}", params=given)
        assert answer.status_code == 400
        return answer.json()["error"]

    def analyzed(self) -> Client:
        for side in self.session.sides:
            assert side.findings.wait(), side.findings.error
        return self


@pytest.fixture
def client() -> Callable[..., Client]:
    return lambda *runs: Client(
        AppSession([ShownRun(run, f"run {i}", []) for i, run in enumerate(runs)])
    )


@pytest.fixture(scope="session")
def pipeline() -> ck.Run:
    """Two ranks of a pipeline, recorded."""
    return linked("gpt_pp_2")


@pytest.fixture(scope="session")
def simulated() -> ck.Run:
    """A small model on four GPUs of a pipeline, simulated."""
    traces = ck.generate(
        model="gpt3-125m", dp=2, pp=2, seq=256, global_batch=4, micro_batch=1
    ).traces
    return ck.simulate(traces, "dgx-h100").run()


@pytest.fixture(scope="session")
def stored(tmp_path_factory) -> ck.Run:
    """Two ranks that save a checkpoint on the one server of a store, one after the other."""
    machine = tmp_path_factory.mktemp("machine") / "machine.yaml"
    machine.write_text(
        "name: small\n"
        "device: {peak: {bf16: 1 TFLOP/s}, memory_bandwidth: 1 TB/s, memory: 80 GB}\n"
        "network: [{topology: switch, size: 3, bandwidth: 10 GB/s}]\n"
        "storage:\n"
        "  store: {kind: remote, nodes: [2], bandwidth: 4 GB/s, latency: 1 ms, operations: 1}\n"
    )
    t = ck.TraceBuilder()
    t.comp("forward", duration_ns=40_000_000)
    step = ck.TraceSet([t.build()], {r: ck.Binding(0) for r in range(2)})
    return ck.simulate(step | Storage(save=20_000_000), str(machine)).run()


@pytest.fixture
def server(two_ranks, monkeypatch):
    """A server in a thread, which waits a tenth of a second for a request."""
    uvicorn = pytest.importorskip("uvicorn")
    from chakrakit.views.app import launch as connection
    from chakrakit.views.app.server import app

    monkeypatch.setattr(connection, "REQUEST_S", 0.1)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    web = app(AppSession([ShownRun(two_ranks, "run", [])]), port)
    config = uvicorn.Config(
        web, http=connection.Connection, ws="none", log_level="critical", lifespan="off"
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield port
    running.should_exit = True
    thread.join()
