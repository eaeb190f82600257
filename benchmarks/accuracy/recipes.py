"""What public recipes and code of frameworks say, where their tables do not.

Rules by model, system, precision and release. Of models with experts: scripts/performance/configs of
Megatron-Bridge (deepseek, qwen, qwen3, gpt_oss: workload_base_configs and *_llm_pretrain),
src/megatron/bridge/perf_recipes, its issue 1731 and its pull requests 1760, 3490 and 3561. Of torchtitan: its
train_configs, torchtitan/parallelisms (parallelize_llama, pipelining_utils) of the reports' time, its issue
773 and its pull requests 437 and 781. A rule holds for all rows that it names, never for one figure.
"""

from __future__ import annotations

import re
from typing import Any

EXPERTS = ("Qwen3", "DeepSeek", "GPT OSS")
WHOLE_STEPS = "26.06"
"""Recipes of MXFP8 experts on GB200 and GB300 capture whole steps from here on."""
LAYERS = "26.02"
"""Recipes capture attention, router and what prepares the exchange from here on, on some systems."""
NODES = "26.02"
"""HybridEP is for nodes of eight GPUs as well from here on."""
RACKS = ("DGX-GB200", "DGX-GB300")


def has_experts(row: dict[str, str]) -> bool:
    return row["model"].startswith(EXPERTS)


def drops_tokens(row: dict[str, str]) -> bool:
    """Every expert takes as many tokens, those beyond are dropped: shapes are known before a step."""
    return "tokendrop" in row["model"]


def framework_of(row: dict[str, str]) -> str:
    """What launches a step: CUDA graphs of all of it, of layers without experts, or the host."""
    if not has_experts(row) or (_graphs_whole_steps(row) and fuses_experts(row)):
        return "megatron"
    if _graphs_whole_steps(row):
        return "megatron-unfused"
    return "megatron-layers" if _graphs_layers(row) else "megatron-eager"


def fuses_experts(row: dict[str, str]) -> bool:
    """Products of experts with their activations, casts and biases in one kernel (CuTe DSL)."""
    return row["precision"] == "MXFP8" and row["release"] >= WHOLE_STEPS


def narrows_head(row: dict[str, str]) -> bool:
    """The output layer in FP8 as well (`fp8_output_proj`)."""
    return row["model"] == "GPT OSS 120B" and fuses_experts(row) and row["system"] in RACKS


def _graphs_whole_steps(row: dict[str, str]) -> bool:
    if drops_tokens(row):
        on = ("DGX-GB200", "DGX-B200") if "30B" in row["model"] else ("DGX-GB200",)
        return row["model"].startswith("Qwen3") and row["system"] in on
    return fuses_experts(row) and row["system"] in RACKS


def _graphs_layers(row: dict[str, str]) -> bool:
    """Partial graphs: not on H100, not where layers without experts are computed again, few on B200."""
    model, system = row["model"], row["system"]
    if row["release"] < LAYERS or system == "DGX-H100":
        return False
    if model == "GPT OSS 120B":
        return system in ("DGX-GB300", "DGX-B300")
    if model.startswith("DeepSeek"):
        return system != "DGX-B200" or row["pp"] == "8"
    if "30B" in model:
        return row["mbs"] != "1"
    return system in RACKS


def exchange_of(row: dict[str, str]) -> dict[str, Any]:
    """How tokens travel: Megatron's all-to-all, or once to each rank or node; beside computation or not."""
    if not has_experts(row):
        return {}
    way: dict[str, Any] = {"exchange_overlap": _overlaps(row)}
    if not _all_to_all(row):
        way |= {"exchange": "once", "exchange_node": 0 if row["system"] in RACKS else 8}
    return way


def _all_to_all(row: dict[str, str]) -> bool:
    """What is left to all-to-all: early releases, Qwen's 235B on DGX, most of GPT OSS."""
    model, system, release = row["model"], row["system"], row["release"]
    if model == "GPT OSS 120B":
        on_b300 = system == "DGX-B300" and row["ep"] == "8"
        return row["precision"] != "MXFP8" and not on_b300
    on_dgx = system not in RACKS
    before = release == "25.09" or (on_dgx and release < NODES)
    return before or (on_dgx and model.startswith("Qwen3_235B"))


def _overlaps(row: dict[str, str]) -> bool:
    """Exchanges beside computation: never in pipelines without virtual stages, which Megatron refuses.

    Release 25.09 has it by option alone; 25.11 had it in all pipelines where that holds (pull request 1760
    took it from B200 again, with the virtual stages, "due to CPU overhead").
    """
    model, system = row["model"], row["system"]
    virtual = row["pp"] == "1" or row["vp"] not in ("", "1")
    if not virtual or row["release"] == "25.09":
        return False
    if row["release"] == "25.11":
        return row["pp"] != "1"
    if fuses_experts(row):
        return True
    if model == "GPT OSS 120B":
        return system == "DGX-GB200" and row["gbs"] == "1280"
    if model.startswith("DeepSeek"):
        return system == "DGX-B200" and row["ep"] == "32"
    return model.startswith("Qwen3_235B") and system in ("DGX-H100", "DGX-B300")


def split_of(row: dict[str, str], pieces: int) -> list[int]:
    """Layers of each virtual stage, where recipes do not cut them evenly; empty: as even as possible.

    DeepSeek-V3's layouts leave the loss alone, or with few layers. Models of 94 and 126 layers count
    embedding and loss as a layer each (`account_for_embedding_in_pipeline_split`, `account_for_loss_in_…`).
    """
    if pieces == 1:
        return []
    if row["model"].startswith("DeepSeek"):
        each = -(-61 // pieces)
        first = [1] if pieces == _MOST_PIECES else []
        middle = [each] * (pieces - 1 - len(first))
        return [*first, *middle, 61 - sum(first) - sum(middle)]
    layers = next((n for name, n in _COUNTED.items() if row["model"].startswith(name)), 0)
    if not layers or (layers + 2) % pieces:
        return []
    each = (layers + 2) // pieces
    return [each - 1, *[each] * (pieces - 2), each - 1]


# --- torchtitan ---------------------------------------------------------------------------------


def titan_plan(row: dict[str, str], pp: int) -> dict[str, Any]:
    """What torchtitan does beyond the degrees of a row.

    Activations are [batch, sequence, width], so that gathers and scatters over the sequence have a copy
    beside them ("an extra aten.cat after each collective", pull request 437), but not with async TP.
    Pipelines keep gathered parameters, reduce gradients once, and have two stages for each rank where they
    are interleaved.
    """
    way: dict[str, Any] = {
        "recompute": _TITAN_CHECKPOINTS[row["recompute"].partition(" ")[0]],
        "tp_overlap": "Async" in row["technique"],
        "sequence_dim": "second",
        "data": "fsdp",
    }
    if pp > 1:
        way |= {"reshard": "never", "sync": "step"}
    if "Interleaved" in row["technique"]:
        way |= {"schedule": "interleaved", "chunks": 2}
    return way


def titan_micro_batch(row: dict[str, str], pp: int) -> int:
    """Sequences of a micro-batch: what enters a pipeline is cut into as many as it has ranks.

    That was the default until pull request 781 (January 2025) made it the number of stages.
    """
    local = _LOCAL_BATCH.search(row["note"])
    return int(local[1]) // pp if local else int(row["mbs"])


def titan_split(layers: int, stages: int) -> list[int]:
    """Layers of each stage: those that are over go to the stages after the first."""
    each, over = divmod(layers, stages)
    return [each + (0 < stage <= over) for stage in range(stages)]


def titan_framework(row: dict[str, str]) -> str:
    if "rowwise" in row["precision"]:
        return "torchtitan-rowwise"
    return "torchtitan" if "compile" in row["technique"] else "torchtitan-eager"


_TITAN_CHECKPOINTS = {"full": "needed", "selective": "operators"}
"""Checkpoints of PyTorch stop where gradients need no more, and compilers drop it; `selective` in the
configuration of 8B is `op`, the policy of parallelize_llama that saves attention, reductions and every other
product."""
_LOCAL_BATCH = re.compile(r"local batch (\d+)")
_MOST_PIECES = 32
"""Pieces at which the first of DeepSeek-V3's has one layer and the last none."""
_COUNTED = {"Qwen3_235B": 94, "LLAMA3.1_405B": 126}
