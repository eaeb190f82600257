"""What passes make of a recording and of a generated workload, column by column."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import chakrakit as ck
from support.kept_results import checksums, compare, of_set
from support.paths import DATA
from support.recorded import linked

PASSES = [
    "select{ranks=0}",
    "select{phases=backward}",
    "select{around=40,hops=2}",
    "compact",
    "edit{scale=0.5,classes=gemm}",
    "edit{add_us=3,on=host}",
    "recost{machine=dgx-a100}",
    "recost{dtypes={gemm: fp32}}",
    "scale-ranks{ranks=8}",
    "scale-ranks{ranks=2}",
    "comm{action=bucket,size=1MB}",
    "comm{action=split,parts=2}",
    "comm{action=split-all-reduce}",
    "comm{action=compress,ratio=2,throughput=100 GB/s}",
    "comm{action=prefetch,calls=1}",
    "comm{action=delay,calls=1}",
    "comm{action=serialize}",
    "comm{action=offload,stream=9}",
    "storage{load=1000000,save=1000000}",
    "portable",
    "anonymize{key=k}",
]


SMALL = {"model": "gpt3-125m", "layers": 2, "seq": 64}
WORKLOADS: dict[str, dict[str, Any]] = {
    "dense": SMALL | {"dp": 2, "tp": 2, "global_batch": 4},
    "sharded": SMALL | {"dp": 4, "data": "fsdp", "global_batch": 8},
    "pipeline": SMALL | {"pp": 2, "dp": 2, "global_batch": 8, "recompute": "full"},
    "experts": {
        "model": "mixtral-8x7b",
        "layers": 1,
        "seq": 64,
        "ep": 4,
        "dp": 4,
        "global_batch": 4,
    },
    "decoding": SMALL | {"kind": "decode", "tp": 2, "concurrency": 3, "new_tokens": 2},
}


@cache
def generated() -> ck.TraceSet:
    """Two layers on eight ranks."""
    return ck.generate(model="llama3.1-8b", layers=2, dp=4, tp=2, global_batch=8, seq=128).traces


@pytest.mark.parametrize("spelled", PASSES)
def test_kept_passes(spelled: str) -> None:
    sets = {"recorded": linked("mlp_ddp_nccl_1"), "generated": generated()}
    figures = {}
    for name, traces in sets.items():
        try:
            result = ck.transform(traces, [spelled])
            figures[name] = of_set(result.traces) | {"report": result.report.to_dict()}
        except ck.ChakraError as refusal:
            figures[name] = {"refused": str(refusal)}
    compare(f"passed-{spelled.partition('{')[0]}-{PASSES.index(spelled)}", figures)


EVERYWHERE = [
    "select{ranks=1}", "select{phases=forward,closed=true}", "select{window_us=[100, 900]}",
    "select{steps=0}", "select{around=7,hops=3}", "select{groups=1}",
    "compact{keep_annotations=true}", "edit{scale=2,phases=backward}", "edit{add_us=5,names=.*mm.*}",
    "edit{scale=0.25,on=device}", "edit{scale=3,nodes=[3, 9, 27]}",
    "recost{machine=dgx-h100}", "recost{machine=mi300x,compute=roofline}",
    "recost{machine=dgx-a100,measured_on=dgx-h200}", "recost{scale={gemm: 2.0}}",
    "recost{dtypes={gemm: fp8}}", "scale-ranks{ranks=6}", "scale-ranks{ranks=16}",
    "comm{action=bucket,size=300KB,phases=backward}", "comm{action=split,parts=3,min_size=1000}",
    "comm{action=compress,ratio=4,throughput=20 GB/s,decode_throughput=50 GB/s}",
    "comm{action=prefetch,calls=2,types=all-gather}", "comm{action=delay,calls=2}",
    "comm{action=serialize,groups=1}", "comm{action=prioritize,priority=2}",
    "comm{action=algorithm,algorithm=ring}",
    "storage{load=5000,save=70000,wait=false,source=disk,target=store}",
    "graphed{gap_us=2}", "fused-optimizer{host_us=50,slower=1.5}", "fused-optimizer{machine=dgx-h100}",
    "fused-attention", "fused-attention{backend=flash,slower=1.2}", "channels-last",
    "channels-last{slower=1.3}",     "launched{launch_us=20,gap_us=3}", "unsync", "portable",
    "portable{one_at_a_time=true}", "anonymize{key=k,times=durations}", "anonymize{key=k,keep=names}",
    "offload{tier=host,keep=0.25,ahead=2,chunks=4}", "offload{tier=host,yields=true}",
]  # fmt: skip
RECORDED = ["gpt_pp_2", "two_streams", "moe_tiny", "decode_graph"]
ON_DEVICES = ["graph_attention", "resnet18_fp32", "gan", "mamba", "dlrm_sparse", "lstm", "unfused"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow if n != "lstm" else ())
        for n in [*RECORDED, *ON_DEVICES]
    ],
)
def test_kept_passes_over_many_recordings(name: str) -> None:
    """Every pass, with fields that are not its defaults, or how it refuses."""
    device = "h200_faults/unfused_attention" if name == "unfused" else f"h200/{name}"
    run = linked(name) if name in RECORDED else ck.link(DATA / device).run
    compare(f"passed-{name}", {spelled: of_pass(run, spelled) for spelled in EVERYWHERE})


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n != "dense" else ()) for n in WORKLOADS]
)
def test_kept_passes_over_generated_workloads(name: str) -> None:
    """The same of workloads that never ran, under plans of all kinds."""
    traces = ck.generate(**WORKLOADS[name]).traces
    compare(f"passed-{name}", {spelled: of_pass(traces, spelled) for spelled in EVERYWHERE})


def of_pass(traces: ck.TraceSet, spelled: str) -> str:
    """A checksum of what a pass makes and reports, or its refusal."""
    try:
        result = ck.transform(traces, [spelled])
    except ck.ChakraError as refusal:
        return str(refusal)
    figures = of_set(result.traces) | {"report": result.report.to_dict()}
    return checksums({"all": figures})["all"]


DIRECTIVES = {
    "replicated": ["replicate:ranks=4"],
    "optimizer": ["replicate:ranks=4", "shard:what=optimizer"],
    "gradients": ["replicate:ranks=4", "shard:what=gradients,bucket_mb=0.02"],
    "parameters": ["replicate:ranks=4", "shard:what=parameters"],
    "stages": ["place:stages=[1,3]", "order", "replicate:ranks=2"],
    "interleaved": ["place:stages=[1,1,1,1]", "order:schedule=1f1b"],
    "batches": ["split:ways=2", "replicate:ranks=2"],
    "stream": ["place:stages=[2,2]", "order", "stream:match=optimizer,to=9"],
}


def test_kept_directives() -> None:
    """What strategies make of one global step of four layers."""
    model = {"family": "decoder", "layers": 4, "hidden": 64, "heads": 4, "vocab": 1000}
    plan = {"model": model, "plan": {"data": "zero1"}, "step": {"seq": 32, "global_batch": 8}}
    whole = ck.generate(plan).traces
    results = {name: ck.transform(whole, steps).traces for name, steps in DIRECTIVES.items()}
    compare("directives", {name: of_set(traces) for name, traces in results.items()})
