"""Steps as operators: the traces that a window gives, and caches on real links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.serving import serving_of
from chakrakit.simulator.results import simulate
from chakrakit.trace.model import NodeType

STREAM = "poisson{rate=20,n=12,prompt=256,output=6,seed=1}"


def window(machine: str, prefill: int = 1, decode: int = 1, n: int = 1) -> Any:
    """A disaggregated run of n requests at once, all of it expanded."""
    serving = serving_of(
        "llama-3.1-8b",
        machine,
        f"closed{{concurrency={n},n={n},prompt=4096,output=4}}",
        prefill=prefill,
        decode=decode,
    )
    served = serving.served(window=(0.0, 1e6))
    return serving, serving.expanded(served)


def transfers(run: Any) -> list[int]:
    """Picoseconds of each message that carries a cache, from its start to the receiver's end."""
    found = []
    for rank in run.ranks:
        trace = run.trace(rank)
        rows = np.flatnonzero(trace.is_type(NodeType.COMM_SEND_NODE))
        found += (run.end(rank)[rows] - run.start(rank)[rows]).tolist()
    return found


@pytest.mark.slow
def test_a_window_is_a_run_that_validates(tmp_path: Path) -> None:
    """Operators of every step in the window, on every rank of the engine."""
    ck.serve("llama-3.1-8b", "dgx-h100", STREAM, tp=2, output=tmp_path / "run", expand="0:0.2")
    assert ck.validate(tmp_path / "run").ok
    run = ck.read(tmp_path / "run")
    assert list(run.ranks) == [0, 1]
    names = set(run.trace(0).names.to_pylist())
    assert any("attention.core" in n for n in names)
    assert any("all_reduce_tp" in n for n in names)
    assert (tmp_path / "run" / "requests.parquet").is_file()


def test_one_step_takes_what_the_engine_said(tmp_path: Path) -> None:
    """A step of the engine is the sum of the operators that its expansion simulates."""
    serving = serving_of("llama-3.1-8b", "dgx-h100", STREAM, compute="roofline")
    served = serving.served(window=(0.0, 1e6), record_steps=True)
    steps = served.outcome.steps
    total = int((steps["end"] - steps["start"]).sum())
    simulated = simulate(serving.expanded(served), serving.machine, compute="roofline")
    assert simulated.summary.makespan_ns * 1e3 == pytest.approx(total, rel=2e-2)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("llama-3.1-8b", {}),
        ("llama-3.1-8b", {"compute": "h100"}),
        ("llama-3.1-8b", {"clock": (1200.0,)}),
        ("qwen3-30b-a3b", {}),
    ],
)
def test_operators_take_what_they_took_as_served(model: str, options: dict[str, Any]) -> None:
    """By fitted constants, a profile or a lower clock: what is left is the engine's own time alone."""
    engine = "vllm{cudagraph_capture_sizes=[]}"
    serving = serving_of(model, "dgx-h100", STREAM, engine, **options)
    served = serving.served(window=(0.0, 1e6), record_steps=True)
    steps = served.outcome.steps
    took = (steps["end"] - steps["start"]) * 1e-9
    own = serving.options.serial_ms + serving.options.serial_per_request_ms * steps["requests"]
    bound = steps["prompt_tokens"] > 0  # by the host, which launches their kernels
    least = np.where(bound, serving.options.prompt_launch_ms, 0.0)
    run = serving.simulated(served)
    operators = run.makespan_ns * 1e-6
    assert operators <= float((took - own).sum()) * 1.005
    alone = took > least * 1.001
    assert operators >= float((took - own)[alone].sum()) * 0.995


def test_the_run_says_what_its_steps_took_as_served(tmp_path: Path) -> None:
    """Beside what the operators take, in the result, its card and its analysis; it has no interval."""
    stream = "closed{concurrency=8,n=8,prompt=512,output=24}"
    folder = tmp_path / "run"
    done = ck.serve("llama-3.1-8b", "dgx-h100", stream, expand="step:10", output=folder)
    analysis = ck.analyze(folder)
    assert analysis.served_ns * 1e-6 == pytest.approx(done.itl_ms.p50, rel=0.01)
    own = 0.3435 + 8 * 0.03465
    assert (analysis.served_ns - analysis.span_ns) * 1e-6 == pytest.approx(own, rel=0.05)
    assert any("as served and" in note for note in done.notes)
    assert "fitted to published runs" in ck.info(folder).subject["compute times"]
    assert analysis.footprint is not None
    assert analysis.footprint.interval_ns is None


def test_what_operators_cannot_show_is_refused(tmp_path: Path) -> None:
    """Weights of four bits that no file states, and phases with clocks of their own."""
    options: dict[str, Any] = {"output": tmp_path / "run", "expand": "step:0"}
    with pytest.raises(ConfigError, match="use fp8"):
        ck.serve("llama-3.1-8b", "dgx-h100", STREAM, quantization="fp4", **options)
    clocks = {"prefill": 1980.0, "decode": 1200.0}
    with pytest.raises(ConfigError, match="clocks of their own"):
        ck.serve("llama-3.1-8b", "dgx-h100", STREAM, prefill=1, decode=1, clock=clocks, **options)


PLAIN = """
name: plain
device: {name: d, peak: {bf16: 900 TFLOP/s}, memory: 80 GB, memory_bandwidth: 3000 GB/s}
nodes: 8
network: [{topology: switch, bandwidth: 100 GB/s, latency: 2 us}]
"""


@pytest.fixture
def plain(tmp_path: Path) -> str:
    """A machine whose library adds nothing, so that a message takes bytes over bandwidth and latency."""
    (tmp_path / "plain.yaml").write_text(PLAIN)
    return str(tmp_path / "plain.yaml")


def test_a_cache_alone_takes_the_closed_form(plain: str) -> None:
    """Bytes of 4,096 tokens over the link and two hops, simulated as the engine assumed it."""
    serving, traces = window(plain)
    run = simulate(traces, serving.machine, compute="roofline").run()
    closed = 4096 * 131072 / 100e9 + 2 * 2e-6
    assert max(transfers(run)) * 1e-12 == pytest.approx(closed, rel=1e-3)
    setup = serving.setup
    assumed = 4096 * setup.handover_seconds_per_token + setup.handover_latency
    assert assumed == pytest.approx(closed, rel=1e-3)


def test_the_engine_assumes_what_the_simulator_says_of_a_real_library() -> None:
    """On a machine with a modelled library a move alone takes the same in both."""
    serving, traces = window("dgx-h100")
    run = simulate(traces, serving.machine, compute="roofline").run()
    setup = serving.setup
    assumed = 4096 * setup.handover_seconds_per_token + setup.handover_latency
    assert max(transfers(run)) * 1e-12 == pytest.approx(assumed, rel=0.03)


def test_caches_that_meet_on_a_link_slow_each_other(plain: str) -> None:
    """Two prefill engines that finish together send to one decode engine: its link is shared."""
    serving, traces = window(plain, prefill=2, decode=1, n=2)
    run = simulate(traces, serving.machine, compute="roofline").run()
    alone = 4096 * 131072 / 100e9
    assert max(transfers(run)) * 1e-12 == pytest.approx(2 * alone, rel=0.01)


BUSY = "poisson{rate=40,n=6,prompt=4096,output=12,seed=3}"


def decode_reductions(machine: str, **layout: int) -> Any:
    """Seconds of the small all-reduces (those of decoding steps) of the last rank, and of all sends."""
    serving = serving_of("llama-3.1-8b", machine, BUSY, **layout)
    traces = serving.expanded(serving.served(window=(0.0, 1e6)))
    run = simulate(traces, serving.machine, compute="roofline").run()
    trace = run.trace(max(run.ranks))
    rows = np.flatnonzero(trace.is_type(NodeType.COMM_COLL_NODE))
    size = trace.column("comm_size", 0)[rows]
    own = (run.end(max(run.ranks)) - run.start(max(run.ranks)))[rows][size == 8192] * 1e-12
    return own, np.array(transfers(run)) * 1e-12


@pytest.mark.slow
def test_caches_slow_other_traffic_and_are_slowed_by_it(plain: str) -> None:
    """The same stream on the same fabric: only where caches move do all-reduces of one size differ.

    Decoding engines of two devices reduce 8,192 bytes while caches of other requests come in over the
    same links; a cache that comes in during reductions takes longer than alone.
    """
    together, none = decode_reductions(plain, tp=2, replicas=2)
    apart, moves = decode_reductions(plain, prefill=1, decode=1, prefill_tp=2, decode_tp=2)
    alone = together.min()
    assert len(none) == 0
    assert together.max() == pytest.approx(alone, rel=0.01)
    assert apart.min() == pytest.approx(alone, rel=0.01)
    hops = 2 * 2 * 2e-6  # two exchanges over two links each; the rest is bytes over bandwidth
    assert apart.max() - hops == pytest.approx(2 * (alone - hops), rel=0.01)
    closed = 4096 * 131072 / 2 / 100e9 + 2 * 2e-6
    assert moves.min() >= closed * 0.999
    assert moves.max() > closed * 1.0001


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5:4", "the window is empty"),
        ("step:9999", "the run has"),
        ("now", "give FROM:TO"),
        ("900:901", "no step"),
    ],
)
def test_bad_windows_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """With what may be given."""
    with pytest.raises(ConfigError, match=message):
        ck.serve("llama-3.1-8b", "dgx-h100", STREAM, output=tmp_path / "run", expand=text)


def test_every_step_can_be_expanded_by_its_number(tmp_path):
    """A step begins at a whole picosecond, whether its number is even or odd."""
    for number in range(3):
        folder = tmp_path / str(number)
        options = {"output": folder, "expand": f"step:{number}"}
        ck.serve("llama-3.1-8b", "dgx-h100", "poisson{rate=1,n=1,prompt=99,output=3}", **options)
        assert ck.read(folder).world_size == 1


def test_the_card_of_an_expanded_step_says_what_was_in_it(tmp_path):
    options = {"output": tmp_path / "run", "expand": "step:0", "replicas": 2}
    ck.serve("llama-3.1-8b", "dgx-h100", "poisson{rate=1,n=3,prompt=99,output=3}", **options)
    subject = ck.info(tmp_path / "run").subject
    assert subject["steps"].startswith("1 step of serving with 99 tokens, ")
    assert subject["steps"].endswith(" ms as served")
    assert (subject["requests"], subject["plan"]) == ("1", "replicas 2")
    assert "batch" not in subject
