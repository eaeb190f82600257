"""The command and the function: figures, errors with their arithmetic, the Run."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import chakrakit as ck
from chakrakit.commands import group
from chakrakit.errors import ConfigError
from chakrakit.serving import serving_of
from chakrakit.serving.session import attention_kinds

STREAM = "poisson{rate=20,n=60,prompt=300,output=20,seed=1}"
BASE = ("llama-3.1-8b", "dgx-h100", STREAM)


def chakra(*arguments: str) -> dict[str, object]:
    done = CliRunner().invoke(group, ["serve", *arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.output))


def test_the_command_prints_what_it_promises(tmp_path: Path) -> None:
    """Every key of the interface, and a Run that validates with one row per request."""
    run = tmp_path / "run"
    options = [
        "--model",
        "llama-3.1-8b",
        "--machine",
        "dgx-h100",
        "--tp",
        "1",
        "--requests",
        STREAM,
    ]
    found = chakra(*options, "--engine", "vllm{max_num_batched_tokens=8192}", "-o", str(run))
    assert found["requests"] == found["finished"] == 60
    for figure in ("ttft_ms", "tpot_ms", "e2e_ms"):
        assert set(found[figure]) == {"mean", "p50", "p90", "p95", "p99"}  # type: ignore[call-overload]
    assert {"output_tokens_per_s", "goodput", "kv", "preemptions", "cache_hit_rate"} < set(found)
    assert {"steps", "energy_joules"} < set(found)
    assert {"capacity_tokens", "peak_tokens"} <= set(found["kv"])  # type: ignore[call-overload]
    table = pq.read_table(run / "requests.parquet")
    names = "id arrival_s scheduled_s first_token_s finish_s prompt output cached preempted"
    assert set(names.split()) <= set(table.column_names)
    assert table.num_rows == 60
    assert ck.validate(run).ok
    assert ck.analyze(run) is not None


def test_a_run_is_replaced_by_the_next(tmp_path: Path) -> None:
    """The same output twice: the second wins, and the bytes are those of the first."""
    paths = []
    for _ in range(2):
        ck.serve(*BASE, output=tmp_path / "run")
        paths.append((tmp_path / "run" / "requests.parquet").read_bytes())
    assert paths[0] == paths[1]


def test_times_are_in_order_and_tpot_is_the_mean_gap(tmp_path: Path) -> None:
    """tpot is (last − first) / (output − 1) of each request."""
    result = ck.serve(*BASE, output=tmp_path / "run")
    rows = pq.read_table(tmp_path / "run" / "requests.parquet").to_pylist()
    each = [(r["finish_s"] - r["first_token_s"]) / (r["output"] - 1) * 1e3 for r in rows]
    assert result.tpot_ms.mean == pytest.approx(sum(each) / len(each))
    assert all(
        r["arrival_s"] <= r["scheduled_s"] < r["first_token_s"] < r["finish_s"] for r in rows
    )


def test_a_service_level_counts_who_meets_it() -> None:
    """All meet a loose one, none a tight one."""
    assert ck.serve(*BASE, slo="ttft=100000").attained == 1.0
    assert ck.serve(*BASE, slo="tpot=0.001").goodput == 0.0


def test_capacity_is_memory_less_what_else_is_there() -> None:
    """The sum is in the result, and giving blocks replaces it."""
    kv = ck.serve(*BASE).kv
    assert "85.0 GB of memory, of which 90% may be used, less 16.1 GB of weights" in kv.arithmetic
    assert kv.capacity_tokens == kv.blocks * 16
    assert ck.serve(*BASE, kv_blocks=777).kv.capacity_tokens == 777 * 16
    less = ck.serve(*BASE, engine="vllm{content_gib=4}").kv
    assert (kv.blocks - less.blocks) * 16 * 131_072 == pytest.approx(4 * 2**30, rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kv_blocks": 10}, "can never fit: 300 prompt and 20 output tokens need 20 blocks of 16"),
        (
            {"kv_blocks": 99, "engine": "vllm{num_gpu_blocks_override=98}"},
            "--kv-blocks 99 against 98 blocks",
        ),
        ({"model": "llama-3.1-405b"}, "no room for a cache: 85.0 GB of memory"),
        ({"tp": 3}, "does not divide the 32 heads"),
        ({"tp": 16}, "needs 16 devices; dgx-h100 has 8"),
        ({"engine": "vllm{max_num_seqs=0}"}, "max_requests is 0"),
        ({"engine": "vllm{max_seqs=3}"}, "no option 'max_seqs'"),
        ({"engine": "orca"}, "no engine 'orca'"),
        ({"engine": "vllm{max_model_len=100}"}, "has 320 tokens; the engine takes 100"),
        (
            {"engine": "vllm{max_num_batched_tokens=128,enable_chunked_prefill=false}"},
            "prompt of 300 tokens; without chunks the budget",
        ),
        ({"ep": 2}, "--ep 2 needs a model with experts"),
        ({"prefill": 1}, "prefill and decode engines come together"),
        ({"slo": "fast=3"}, "--slo 'fast=3'"),
        ({"layers": "nowhere"}, "--layers nowhere: no such file"),
    ],
)
def test_what_cannot_be_is_refused_with_the_arithmetic(
    changes: dict[str, object], message: str
) -> None:
    """A sentence that says what, where and what to do."""
    given = {"model": BASE[0], "machine": BASE[1], "requests": BASE[2], **changes}
    with pytest.raises(ConfigError, match=message):
        ck.serve(**given)  # type: ignore[arg-type]


def test_more_parallel_engines_are_faster_and_cost_the_same_work() -> None:
    """Tensor parallelism shortens tokens; replicas shorten queues; all serve every request."""
    alone = ck.serve(*BASE)
    wide = ck.serve(*BASE, tp=4)
    two = ck.serve(*BASE, replicas=2, router="least")
    assert wide.tpot_ms.mean < alone.tpot_ms.mean
    assert two.e2e_ms.mean < alone.e2e_ms.mean
    assert two.devices == 2
    assert wide.devices == 4


def test_data_parallel_attention_steps_together() -> None:
    """Ranks of a model with experts wait for each other: their steps have the same starts and ends."""
    served = serving_of(
        "mixtral-8x7b", "dgx-h100", STREAM, "vllm{gpu_memory_utilization=0.95}", tp=2, dp=2, ep=2
    ).served(record_steps=True)
    steps = served.outcome.steps
    each = [sorted(steps["end"][steps["engine"] == e].tolist()) for e in (0, 1)]
    assert each[0] == each[1]


def test_disaggregated_pools_move_every_cache() -> None:
    """Each request with more than one token moves once, alone in the closed form's time."""
    served = serving_of(*BASE, prefill=1, decode=1)
    done = served.served().outcome
    assert sorted(done.moves["request"].tolist()) == list(range(60))
    setup = served.setup
    expected = setup.handover_latency + 300 * setup.handover_seconds_per_token
    shortest = (done.moves["end"] - done.moves["start"]).min() * 1e-12
    assert shortest == pytest.approx(expected, rel=1e-6)
    assert setup.handover_seconds_per_token >= 131072 / 450e9


def test_figures_per_output_token_are_absent_where_no_request_has_a_second_one():
    result = ck.serve("llama-3.1-8b", "dgx-h100", "poisson{rate=4,n=3,prompt=99,output=1}")
    assert result.tpot_ms is None
    assert result.itl_ms is None
    assert result.ttft_ms.mean == result.e2e_ms.mean > 0
    assert '"tpot_ms":null' in msgspec.json.encode(result).decode()


@pytest.mark.parametrize(("prompt", "said"), [(2000, False), (2040, True)])
def test_requests_that_are_longer_than_the_model_takes_are_named(prompt, said):
    """GPT-3 has a table of 2,048 positions."""
    stream = f"poisson{{rate=4,n=3,prompt={prompt},output=16}}"
    notes = ck.serve("gpt3-125m", "dgx-h100", stream).notes
    text = "warning: 3 of 3 requests are longer than the 2,048 tokens"
    assert any(note.startswith(text) for note in notes) == said


@pytest.mark.parametrize(
    ("tokens", "drafts", "said"),
    [(1152, 3, True), (1152, 1, False), (2048, 3, False)],
    ids=["room for 32 that draft", "room for 64", "a larger step"],
)
def test_prompts_that_wait_for_room_beside_drafts_are_said(tokens, drafts, said) -> None:
    """64 requests of 1,024 tokens: with three drafts each step decodes up to 256 tokens beside a prompt."""
    engine = (
        f"trtllm{{enable_chunked_prefill=false,max_num_tokens={tokens},max_draft_len={drafts}}}"
    )
    requests = "closed{concurrency=64,n=128,prompt=1024,output=32}"
    notes = ck.serve("llama-3.1-8b", "dgx-h100", requests, engine).notes
    assert any("prompts wait until some end" in note for note in notes) == said


SPARSE = {
    "model_type": "deepseek_v32", "hidden_size": 512, "num_hidden_layers": 4, "intermediate_size": 1024,
    "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1024, "q_lora_rank": 128,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048, "first_k_dense_replace": 2,
    "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 256,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
}  # fmt: skip


def test_sparse_latent_attention_has_an_index_in_eight_bits(tmp_path: Path) -> None:
    """Its keys are kept in them, its scores computed at their rate, and notes call it what it is."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(SPARSE))
    serving = serving_of(str(file), "dgx-h200", "closed{concurrency=1,n=1,prompt=512,output=4}")
    assert attention_kinds(serving.model) == ["latent", "sparse"]
    operators = serving.operators(1)
    assert operators.cache_bytes_per_token(8192) == 4 * (576 * 2 + 132)
    assert {work.dtype for work in operators.attention} == {"bf16", "fp8"}
    (note,) = (n for n in serving.served().result().notes if "leave what the constants" in n)
    assert "sparse attention" in note
    assert "multi-head" not in note
    assert "weights" not in note  # those of FP8 were fitted, whatever a file calls them
