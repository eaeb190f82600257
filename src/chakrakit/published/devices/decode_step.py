"""A decode step of Llama on one H200: launched kernel by kernel or as a graph, at a clock or below a cap."""

from __future__ import annotations

from functools import cache
from typing import Any

from chakrakit.machines import load_machine
from chakrakit.machines.device import Clocks, Draw, work_model
from chakrakit.published import Case
from chakrakit.published.devices.decode_power import program_of
from chakrakit.simulator.engine import Disturbance, SimulationOptions
from chakrakit.simulator.results import simulate
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.description import Decoder, Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named

MODELS = {"8b": "llama3.1-8b", "1b": "llama3.2-1b"}
NOISE = 0.01
TOP_MHZ = 1980
GAP_US = {"graph": 0.4, "eager": 1.4}
"""Between two kernels at the highest clock, in proportion to its cycles: what steps of one sequence take as a
graph beyond their kernels (0.45 and 0.37 us), and 64 sequences of 8B more if every kernel is launched."""
QUERIES, QUERY_BYTES = "attention.qkv", 2
"""The product that gives queries, after which small kernels read and write them, in bf16."""
KEPT = ("inputs_shapes", "num_ops", "tensor_size", "dtype", "op_type", "phase")


@cache
def kernels(model: str, batch: int, small: int) -> TraceSet:
    """The kernels of one step, with so many small ones in a layer beyond those that are generated."""
    shape = Step(kind="decode", seq=2048, global_batch=batch, micro_batch=batch, new_tokens=1)
    built = model_named(MODELS[model])
    assert isinstance(built, Decoder)
    traces = generate(Workload(model=built, plan=Plan(data="none"), step=shape))
    if not small:
        return traces
    queries = batch * built.hidden
    work: dict[str, Any] = {"num_ops": queries, "tensor_size": 2 * QUERY_BYTES * queries}
    t, last = TraceBuilder(), list[int]()
    for node in traces.trace(0).nodes.to_pylist():
        last = [t.comp(node["name"], stream=0, deps=last, **_kept(node))]
        for _ in range(small if node["name"].endswith(QUERIES) else 0):
            last = [t.comp("small", stream=0, deps=last, dtype="bf16", op_type="vector", **work)]
    return TraceSet.of(t)


@cache
def step(model: str, batch: int, small: int, host_ms: float) -> TraceSet:
    """One step; where a host takes these milliseconds for it, every kernel waits for its launch."""
    traces = kernels(model, batch, small)
    if not host_ms:
        return traces
    trace = traces.trace(0)
    # The next step's launches run beside this one's last kernel, the head.
    head = work_model("auto").costs(trace, load_machine("dgx-h200:1").devices[0]).ps[-1]
    each = max(1, int((host_ms * 1e6 - int(head) / 1e3) / len(trace)))
    t, last, host = TraceBuilder(), -1, -1
    for node in trace.nodes.to_pylist():
        before = [host] if host >= 0 else []
        host = t.comp("launch", is_cpu_op=True, tid=1, duration_ns=each, deps=before)
        deps = [host, last] if last >= 0 else [host]
        last = t.comp(node["name"], stream=0, deps=deps, **_kept(node))
    return TraceSet.of(t)


def _kept(node: dict[str, Any]) -> dict[str, Any]:
    return {k: node[k] for k in KEPT if node.get(k) is not None}


def run(case: Case, clocks: Clocks, seed: int, host_ms: float) -> tuple[float, float]:
    """Seconds and joules of a step; it takes a host's time where that is longer than the device's."""
    device = _run(case, clocks, seed, 0.0)
    return _run(case, clocks, seed, host_ms) if host_ms * 1e-3 > device[0] else device


def _run(case: Case, clocks: Clocks, seed: int, host_ms: float) -> tuple[float, float]:
    """The same; the device pauses between kernels where no host lets it wait."""
    options = SimulationOptions(clocks=clocks, disturbance=Disturbance(NOISE, seed))
    machine, small = load_machine("dgx-h200:1"), program_of(case).small
    traces = step(case["model"], case["batch"], small, host_ms)
    done = simulate(traces, machine, compute=work_model("auto"), options=options).summary
    device = machine.devices[0]
    assert device.dynamic is not None
    draw = Draw(constants=device.dynamic, share=(done.clock_mhz or TOP_MHZ) / TOP_MHZ)
    gaps = 0.0 if host_ms else len(traces.trace(0)) * GAP_US[case["how"]] * 1e-6 / draw.share
    between = (device.idle_power + draw.clock_watts) * gaps
    return done.makespan_s + gaps, float(done.energy_joules or 0.0) + between
