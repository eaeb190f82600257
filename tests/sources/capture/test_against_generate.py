"""Captured and generated: the same model under the same plan does the same work and communication.

The generator is told what PyTorch does: gradients in the model's type, one FSDP unit for what no layer holds,
and without sequence parallelism queries, keys and values as products that each reduce their gradient. With
it, gradients of norms are partial sums until an operator of the optimizer needs them: a fused one has one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chakrakit.commands import group

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1024,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
}
EXPERTS = {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
CASES = {
    "ddp": ("--dp 4 --data ddp --global-batch 4", 4, "--dp 4"),
    "fsdp": ("--dp 4 --data fsdp --units root --global-batch 4", 4, "--dp 4 --data fsdp"),
    "tp": (
        "--tp 2 --no-vocab-parallel --no-sequence-parallel --no-shared-reduce --no-fused "
        "--global-batch 1",
        2,
        "--tp 2",
    ),
    "tp sp": (
        "--tp 2 --vocab-parallel --sequence-parallel --global-batch 1",
        2,
        "--tp 2 --sp --vocab-parallel --fused",
    ),
    "1f1b": ("--pp 2 --schedule 1f1b --global-batch 4", 2, "--pp 2 --micro-batches 4"),
    "gpipe": (
        "--pp 2 --schedule gpipe --global-batch 4",
        2,
        "--pp 2 --micro-batches 4 --schedule gpipe",
    ),
    "ep": ("--dp 4 --ep 4 --data ddp --global-batch 4", 4, "--dp 4 --ep 4 --experts 8"),
    "ep in ddp": ("--dp 4 --ep 2 --data ddp --global-batch 4", 4, "--dp 4 --ep 2 --experts 8"),
    "ep in fsdp": (
        "--dp 4 --ep 4 --data fsdp --units root --global-batch 4",
        4,
        "--dp 4 --ep 4 --experts 8 --data fsdp",
    ),
    "ep and experts in fsdp": (
        "--dp 4 --ep 2 --data fsdp --units root --global-batch 4",
        4,
        "--dp 4 --ep 2 --experts 8 --data fsdp",
    ),
}


def generated(folder: Path, plan: str) -> Any:
    model = {**MODEL, **EXPERTS} if "--ep" in plan else MODEL
    (folder / "config.json").write_text(json.dumps(model))
    fixed = "--seq 128 --dtype bf16 --micro-batch 1 --grad-dtype bf16 --no-clip --no-loss-reduce"
    command = ["generate", "--model", str(folder / "config.json"), "--dry-run", "--json"]
    done = CliRunner().invoke(group, [*command, *fixed.split(), *plan.split()])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_work_parameters_and_bytes_are_equal(
    case: str, captured: Callable[..., Any], tmp_path: Path
) -> None:
    plan, ranks, arguments = CASES[case]
    wanted = generated(tmp_path, plan)
    report, _ = captured("llama", *arguments.split(), ranks=ranks)
    assert [k.flops for k in report.kinds] == [c["flops"] for c in wanted["per_rank"]]
    assert [k.ranks for k in report.kinds] == [c["ranks"] for c in wanted["per_rank"]]
    stages = 2 if "--pp" in plan else 1
    held = [k.parameters for k in report.kinds]
    assert (sum(held) if stages > 1 else held[0]) == wanted["parameters"]
    sent, expected = Counter[str](), Counter[str]()
    for c in report.collectives:
        sent[c.type] += c.bytes
    for c in wanted["per_rank"][0]["comm"]:
        expected[c["type"]] += c["bytes"]
    assert sent == expected
