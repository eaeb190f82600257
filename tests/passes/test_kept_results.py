"""What passes make of a recording and of a generated workload, column by column."""

from __future__ import annotations

from functools import cache

import pytest

import chakrakit as ck
from support.kept_results import compare, of_set
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
