"""Small files of other tools as text, which tests read and the fuzzer mutates."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

HLO = """\
HloModule jit_f, is_scheduled=true, num_partitions=4

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

%fused (p0: f32[16,256], p1: f32[256,64]) -> f32[16,64] {
  %p0 = f32[16,256]{1,0} parameter(0)
  %p1 = f32[256,64]{1,0} parameter(1)
  ROOT %dot = f32[16,64]{1,0} dot(%p0, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%body (state: (s32[], f32[16,64])) -> (s32[], f32[16,64]) {
  %state = (s32[], f32[16,64]{1,0:T(8,128)S(1)}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %v = f32[16,64]{1,0} get-tuple-element(%state), index=1
  %start = f32[16,64]{1,0} all-reduce-start(%v), channel_id=1, replica_groups=[2,2]<=[4], to_apply=%add
  %done = f32[16,64]{1,0} all-reduce-done(%start)
  %moved = f32[16,64]{1,0} collective-permute(%done), channel_id=2, source_target_pairs={{0,1},{1,2},{2,3}}
  ROOT %next = (s32[], f32[16,64]{1,0}) tuple(%i, %moved)
}

%cond (state.1: (s32[], f32[16,64])) -> pred[] {
  %state.1 = (s32[], f32[16,64]{1,0}) parameter(0)
  ROOT %more = pred[] constant(true)
}

ENTRY %main (a: f32[16,256], b: f32[256,64]) -> f32[16,64] {
  %a = f32[16,256]{1,0} parameter(0)
  %b = f32[256,64]{1,0} parameter(1)
  %made = f32[16,64]{1,0} fusion(%a, %b), kind=kOutput, calls=%fused, metadata={op_name="f/dot(general)"}, \
backend_config={"window_config":{"estimated_cycles":"1234"}}
  %zero = s32[] constant(0)
  %first = (s32[], f32[16,64]{1,0}) tuple(%zero, %made)
  %loop = (s32[], f32[16,64]{1,0}) while(%first), condition=%cond, body=%body, \
backend_config={"known_trip_count":{"n":"3"}}
  ROOT %out = f32[16,64]{1,0} get-tuple-element(%loop), index=1
}
"""
"""A module with a fusion, a loop of three rounds, a collective and a message."""
SESSION = (
    '{"arrival_time_ns": 1000000000, "sub_requests": ['
    '{"input_toks": 10, "output_toks": 2, "tool_duration_ns": 5000000}, '
    '{"input_toks": 30, "output_toks": 3}]}'
)
BENCH = json.dumps(
    {"input_lens": [100, 200], "output_lens": [5, 6], "max_concurrency": 4, "request_rate": "inf"}
)
RECORDED = json.dumps({"case": "x", "requests": [{"id": 3, "at": 0.5, "prompt": 10, "out": 4}]})
"""Requests: one session of two turns, a benchmark's result, a recording of an engine."""
_INFRAGRAPH = """\
name: two servers
devices:
- name: server
  components: [{name: xpu, count: N, choice: xpu}, {name: nvsw, count: 1, choice: switch},
               {name: nic, count: N, choice: nic}]
  links: [{name: nvlink, physical: {bandwidth: {gigabytes_per_second: 450}, latency: {ns: 300}}},
          {name: pcie, physical: {bandwidth: {gigabits_per_second: 512}}}]
  edges:
  - {ep1: {component: xpu}, ep2: {component: nvsw}, link: nvlink, scheme: many2many}
  - {ep1: {component: "xpu[0:N]"}, ep2: {component: "nic[0:N]"}, link: pcie, scheme: one2one}
- name: tor
  components: [{name: asic, count: 1, choice: switch}]
links: [{name: eth, physical: {bandwidth: {gigabits_per_second: 400}, latency: {us: 1}}}]
instances: [{name: host, device: server, count: 2}, {name: leaf, device: tor, count: 1}]
edges:
- {ep1: {instance: host, component: nic}, ep2: {instance: "leaf[0]", component: asic}, link: eth,
   scheme: many2many}
"""


def infragraph(devices: int) -> str:
    """Two servers with so many devices, each with a network card, below one switch."""
    return _INFRAGRAPH.replace("N", str(devices))


def write_layer_tables(folder: Path) -> Path:
    """Layers of 10 us + 1 us per token, attention of 5 us + 1 us for 100 tokens of context."""
    folder.mkdir(exist_ok=True)
    names = ("embedding", "layernorm", "qkv_proj", "final_layernorm")
    dense = [f"{name},{n},{10 + n}" for name, n in product(names, (1, 1000))]
    (folder / "a.csv").write_text("\n".join(["layer,tokens,time_us", *dense]))
    (folder / "b.csv").write_text("layer,sequences,time_us\nlm_head,1,100\nlm_head,11,200\n")
    rows = ["prefill_chunk,kv_prefill,n_decode,kv_decode,time_us"]
    for chunk, past, count, kept in product((0, 512), (0, 512), (0, 8), (16, 1016)):
        if (chunk or not past) and (chunk or count):
            rows.append(f"{chunk},{past},{count},{kept if count else 0},{5 + count * kept / 100}")
    (folder / "c.csv").write_text("\n".join(dict.fromkeys(rows)))
    return folder


def forward_pass(
    worker: str, rank: int, number: int, seen_ms: float, prompts: int = 0, decoding: int = 3
) -> str:
    """A line of Dynamo's forward pass metrics: 10 ms that had ended when it was seen."""
    scheduled = {
        "num_prefill_requests": prompts, "sum_prefill_tokens": 128 * prompts,
        "sum_prefill_kv_tokens": 32 * prompts, "var_prefill_length": 0.0,
        "num_decode_requests": decoding, "sum_decode_kv_tokens": 1024 if decoding > 0 else 0,
    }  # fmt: skip
    fpm = {
        "version": 1, "worker_id": worker, "dp_rank": rank, "counter_id": number, "wall_time": 0.01,
        "scheduled_requests": scheduled, "queued_requests": {"num_prefill_requests": 1},
    }  # fmt: skip
    event = {
        "schema": "dynamo.fpm.trace.v1", "source": {"namespace": "default", "producer_id": "41"},
        "capture_mode": "full", "observed_at_unix_ms": 1_782_777_600_000 + seen_ms, "fpm": fpm,
    }  # fmt: skip
    return json.dumps({"timestamp": seen_ms, "event": event})


def gemm_perf(types: tuple[str, ...], latency: float = 0.01) -> str:
    """AIConfigurator's table of products, one of every type given, each a little larger."""
    rows = [
        f"VLLM,0.24.0,NVIDIA H100,gemm,x,{t},{64 << i},512,256,{latency}"
        for i, t in enumerate(types)
    ]
    head = "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency"
    return "\n".join([head, *rows]) + "\n"


def attention_perf(phase: str, window: int = 0) -> str:
    """Its table of attention, of prompts (`context`) or of new tokens (`generation`)."""
    isl, step = (1024, 0) if phase == "context" else (1, 1024)
    rows = [
        f"{phase}_attention,8,{isl},{heads},{keys},128,1,bfloat16,bfloat16,{window},{step},0.025"
        for heads, keys in ((16, 4), (16, 16))
    ]
    head = (
        "op_name,batch_size,isl,num_heads,num_key_value_heads,head_dim,beam_width,attn_dtype,"
        "kv_cache_dtype,window_size,step,latency"
    )
    return "\n".join([head, *rows]) + "\n"


NCCL_PERF = "\n".join(
    [
        "nccl_dtype,num_gpus,message_size,kernel_source,op_name,latency",
        *(
            f"{dtype},{n},{1 << k},NCCL,{name},{0.008 + (1 << k) * width / 2e8}"
            for dtype, width in (("half", 2), ("int8", 1))
            for name in ("all_reduce", "all_gather")
            for n in (2, 8)
            for k in range(9, 24, 2)
        ),
    ]
)
"""Its table of collectives, whose sizes count elements."""
