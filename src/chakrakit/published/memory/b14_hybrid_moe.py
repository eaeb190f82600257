"""B14, local inference of a large mixture of experts on a CPU and one or two GPUs.

Prefill streams the experts of every layer over PCIe while the layer before computes (the pass `offload` on
a generated prefill of DeepSeek-V3); the comparator leaves them where they are and computes them on the CPU.
Decode computes the few experts of a token on the CPU, at the speed of the host's memory.

Calibrated inputs: PCIe 5.0 x16 at 50 GB/s, FP8 products at 400 TFLOP/s of an RTX 5090 of which 60 % are
reached, host memory of 500 GB/s (two sockets of twelve channels of DDR5, of which some 55 % are reached),
20 TFLOP/s of AVX-512 for experts on the CPU, and 0.56 bytes for a weight in INT4. Only the experts on the CPU
are in INT4; what the GPU computes stays in FP8.
"""

from __future__ import annotations

from functools import cache

from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.passes import Offload
from chakrakit.published import (
    Case,
    Claim,
    Figures,
    Setting,
    Study,
    least,
    most,
    seconds_of,
    unsure,
)
from chakrakit.published.memory.local_experts import decode, prefill
from chakrakit.trace.sets import TraceSet

PCIE, HOST_MEMORY, CPU = 50e9, 500e9, 20e12


@cache
def site(gpus: int, seed: int) -> Machine:
    """RTX 5090s on PCIe; the CPU is a unit of each, with its share of cores and host memory."""
    gpu = {"bf16": 210e12} | dict.fromkeys(("fp8", "int4"), 400e12)
    units = {
        "gpu": {"peak": gpu},
        "cpu": {"peak": dict.fromkeys(gpu, CPU / gpus), "bandwidth": HOST_MEMORY / gpus},
    }
    device = {
        "name": "rtx-5090",
        "peak": {"fp8": 400e12, "bf16": 210e12},
        "memory": "32 GB",
        "memory_bandwidth": "1.79 TB/s",
        "compute_efficiency": 0.6,
        "memory_efficiency": 0.8,
        "units": units,
    }
    level = {"topology": "switch", "size": gpus, "bandwidth": PCIE, "latency": "5 us"}
    store = {"host": {"kind": "local", "bandwidth": PCIE * gpus, "latency": "10 us"}}
    return unsure(machine({"device": device, "network": [level], "storage": store}), seed)


@cache
def work(what: str, tokens: int, gpus: int, stream: bool, ahead: int, keep: float) -> TraceSet:
    """The step of all GPUs: a whole prompt, or one token."""
    if what == "prefill":
        traces = prefill(tokens, gpus, on_cpu=not stream)
        return traces | Offload(experts=True, ahead=ahead, keep=keep) if stream else traces
    return decode(what, gpus)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Tokens a second of a prompt or of decoding."""
    step = (case["what"], case["tokens"], case["gpus"])
    traces = work(*step, setting["stream"], setting["ahead"], setting["keep"])
    seconds = seconds_of(traces, site(case["gpus"], seed))
    count = case["tokens"] if case["what"] == "prefill" else 1
    figures = {"seconds": seconds, "tokens_per_s": count / seconds}
    return figures | {f"{case['what']}_{case['gpus']}": count / seconds}


def one(what: str, tokens: int, gpus: int) -> Case:
    """A prompt, or decoding."""
    return {"what": what, "tokens": tokens, "gpus": gpus}


CASES = [
    *(one("prefill", n, 1) for n in (1024, 8192, 32768)),
    one("prefill", 45056, 2),
    one("int4", 1, 1),
    one("fp8", 1, 1),
]
STUDY = Study(
    id="B14",
    system="Hybrid CPU-GPU inference of local experts",
    family="memory",
    strength="strong",
    claims=[
        Claim(
            "1,200 tokens/s of a prompt of 32K, within 25 %",
            900,
            1500,
            figure="prefill_1",
            where={"tokens": 32768},
        ),
        Claim("1,800 tokens/s of 45K on two GPUs, within 25 %", 1350, 2250, figure="prefill_2"),
        Claim("28 tokens/s of decoding in INT4, within 15 %", 23.8, 32.2, figure="int4_1"),
        Claim("21.5 tokens/s in FP8, within 15 %", 18.3, 24.7, figure="fp8_1"),
    ],
    rests_on={
        "loads that overlap with computing": "passes/tiers/offload.py",
        "a CPU and a GPU in one rank": "machines/device/units.py",
    },
    cases=lambda quick: [CASES[0], CASES[2], CASES[4]] if quick else CASES,
    sides={
        "streamed": [{"stream": True, "ahead": a, "keep": 0.0} for a in (1, 2)],
        "experts on the CPU": [{"stream": False, "ahead": a, "keep": 0.0} for a in (1, 2)],
    },
    idea="streamed",
    measure=measure,
    better=("seconds", "min"),
    health="tokens_per_s",
    gone=lambda case: case["what"] != "prefill",
    ablate={"streaming": {"stream": False}},
    predictions={
        "long prompts gain": lambda t: least(t.gains(tokens=32768)) - 1.02,
        "tokens/s grow with the prompt until computing binds": lambda t: (
            least(t.gains(tokens=32768)) - most(t.gains(tokens=1024))
        ),
        "a prompt of 1,024 tokens is faster on the CPU": lambda t: 1 - most(t.gains(tokens=1024)),
        "decoding is the same for both": lambda t: 1.02 - most(t.gains(what="int4")),
    },
    decides="bytes of weights: the experts of a token on the CPU (20 GB in FP8, 0.56 times that in INT4) and "
    "what the GPU reads (attention and shared experts, some 16 GB in FP8 in both). So INT4 decodes 1.5 times "
    "as fast as FP8, where the published rates are 1.3 times apart.",
    amended="after a first run (34 tokens/s in INT4), what the GPU reads stays in FP8 when the experts on "
    "the CPU are in INT4: that is how hybrid engines convert them.",
    cannot_say="Prefill and decode at once on the same weights, and the kernels of AVX-512; rates of host "
    "memory and of the CPU went in.",
)
